#include "bench/drive_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "exec/memory/arena.h"
#include "exec/runtime/board.h"
#include "exec/runtime/recorder.h"
#include "exec/store/block_store.h"
#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kFillBytes = std::int64_t{64} << 20;

bool is_drive(LaneKind kind) { return kind == LaneKind::nvme_read || kind == LaneKind::nvme_write; }

std::span<std::byte> all(const Arena& arena) { return {arena.data(), static_cast<std::size_t>(arena.bytes())}; }

/// No two pages alike, lest a drive store one of them.
void fill_random(std::span<std::byte> memory) {
  std::mt19937_64 random(1);
  for (std::size_t at = 0; at < memory.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(memory.data() + at, &word, 8);
  }
}

class Replay {
 public:
  Replay(const ReplayOptions& options, const Schedule& schedule, const Timeline& predicted)
      : schedule_(schedule),
        steps_(options.steps),
        seconds_(schedule.ops.size(), 0),
        before_(schedule.ops.size()),
        board_(schedule.ops.size()),
        recorder_(schedule, options.steps) {
    for (const OpTime& time : predicted.ops)
      if (time.step == predicted.first_step + predicted.steps - 1)
        seconds_[static_cast<std::size_t>(time.op)] = time.end - time.start;
    for (const Edge& edge : schedule.edges) before_[static_cast<std::size_t>(edge.to)].push_back(edge);
    wait_for_launches();
    open_store(options);
  }

  Timeline run() {
    std::vector<std::jthread> lanes;
    for (std::size_t lane = 0; lane < schedule_.lanes.size(); ++lane)
      lanes.emplace_back([this, lane] { walk(static_cast<int>(lane)); });
    lanes.clear();  // joined
    if (board_.error()) std::rethrow_exception(board_.error());
    Timeline timeline;
    timeline.source = TimelineSource::measured;
    timeline.schedule_hash = schedule_hash(schedule_);
    timeline.steps = steps_;
    timeline.warmup_steps = 1;
    timeline.ops = recorder_.times(0, steps_);
    return timeline;
  }
  std::string describe() const { return store_->describe(); }

 private:
  /// What lies behind a wait of the launch thread is launched after it.
  void wait_for_launches() {
    int last_wait = -1;
    for (const Op& op : schedule_.ops) {
      auto& before = before_[static_cast<std::size_t>(op.id)];
      if (const auto* wait = std::get_if<WaitWork>(&op.work)) {
        before.push_back({wait->op, op.id, wait->distance});
        last_wait = op.id;
      } else if (last_wait >= 0 && is_gpu(schedule_.lanes[static_cast<std::size_t>(op.lane)].kind)) {
        before.push_back({last_wait, op.id, 0});
      }
    }
  }

  TierKind tier(const Access& access) const {
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
    return schedule_.tiers[static_cast<std::size_t>(buffer.tier)].kind;
  }
  bool moves_on_drive(const Op& op) const { return is_drive(schedule_.lanes[static_cast<std::size_t>(op.lane)].kind); }

  void open_store(const ReplayOptions& options) {
    StoreShape shape;
    for (const Buffer& buffer : schedule_.buffers)
      if (schedule_.tiers[static_cast<std::size_t>(buffer.tier)].kind == TierKind::nvme)
        shape.bytes = std::max(shape.bytes, padded_for_drive(buffer.offset_bytes + buffer.bytes));
    if (shape.bytes == 0) throw InputError(options.schedule.string() + ": keeps nothing on NVMe");
    shape.transfer_bytes = options.transfer_bytes;
    const auto queue = [&] { return make_io_queue(options.depth); };
    store_ = std::make_unique<BlockStore>(measuring_place(options.folder, "FOLDER"), shape, queue(), queue());
    const auto lanes = [&](LaneKind kind) {
      return std::count_if(schedule_.lanes.begin(), schedule_.lanes.end(),
                           [&](const Lane& lane) { return lane.kind == kind; });
    };
    for (auto more = std::max(lanes(LaneKind::nvme_read), lanes(LaneKind::nvme_write)); more > 1; --more)
      store_->add_queues(queue(), queue());
    for (const Op& op : schedule_.ops) {
      if (!moves_on_drive(op)) continue;
      const Access& in_memory = tier(op.reads[0]) == TierKind::nvme ? op.writes[0] : op.reads[0];
      const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(in_memory.buffer)];
      const auto [found, is_new] = staging_.try_emplace(in_memory.buffer);
      if (is_new) {
        found->second = Arena(padded_for_drive(buffer.bytes), buffer.name.c_str());
        fill_random(all(found->second));
      }
    }
    fill(shape.bytes);
    std::vector<std::span<std::byte>> ranges;
    for (const auto& [buffer, arena] : staging_) ranges.push_back(all(arena));
    store_->expect(ranges);
  }

  void fill(std::int64_t bytes) {
    const Arena contents(kFillBytes, "what is written first");
    fill_random(all(contents));
    std::uint64_t stamp = 0;
    for (std::int64_t at = 0; at < bytes; at += kFillBytes) {
      const std::span<std::byte> piece =
          all(contents).first(static_cast<std::size_t>(std::min(kFillBytes, bytes - at)));
      for (std::size_t page = 0; page < piece.size(); page += kDriveAlignment)
        std::memcpy(piece.data() + page, &stamp, sizeof stamp), ++stamp;
      store_->write(at, piece);
    }
  }

  std::span<std::byte> staged(const Access& access) const {
    return all(staging_.at(access.buffer))
        .subspan(static_cast<std::size_t>(access.offset_bytes),
                 static_cast<std::size_t>(padded_for_drive(access.bytes)));
  }
  std::int64_t on_drive(const Access& access) const {
    return schedule_.buffers[static_cast<std::size_t>(access.buffer)].offset_bytes + access.offset_bytes;
  }

  void work(const Op& op) {
    if (moves_on_drive(op)) {
      if (tier(op.reads[0]) == TierKind::nvme)
        store_->read(on_drive(op.reads[0]), staged(op.writes[0]));
      else
        store_->write(on_drive(op.writes[0]), staged(op.reads[0]));
      return;
    }
    const double seconds = seconds_[static_cast<std::size_t>(op.id)];
    if (seconds > 0 && !std::holds_alternative<WaitWork>(op.work))
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  void walk(int lane) {
    try {
      for (int step = 0; step < steps_; ++step)
        for (const Op& op : schedule_.ops) {
          if (op.lane != lane) continue;
          for (const Edge& edge : before_[static_cast<std::size_t>(op.id)])
            if (step + 1 > edge.distance &&
                !board_.wait(edge.from, static_cast<std::uint32_t>(step + 1 - edge.distance)))
              return;
          const std::int64_t start = now_ns();
          work(op);
          recorder_.record(step, op.id, start, now_ns());
          board_.publish(op.id, static_cast<std::uint32_t>(step + 1));
        }
    } catch (...) {
      board_.abort(std::current_exception());
    }
  }

  const Schedule& schedule_;
  const int steps_;
  std::vector<double> seconds_;            // by op, as predicted
  std::vector<std::vector<Edge>> before_;  // by op
  std::map<int, Arena> staging_;           // by buffer in DRAM
  std::unique_ptr<BlockStore> store_;
  Board board_;
  Recorder recorder_;
};

