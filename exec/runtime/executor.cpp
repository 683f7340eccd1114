#include "exec/runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "exec/runtime/host_work.h"
#include "exec/runtime/step_gate.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr int kStepsAhead = 2;

bool wait_for_predecessors(const BoundOp& op, const Board& board, int step, std::size_t ops, UpdateGates* gates) {
  for (const Predecessor& p : op.predecessors) {
    const auto count = static_cast<std::uint32_t>(step + 1 - p.distance);
    const bool is_closed = static_cast<std::size_t>(p.op) >= ops && board.completed(p.op) < count;
    const UpdateGates::Waiting waiting(is_closed ? gates : nullptr);
    if (!board.wait(p.op, count)) return false;
  }
  return !board.aborted();
}

/// For those of the step before, which has begun and so will end.
bool wait_for_step_before(const BoundOp& op, const Board& board, int step) {
  for (const Predecessor& p : op.predecessors)
    if (p.distance == 1 && !board.wait(p.op, static_cast<std::uint32_t>(step))) return false;
  return true;
}

std::vector<int> ops_where(const BoundSchedule& bound, const std::function<bool(const BoundOp&)>& accept) {
  std::vector<int> ids;
  for (const BoundOp& op : bound.ops)
    if (accept(op)) ids.push_back(op.op->id);
  return ids;
}

/// One run: what its threads share.
class Run {
 public:
  Run(const BoundSchedule& bound, Backend& backend, const ExecutorOptions& options)
      : bound_(bound),
        backend_(backend),
        options_(options),
        board_(bound.ops.size() + static_cast<std::size_t>(bound.gates)),
        gate_(options.steps),
        recorder_(*bound.schedule, std::min(options.record_steps, options.steps)),
        attached_(options.control, gate_, board_),
        gates_(options.gates, board_, bound.ops.size()) {}

  ExecutorResult run() {
    recorder_.meter().begin(now_ns());
    backend_.start(bound_, board_, recorder_);
    {
      const std::jthread watchdog([this](const std::stop_token& token) { guarded([&] { watch(token); }); });
      std::vector<std::jthread> lanes;
      for (std::size_t lane = 0; lane < bound_.schedule->lanes.size(); ++lane) {
        const LaneKind kind = bound_.schedule->lanes[lane].kind;
        if (!is_gpu(kind) && kind != LaneKind::launch)
          lanes.emplace_back([this, lane] { guarded([&] { walk_host_lane(static_cast<int>(lane)); }); });
      }
      guarded([this] { walk_launches(); });
      lanes.clear();  // joins
      backend_.drain();
    }
    if (std::exception_ptr error = board_.error()) std::rethrow_exception(error);
    return {gate_.steps(), gate_.stopped(), std::move(recorder_)};
  }

