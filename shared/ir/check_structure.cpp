#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "shared/ir/check_parts.h"
#include "shared/ir/limits.h"
#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

bool inside(std::int64_t index, std::size_t count) { return index >= 0 && index < static_cast<std::int64_t>(count); }

class StructureCheck {
 public:
  StructureCheck(const Schedule& schedule, FaultList& faults) : schedule_(schedule), faults_(faults) {}

  void run() {
    head();
    lanes();
    buffers();
    for (std::size_t i = 0; i < schedule_.initial.size(); ++i) {
      const std::string who = fmt::format("initial[{}]", i);
      access(schedule_.initial[i], -1, [&] { return who; });
    }
    if (sound_) initial_apart();
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) op(i);
    for (std::size_t i = 0; i < schedule_.edges.size(); ++i) edge(i);
  }

 private:
  template <typename... Args>
  void fault(int op, fmt::format_string<Args...> format, Args&&... args) {
    sound_ = false;
    if (faults_.full()) return;
    faults_.add(FaultKind::malformed, op, -1, fmt::format(format, std::forward<Args>(args)...));
  }

  void head() {
    const auto tokens_ok = [&] {
      const BatchShape& batch = schedule_.micro_batch;
      return batch.sequences >= 1 && batch.sequence_length >= 1 &&
             batch.sequences <= kMaxTokens / batch.sequence_length;
    };
    if (!tokens_ok())
      fault(-1, "a micro-batch of {} sequences of {} tokens: expected at least one of each and at most {} tokens",
            schedule_.micro_batch.sequences, schedule_.micro_batch.sequence_length, kMaxTokens);
    if (schedule_.micro_batches < 1 || schedule_.micro_batches > kMaxMicroBatches)
      fault(-1, "{} micro-batches per step: expected 1 to {}", schedule_.micro_batches, kMaxMicroBatches);
    chunks();
    if (schedule_.library_bytes < 0 || schedule_.library_bytes > kMaxBytes)
      fault(-1, "library_bytes is {}: expected 0 to 2^60", schedule_.library_bytes);
    for (const Tier& tier : schedule_.tiers)
      if (tier.capacity_bytes < 0 || tier.capacity_bytes > kMaxBytes)
        fault(-1, "tier {} has a capacity of {} bytes: expected 0 to 2^60",
              tier_names()[static_cast<std::size_t>(tier.kind)], tier.capacity_bytes);
    if (schedule_.ops.empty()) fault(-1, "the schedule has no ops");
    if (schedule_.ops.size() > kMaxOps) fault(-1, "{} ops: expected at most {}", schedule_.ops.size(), kMaxOps);
  }

  void chunks() {
    const BatchShape& batch = schedule_.micro_batch;
    if (!batch.is_cut() && batch.chunk_tokens == 0) return;
    if (batch.chunk_tokens < 1 || batch.chunk_tokens >= batch.sequence_length || batch.sequences != 1)
      fault(-1, "{} sequences of {} tokens in chunks of {}: expected one sequence, and chunks shorter than it",
            batch.sequences, batch.sequence_length, batch.chunk_tokens);
    else if ((batch.sequence_length - 1) / batch.chunk_tokens >= kMaxChunks)
      fault(-1, "sequences of {} tokens in chunks of {}: expected at most {} chunks of each", batch.sequence_length,
            batch.chunk_tokens, kMaxChunks);
    else if (schedule_.micro_batches % schedule_.chunks() != 0)
      fault(-1, "{} micro-batches per step: expected a multiple of the {} chunks of a sequence",
            schedule_.micro_batches, schedule_.chunks());
  }

  void lanes() {
    if (schedule_.lanes.size() > kMaxLanes)
      fault(-1, "{} lanes: expected at most {}", schedule_.lanes.size(), kMaxLanes);
    std::unordered_set<std::string_view> names;
    for (const Lane& lane : schedule_.lanes)
      if (!names.insert(lane.name).second) fault(-1, "two lanes are called '{}'", lane.name);
  }

  void buffers() {
    std::unordered_set<std::string_view> names;
    std::vector<const Buffer*> furthest(schedule_.tiers.size(), nullptr);
    for (const Buffer& buffer : schedule_.buffers) {
      if (!names.insert(buffer.name).second) fault(-1, "two buffers are called '{}'", buffer.name);
      if (!inside(buffer.tier, schedule_.tiers.size())) {
        fault(-1, "buffer '{}' lies in tier {}, but there are {} tiers", buffer.name, buffer.tier,
              schedule_.tiers.size());
        continue;
      }
      if (buffer.offset_bytes < 0 || buffer.bytes < 0 || buffer.offset_bytes > kMaxBytes || buffer.bytes > kMaxBytes) {
        fault(-1, "buffer '{}' has {} bytes at offset {}: expected numbers from 0 to 2^60", buffer.name, buffer.bytes,
              buffer.offset_bytes);
        continue;
      }
      const Buffer*& last = furthest[static_cast<std::size_t>(buffer.tier)];
      if (!last || last->offset_bytes + last->bytes < buffer.offset_bytes + buffer.bytes) last = &buffer;
    }
    for (std::size_t tier = 0; tier < furthest.size(); ++tier) capacity(tier, furthest[tier]);
  }

  void capacity(std::size_t index, const Buffer* last) {
    const Tier& tier = schedule_.tiers[index];
    if (!last || last->offset_bytes + last->bytes <= tier.capacity_bytes) return;
    const std::int64_t end = last->offset_bytes + last->bytes;
    faults_.add(FaultKind::over_capacity, -1, -1,
                fmt::format("{} holds {} bytes, but buffer '{}' ends at byte {}: {} bytes too many",
                            tier_names()[static_cast<std::size_t>(tier.kind)], tier.capacity_bytes, last->name, end,
                            end - tier.capacity_bytes));
  }

  template <typename Who>
  void access(const Access& access, int op, Who who) {
    if (!inside(access.buffer, schedule_.buffers.size())) {
      fault(op, "{}: buffer {}, but there are {} buffers", who(), access.buffer, schedule_.buffers.size());
      return;
    }
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
    if (access.bytes < 1 || access.offset_bytes < 0 || access.bytes > buffer.bytes ||
        access.offset_bytes > buffer.bytes - access.bytes)
      fault(op, "{}: {} bytes at offset {} of buffer '{}', which has {} bytes", who(), access.bytes,
            access.offset_bytes, buffer.name, buffer.bytes);
    const Value& value = access.value;
    if (value.version < -1 || value.version > 1 || value.layer < -1 || value.micro_batch < -1 ||
        value.layer > schedule_.model.decoder_layers + 1 || value.micro_batch >= schedule_.micro_batches)
      fault(op, "{}: there is no value {} in a model of {} decoder layers and a step of {} micro-batches", who(),
            value_label(value), schedule_.model.decoder_layers, schedule_.micro_batches);
  }

  /// What lies somewhere at the beginning is said once: entries that are equal, or within another, would be loaded one
  /// over the other.
  void initial_apart() {
    struct Range {
      int tier;
      std::int64_t begin, end;
      std::size_t index;
    };
    std::vector<Range> ranges;
    ranges.reserve(schedule_.initial.size());
    for (const Access& access : schedule_.initial) {
      const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
      const std::int64_t begin = buffer.offset_bytes + access.offset_bytes;
      ranges.push_back({buffer.tier, begin, begin + access.bytes, ranges.size()});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
      return std::tie(a.tier, a.begin, a.index) < std::tie(b.tier, b.begin, b.index);
    });
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      const Range &before = ranges[i - 1], &now = ranges[i];
      if (before.tier != now.tier || before.end <= now.begin) continue;
      const Access &first = schedule_.initial[before.index], &second = schedule_.initial[now.index];
      fault(-1, "initial[{}] puts {} into {}, where initial[{}] puts {}: what lies there at the beginning is said once",
            now.index, value_label(second.value), range_title(schedule_, second), before.index,
            value_label(first.value));
      if (faults_.full()) return;
    }
  }

  void op(std::size_t index) {
    const Op& op = schedule_.ops[index];
    if (op.id != static_cast<int>(index)) {
      fault(op.id, "{} stands at place {} of the list: ids count from 0 in the order of the list", op_title(op), index);
      return;
    }
    if (!inside(op.lane, schedule_.lanes.size())) {
      fault(op.id, "{} runs on lane {}, but there are {} lanes", op_title(op), op.lane, schedule_.lanes.size());
      return;
    }
    if (op.layer < -1 || op.layer > schedule_.model.decoder_layers + 1)
      fault(op.id, "{} is of layer {}, but the last layer is {}", op_title(op), op.layer,
            schedule_.model.decoder_layers + 1);
    if (op.micro_batch < -1 || op.micro_batch >= schedule_.micro_batches)
      fault(op.id, "{} is of micro-batch {}, but there are {}", op_title(op), op.micro_batch, schedule_.micro_batches);
    for (std::size_t i = 0; i < op.reads.size(); ++i)
      access(op.reads[i], op.id, [&] { return fmt::format("{} reads[{}]", op_title(op), i); });
    for (std::size_t i = 0; i < op.writes.size(); ++i)
      access(op.writes[i], op.id, [&] { return fmt::format("{} writes[{}]", op_title(op), i); });
    launch_lane(op);
  }

  void launch_lane(const Op& op) {
    const Lane& lane = schedule_.lanes[static_cast<std::size_t>(op.lane)];
    const auto* wait = std::get_if<WaitWork>(&op.work);
    if (wait && lane.kind != LaneKind::launch)
      fault(op.id, "{} is a wait on lane '{}': waits belong to the launch lane", op_title(op), lane.name);
    if (!wait && lane.kind == LaneKind::launch)
      fault(op.id, "{} is on the launch lane '{}', which holds only waits", op_title(op), lane.name);
    if (wait && !inside(wait->op, schedule_.ops.size()))
      fault(op.id, "{} waits for op {}, but there are {} ops", op_title(op), wait->op, schedule_.ops.size());
    if (wait && wait->distance != 0 && wait->distance != 1)
      fault(op.id, "{} waits over a distance of {} steps: expected 0 or 1", op_title(op), wait->distance);
  }

  void edge(std::size_t index) {
    const Edge& edge = schedule_.edges[index];
    if (!inside(edge.from, schedule_.ops.size()) || !inside(edge.to, schedule_.ops.size()))
      fault(-1, "edges[{}] leads from op {} to op {}, but there are {} ops", index, edge.from, edge.to,
            schedule_.ops.size());
    else if (edge.distance != 0 && edge.distance != 1)
      fault(edge.to, "edges[{}] from op {} to op {} has distance {}: expected 0 or 1", index, edge.from, edge.to,
            edge.distance);
  }

  const Schedule& schedule_;
  FaultList& faults_;
  bool sound_ = true;  // so far, but for capacities
};

}  // namespace

bool check_structure(const Schedule& schedule, FaultList& faults) {
  // Own list with room for one malformed fault more: over_capacity alone does not stop the other parts.
  FaultList found(faults.room() + schedule.tiers.size() + 1);
  StructureCheck(schedule, found).run();
  bool sound = true;
  for (Fault& fault : found.take()) {
    sound = sound && fault.kind == FaultKind::over_capacity;
    faults.add(fault.kind, fault.first_op, fault.second_op, std::move(fault.text));
  }
  return sound;
}

}  // namespace penstock