/// Of one lane in the steady steps of a timeline.
struct Busy {
  std::int64_t bytes = 0;
  double seconds = 0;
  double rate() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};
Busy busy(const Schedule& schedule, const Timeline& timeline, int lane) {
  Busy sum;
  for (const OpTime& time : timeline.ops) {
    const Op& op = schedule.ops[static_cast<std::size_t>(time.op)];
    if (op.lane != lane || time.step < timeline.first_step + timeline.warmup_steps) continue;
    sum.bytes += op.reads[0].bytes;
    sum.seconds += time.end - time.start;
  }
  return sum;
}

nlohmann::ordered_json tell(const Schedule& schedule, const Timeline& predicted, const Timeline& measured) {
  const double said = steady_step_seconds(schedule, predicted), found = steady_step_seconds(schedule, measured);
  fmt::print("step        {:.3f} s predicted, {:.3f} s replayed: {:+.1f} %; spread {:.1f} %\n", said, found,
             100 * (said - found) / found, 100 * step_spread(schedule, measured));
  nlohmann::ordered_json lanes = nlohmann::ordered_json::array();
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    if (!is_drive(schedule.lanes[lane].kind)) continue;
    const Busy p = busy(schedule, predicted, static_cast<int>(lane)),
               m = busy(schedule, measured, static_cast<int>(lane));
    const std::int64_t bytes = m.bytes / (measured.steps - measured.warmup_steps);
    fmt::print("{:<11} {:.2f} GB a step, while busy {:.3f} GB/s predicted, {:.3f} GB/s replayed: {:+.1f} %\n",
               schedule.lanes[lane].name, static_cast<double>(bytes) * 1e-9, p.rate() * 1e-9, m.rate() * 1e-9,
               100 * (p.rate() - m.rate()) / m.rate());
    lanes.push_back({{"lane", schedule.lanes[lane].name},
                     {"bytes", bytes},
                     {"predicted_bytes_per_second", p.rate()},
                     {"replayed_bytes_per_second", m.rate()}});
  }
  return {{"predicted_seconds", said},
          {"replayed_seconds", found},
          {"spread", step_spread(schedule, measured)},
          {"lanes", lanes}};
}

}  // namespace

void replay(const ReplayOptions& options) {
  const Schedule schedule = read_schedule(options.schedule);
  require_valid(schedule, Capacities::are_not);  // it is of another machine
  const Timeline predicted = read_timeline(options.predicted);
  if (predicted.schedule_hash != schedule_hash(schedule))
    throw InputError(fmt::format("{}: of schedule {}, but {} is {}; expected its timeline", options.predicted.string(),
                                 predicted.schedule_hash, options.schedule.string(), schedule_hash(schedule)));
  for (const OpTime& time : predicted.ops)
    if (static_cast<std::size_t>(time.op) >= schedule.ops.size())
      throw InputError(fmt::format("{}: has a time of op {}; expected ops below {}, as {} has them",
                                   options.predicted.string(), time.op, schedule.ops.size(),
                                   options.schedule.string()));
  Replay replay(options, schedule, predicted);
  fmt::print("store       {}\n", replay.describe());
  Timeline measured = replay.run();
  measured.scenario = predicted.scenario;
  measured.machine = "the drive of " + options.folder.string() + ", all else as predicted";
  measured.peaks = predicted.peaks;
  const nlohmann::ordered_json json = tell(schedule, predicted, measured);
  if (!options.timeline.empty()) write_timeline(measured, options.timeline);
  if (options.json.empty()) return;
  OutputFile file(options.json);
  file.write(json.dump(2) + "\n");
  file.commit();
}

}  // namespace penstock::exec