 private:
  /// Nothing thrown is lost on a worker thread.
  template <typename Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (...) {
      board_.abort(std::current_exception());
    }
  }

  void walk_host_lane(int lane) {
    const std::vector<int> ids = ops_where(bound_, [lane](const BoundOp& op) { return op.op->lane == lane; });
    if (ids.empty()) return;
    // A lane that has nothing to do yet has not begun: a stop then has fewer steps to wait for.
    const BoundOp& first = bound_.ops[static_cast<std::size_t>(ids.front())];
    for (int step = 0; wait_for_step_before(first, board_, step) && gate_.begin(step); ++step)
      for (const int id : ids) {
        const BoundOp& op = bound_.ops[static_cast<std::size_t>(id)];
        if (!wait_for_predecessors(op, board_, step, bound_.ops.size(), options_.gates)) return;
        if (options_.before_host_op) options_.before_host_op(*op.op, step, board_);
        if (board_.aborted()) return;
        const std::int64_t start = now_ns();
        run_host_work(op, bound_, step, std::holds_alternative<BoundReport>(op.work) ? stalls(step) : Stalls());
        recorder_.record(step, id, start, now_ns());
        board_.publish(id, static_cast<std::uint32_t>(step + 1));
      }
  }

  /// Not known where the step's report comes before its last backward op has ended, as without clipping, or where the
  /// backend does not know.
  Stalls stalls(int step) {
    const StallMeter& meter = recorder_.meter();
    const int last = meter.last_backward();
    const bool has_ended = last >= 0 && board_.completed(last) >= static_cast<std::uint32_t>(step + 1);
    return has_ended && backend_.has_metered(step) ? meter.stalls(step) : Stalls();
  }

  void walk_launches() {
    const std::vector<int> ids =
        ops_where(bound_, [](const BoundOp& op) { return is_gpu(op.lane_kind) || op.lane_kind == LaneKind::launch; });
    if (ids.empty()) return;
    const auto last = std::find_if(ids.rbegin(), ids.rend(), [this](int id) {
      return is_gpu(bound_.ops[static_cast<std::size_t>(id)].lane_kind);
    });
    const auto is_near = [&](int step) {
      return last == ids.rend() || step < kStepsAhead ||
             board_.wait(*last, static_cast<std::uint32_t>(step - kStepsAhead + 1));
    };
    for (int step = 0; is_near(step) && gate_.begin(step); ++step)
      for (const int id : ids) {
        if (board_.aborted()) return;
        if (is_gpu(bound_.ops[static_cast<std::size_t>(id)].lane_kind))
          backend_.enqueue(id, step);
        else if (!launch_wait(id, step))
          return;
      }
  }
  bool launch_wait(int id, int step) {
    const BoundOp& op = bound_.ops[static_cast<std::size_t>(id)];
    const std::int64_t start = now_ns();
    if (!wait_for_predecessors(op, board_, step, bound_.ops.size(), options_.gates)) return false;
    const auto& wait = std::get<BoundWait>(op.work);
    if (!board_.wait(wait.op, static_cast<std::uint32_t>(step + 1 - wait.distance))) return false;
    recorder_.record(step, id, start, now_ns());
    board_.publish(id, static_cast<std::uint32_t>(step + 1));
    return true;
  }

  /// Looks for stillness ten times a second until the run ends.
  void watch(const std::stop_token& token) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    std::uint64_t seen = 0;
    std::int64_t since = now_ns();
    while (!wake.wait_for(lock, token, std::chrono::milliseconds(100), [] { return false; }) &&
           !token.stop_requested()) {
      const std::uint64_t progress = board_.progress();
      if (progress != seen) {
        seen = progress;
        since = now_ns();
      }
      const double still = static_cast<double>(now_ns() - since) * 1e-9;
      if (options_.watchdog_seconds <= 0 || still < options_.watchdog_seconds) continue;
      if (board_.aborted()) return unkillable();
      board_.abort(std::make_exception_ptr(std::runtime_error(
          fmt::format("nothing has completed for {}, {}. {}", format_seconds(options_.watchdog_seconds),
                      options_.watchdog_why, describe_hang(bound_, board_, gate_.steps())))));
      since = now_ns();
      seen = board_.progress();
    }
  }
  void unkillable() {
    std::string text = "the run was aborted, but an op does not return";
    try {
      std::rethrow_exception(board_.error());
    } catch (const std::exception& error) {
      text = error.what();
    }
    if (options_.on_unkillable) return options_.on_unkillable(text);
    std::fprintf(stderr, "penstock-exec: %s\n", text.c_str());
    std::quick_exit(1);
  }

  const BoundSchedule& bound_;
  Backend& backend_;
  const ExecutorOptions& options_;
  Board board_;
  StepGate gate_;
  Recorder recorder_;
  const RunControl::Attached attached_;  // last: they hold the others
  const UpdateGates::Attached gates_;
};

}  // namespace

ExecutorResult execute(const BoundSchedule& bound, Backend& backend, const ExecutorOptions& options) {
  return Run(bound, backend, options).run();
}

std::string describe_hang(const BoundSchedule& bound, const Board& board, int steps) {
  std::string text;
  for (std::size_t lane = 0; lane < bound.schedule->lanes.size(); ++lane) {
    // The lane stands at its first op with the fewest executions.
    const BoundOp* at = nullptr;
    for (const BoundOp& op : bound.ops)
      if (op.op->lane == static_cast<int>(lane) &&
          (at == nullptr || board.completed(op.op->id) < board.completed(at->op->id)))
        at = &op;
    if (at == nullptr || board.completed(at->op->id) >= static_cast<std::uint32_t>(steps)) continue;
    const std::uint32_t step = board.completed(at->op->id);
    std::string waits;
    const auto missing = [&](int from, int distance) {
      if (board.completed(from) < step + 1 - static_cast<std::uint32_t>(distance))
        waits += static_cast<std::size_t>(from) >= bound.ops.size()
                     ? fmt::format("{}layer {} to be in the checkpoint that is being written",
                                   waits.empty() ? "" : ", ", from - static_cast<int>(bound.ops.size()))
                     : fmt::format("{}\"{}\" (op {}{})", waits.empty() ? "" : ", ",
                                   bound.ops[static_cast<std::size_t>(from)].op->name, from,
                                   distance == 1 ? ", of the step before" : "");
    };
    for (const Predecessor& p : at->predecessors) missing(p.op, p.distance);
    if (const auto* wait = std::get_if<BoundWait>(&at->work)) missing(wait->op, wait->distance);
    text += fmt::format(
        "{}Lane {} is in run step {} at op {} \"{}\", which {}.", text.empty() ? "" : " ",
        bound.schedule->lanes[lane].name, step, at->op->id, at->op->name,
        waits.empty() ? std::string("has begun or was not launched, and has not ended") : "waits for " + waits);
  }
  return text.empty() ? "Every op has completed all steps." : text;
}

}  // namespace penstock::exec
