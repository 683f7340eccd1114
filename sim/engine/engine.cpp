#include "sim/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/engine/power.h"

namespace penstock::sim {

namespace {

/// Of the way from the average of activity to 1, what is left to go on average while the op runs: the average rises
/// exponentially.
double mean_still_away(const OpCost& cost, double settle_seconds) {
  if (settle_seconds <= 0 || cost.sustained_extra_seconds == 0) return 1;
  const double lengths = cost.fluid_seconds / settle_seconds;
  return lengths > 0 ? -std::expm1(-lengths) / lengths : 1;
}

}  // namespace

bool EngineState::repeats(const EngineState& earlier, double tolerance_seconds) const {
  if (positions != earlier.positions) return false;
  return std::equal(seconds.begin(), seconds.end(), earlier.seconds.begin(), earlier.seconds.end(),
                    [=](double a, double b) { return std::abs(a - b) <= tolerance_seconds; });
}

Engine::Engine(const Schedule& schedule, const std::vector<OpCost>& costs, const Capacities& capacities,
               int boundary_op, int compute_lane)
    : schedule_(schedule),
      costs_(costs),
      capacities_(capacities),
      flat_(schedule, costs),
      boundary_op_(boundary_op),
      compute_lane_(compute_lane) {
  if (boundary_op < 0 || boundary_op >= flat_.ops)
    throw std::logic_error("Engine: the boundary op is not in the schedule");
  const auto ops = static_cast<std::size_t>(flat_.ops);
  counters_.resize(kSlots * ops);
  unfinished_.assign(kSlots, 0);
  segment_start_.resize(kSlots * flat_.segment_seconds.size());
  wait_ready_.resize(kSlots * flat_.waits.size());
  busy_.assign(static_cast<std::size_t>(flat_.lanes), 0);
  still_away_.reserve(ops);
  shares_.reserve(ops);
  for (const OpCost& cost : costs) {
    still_away_.push_back(mean_still_away(cost, capacities.power_settle_seconds));
    const bool uses = std::any_of(cost.demand.begin(), cost.demand.end(), [](double demand) { return demand > 0; });
    shares_.push_back(uses || cost.traffic != TrafficClass::none);
  }
  lanes_.resize(static_cast<std::size_t>(flat_.lanes));
  for (int i = 0; i < flat_.lanes; ++i) {
    Lane& lane = lanes_[i];
    lane.begin = lane.next = flat_.lane_ops.begin[i];
    lane.end = flat_.lane_ops.begin[i + 1];
    lane.op = lane.begin < lane.end ? flat_.lane_ops.items[lane.begin] : -1;
    lane.gpu = is_gpu(schedule.lanes[i].kind);
    if (schedule.lanes[i].kind == LaneKind::launch) launch_lane_ = i;
    if (lane.gpu && lane.op >= 0) launched_last_ = std::max(launched_last_, flat_.lane_ops.items[lane.end - 1]);
  }
  for (int step = 0; step < kSlots; ++step) reset_slot(step);
  // Step 0 has no step before it.
  for (std::size_t op = 0; op < ops; ++op) counters_[op] -= flat_.predecessors_before[op];
  start_segments(0);
  for (Lane& lane : lanes_) try_start(lane);
}

void Engine::reset_slot(int step) {
  for (int op = 0; op < flat_.ops; ++op) counter(step, op) = flat_.predecessors[op] + flat_.predecessors_before[op];
  for (std::size_t k = 0; k < flat_.segment_seconds.size(); ++k) segment_start(step, static_cast<int>(k)) = kUnlimited;
  for (std::size_t k = 0; k < flat_.waits.size(); ++k) wait_ready(step, static_cast<int>(k)) = -kUnlimited;
  unfinished_[slot(step)] = flat_.ops;
}

double Engine::run_to_boundary() {
  rebase();
  std::fill(busy_.begin(), busy_.end(), 0.0);
  at_boundary_ = false;
  while (!at_boundary_) advance_one_event();
  ++steps_;
  if (compute_lane_ >= 0 && now_ > 0)
    power_share_ = power_share(capacities_.power, std::min(1.0, busy_[compute_lane_] / now_));
  return now_;
}

void Engine::advance_one_event() {
  for (;;) {
    Lane* first = nullptr;
    double time = wait_time_;
    for (Lane& lane : lanes_) {
      if (lane.time < time || (lane.time == time && first == nullptr && lane.time < kUnlimited)) {
        time = lane.time;
        first = &lane;
      }
    }
    if (dirty_ && time > now_) {  // before time moves on, not before every event of this moment
      share();
      continue;
    }
    if (time == kUnlimited) fail_blocked();
    now_ = time;
    if (first == nullptr) return end_wait();
    switch (first->run) {
      case Run::launching: return begin(*first);
      case Run::latency: return enter_fluid(*first);
      default: return end_op(*first);
    }
  }
}

void Engine::try_start(Lane& lane) {
  if (lane.run != Run::idle || lane.op < 0 || lane.step > released_ || counter(lane.step, lane.op) != 0) return;
  if (lane.gpu) {
    const double launched = segment_start(lane.step, flat_.segment_of[lane.op]) + flat_.launch_offset[lane.op];
    if (launched > now_) {
      if (launched == kUnlimited) return;
      lane.run = Run::launching;
      lane.time = launched;
      return;
    }
  }
  begin(lane);
}

double Engine::rested_duty() const {
  return recent_duty_ * std::exp((duty_at_ - now_) / capacities_.power_settle_seconds);
}

/// Mean over the op's burst time.
double Engine::share_of_sustained(int op) const {
  if (capacities_.power_settle_seconds <= 0) return power_share_;
  if (costs_[op].sustained_extra_seconds == 0) return 0;
  return power_share(capacities_.power, 1 - (1 - rested_duty()) * still_away_[op]);
}

void Engine::begin(Lane& lane) {
  const OpCost& cost = costs_[lane.op];
  lane.start = now_;
  const double progress = cost.fluid_seconds + share_of_sustained(lane.op) * cost.sustained_extra_seconds;
  if (shares_[lane.op] == 0 || progress <= 0) {
    lane.run = Run::whole;
    lane.time = now_ + (cost.latency_seconds + progress);
    return;
  }
  lane.remaining = progress;
  if (cost.latency_seconds > 0) {
    lane.run = Run::latency;
    lane.time = now_ + cost.latency_seconds;
    return;
  }
  enter_fluid(lane);
}

void Engine::enter_fluid(Lane& lane) {
  lane.run = Run::fluid;
  lane.rate = 0;
  lane.since = now_;
  lane.time = kUnlimited;  // until share() has set its rate
  dirty_ = true;
}

void Engine::share() {
  dirty_ = false;
  sharing_.clear();
  ResourceVector asked{};
  CopyWay upload = CopyWay::none, download = CopyWay::none;
  int threads = 0;
  for (Lane& lane : lanes_) {
    if (lane.run != Run::fluid) continue;
    const OpCost& cost = costs_[lane.op];
    for (std::size_t r = 0; r < asked.size(); ++r) asked[r] += cost.demand[r];
    switch (cost.traffic) {
      case TrafficClass::none: break;
      case TrafficClass::upload: upload = std::max(upload, CopyWay::direct); break;
      case TrafficClass::download: download = std::max(download, CopyWay::direct); break;
      case TrafficClass::ring_upload: upload = CopyWay::ring; break;
      case TrafficClass::ring_download: download = CopyWay::ring; break;
      case TrafficClass::cpu: threads += cost.threads; break;
    }
    sharing_.push_back(&lane);
  }
  const ResourceVector* capacity = &capacities_.when(upload, download, threads);
  if (asked[kNvmeRead] > 0 && asked[kNvmeWrite] > 0) {
    beside_ = *capacity;
    beside_[kNvmeRead] *= capacities_.nvme_read_beside_writes;
    beside_[kNvmeWrite] *= capacities_.nvme_write_beside_reads;
    capacity = &beside_;
  }
  bool enough = true;
  for (std::size_t r = 0; r < asked.size(); ++r) enough &= asked[r] <= (*capacity)[r] * (1 + kCapacityTolerance);
  if (enough) {
    for (Lane* lane : sharing_) set_rate(*lane, 1);
    return;
  }
  fluid_.clear();
  for (Lane* lane : sharing_) fluid_.push_back({&costs_[lane->op].demand, 1, 0});
  share_max_min(fluid_, *capacity);
  for (std::size_t i = 0; i < sharing_.size(); ++i) set_rate(*sharing_[i], fluid_[i].rate);
}

void Engine::set_rate(Lane& lane, double rate) {
  if (rate == lane.rate) return;  // its end stays the same number
  lane.remaining = std::max(0.0, lane.remaining - (now_ - lane.since) * lane.rate);
  lane.since = now_;
  lane.rate = rate;
  lane.time = rate > 0 ? now_ + lane.remaining / rate : kUnlimited;
}

void Engine::end_op(Lane& lane) {
  if (lane.run == Run::fluid) dirty_ = true;
  const int op = lane.op, step = lane.step;
  const double start = lane.start;
  lane.run = Run::idle;
  lane.time = kUnlimited;
  if (++lane.next == lane.end) {
    lane.next = lane.begin;
    ++lane.step;
  }
  lane.op = flat_.lane_ops.items[lane.next];
  op_ended(step, op, flat_.lane_of[op], start);
  try_start(lane);
}

void Engine::op_ended(int step, int op, int lane, double start) {
  busy_[lane] += now_ - start;
  if (lane == compute_lane_ && capacities_.power_settle_seconds > 0) {
    const double settle = capacities_.power_settle_seconds;
    const double at_start = recent_duty_ * std::exp((duty_at_ - start) / settle);
    recent_duty_ = 1 - (1 - at_start) * std::exp((start - now_) / settle);
    duty_at_ = now_;
  }
  if (unrecorded_ > 0 && step >= record_first_ && step < record_first_ + record_count_) {
    const std::size_t index = static_cast<std::size_t>(step - record_first_) * static_cast<std::size_t>(flat_.ops) + op;
    records_[index] = {step, op, origin_ + start, origin_ + now_};
    --unrecorded_;
  }
  if (op == boundary_op_) at_boundary_ = true;
  release_successors(flat_.same_step, op, step);
  release_successors(flat_.next_step, op, step + 1);
  const bool all_ended = --unfinished_[slot(step)] == 0;
  if (all_ended) {
    ended_ = step;
    reset_slot(step + kSlots);
  }
  if (op == launched_last_) launched_ended_ = step;
  if (all_ended || op == launched_last_) release_steps();
}

void Engine::release_successors(const IndexLists& successors, int op, int step) {
  for (std::int32_t i = successors.begin[op]; i < successors.begin[op + 1]; ++i) {
    const std::int32_t next = successors.items[i];
    if (--counter(step, next) != 0) continue;
    if (flat_.lane_of[next] < 0) {
      wait_ready(step, flat_.segment_of[next]) = now_ + costs_[next].latency_seconds;
      schedule_wait();
    } else if (Lane& lane = lanes_[flat_.lane_of[next]]; lane.op == next && lane.step == step) {
      try_start(lane);
    }
  }
}

void Engine::release_steps() {
  const int released = launched_last_ < 0 ? ended_ + 2 : std::min(launched_ended_ + 2, ended_ + 3);
  if (released == released_) return;
  released_ = released;
  if (launch_parked_) {
    launch_parked_ = false;
    ++launch_step_;
    launch_segment_ = 0;
    start_segments(std::max(now_, launch_free_));
  }
  for (Lane& lane : lanes_) try_start(lane);
}

/// Enters the launch thread's current segment at `time`, and what follows it without a wait.
void Engine::start_segments(double time) {
  for (;;) {
    segment_start(launch_step_, launch_segment_) = time;
    launch_free_ = time + flat_.segment_seconds[launch_segment_];
    if (launch_segment_ < static_cast<int>(flat_.waits.size())) return schedule_wait();
    if (launch_step_ == released_) {
      launch_parked_ = true;
      return;
    }
    ++launch_step_;
    launch_segment_ = 0;
    time = launch_free_;
  }
}

void Engine::schedule_wait() {
  if (launch_parked_ || launch_segment_ == static_cast<int>(flat_.waits.size())) return;
  if (counter(launch_step_, flat_.waits[launch_segment_]) == 0 && wait_time_ == kUnlimited)
    wait_time_ = std::max({now_, launch_free_, wait_ready(launch_step_, launch_segment_)});
}

void Engine::end_wait() {
  const int op = flat_.waits[launch_segment_], step = launch_step_;
  wait_time_ = kUnlimited;
  ++launch_segment_;
  const double arrival = launch_free_;
  start_segments(now_);
  op_ended(step, op, launch_lane_, arrival);
  for (Lane& lane : lanes_) try_start(lane);
}

void Engine::rebase() {
  for (Lane& lane : lanes_) {
    lane.time -= now_;
    lane.start -= now_;
    lane.since -= now_;
  }
  for (double& start : segment_start_) start -= now_;
  for (double& ready : wait_ready_) ready -= now_;
  launch_free_ -= now_;
  wait_time_ -= now_;
  duty_at_ -= now_;
  origin_ += now_;
  now_ = 0;
}

EngineState Engine::state() const {
  EngineState state;
  for (const Lane& lane : lanes_) {
    if (lane.op < 0) continue;
    state.positions.insert(state.positions.end(), {lane.step - steps_, lane.next, static_cast<std::int32_t>(lane.run)});
    const bool fluid = lane.run == Run::fluid;
    const double progress = fluid ? lane.remaining - (now_ - lane.since) * lane.rate : lane.remaining;
    state.seconds.push_back(fluid || lane.run == Run::latency ? progress : 0);
    // An op that has just begun has no end yet; the engine gives it one before time moves on.
    state.seconds.push_back(lane.time < kUnlimited ? lane.time - now_ : 0);
  }
  state.positions.insert(state.positions.end(),
                         {launch_step_ - steps_, launch_segment_, launch_parked_, wait_time_ < kUnlimited});
  state.seconds.insert(state.seconds.end(), {std::max(0.0, launch_free_ - now_), power_share_});
  if (capacities_.power_settle_seconds > 0) state.seconds.push_back(rested_duty());
  state.seconds.push_back(wait_time_ < kUnlimited ? wait_time_ - now_ : 0);
  return state;
}

void Engine::start_recording(int count) {
  record_first_ = steps_ + 1;
  record_count_ = count;
  unrecorded_ = static_cast<std::size_t>(count) * static_cast<std::size_t>(flat_.ops);
  records_.resize(unrecorded_);
  origin_ = 0;
}

std::vector<OpTime> Engine::finish_recording() {
  while (unrecorded_ > 0) run_to_boundary();
  if (records_.empty()) return {};
  double first = records_.front().start;
  for (const OpTime& time : records_) first = std::min(first, time.start);
  for (OpTime& time : records_) {
    time.start -= first;
    time.end -= first;
  }
  return std::move(records_);
}

std::string Engine::blocked_reason(int step, int op) const {
  const auto ended = [&](int from, int in_step) {
    if (in_step < 0) return true;
    const int lane = flat_.lane_of[from];
    if (lane < 0) {
      const auto place = std::find(flat_.waits.begin(), flat_.waits.end(), from) - flat_.waits.begin();
      return in_step < launch_step_ || (in_step == launch_step_ && place < launch_segment_);
    }
    return in_step < lanes_[lane].step || (in_step == lanes_[lane].step && from < lanes_[lane].op);
  };
  const auto awaits = [&](int from, int distance) {
    return ended(from, step - distance) ? std::string() : " waits for " + schedule_.ops[from].name;
  };
  if (const auto* wait = std::get_if<WaitWork>(&schedule_.ops[op].work))
    if (std::string text = awaits(wait->op, wait->distance); !text.empty()) return text;
  for (const Edge& edge : schedule_.edges)
    if (edge.to == op)
      if (std::string text = awaits(edge.from, edge.distance); !text.empty()) return text;
  return step > released_ ? " waits for an earlier step" : " waits to be launched";
}

void Engine::fail_blocked() const {
  std::string text = "the schedule deadlocks (check_schedule would have refused it):";
  const auto add = [&](int step, int op) {
    text += " " + schedule_.ops[op].name + " of step " + std::to_string(step) + blocked_reason(step, op) + ";";
  };
  for (const Lane& lane : lanes_)
    if (lane.op >= 0) add(lane.step, lane.op);
  if (launch_segment_ < static_cast<int>(flat_.waits.size())) add(launch_step_, flat_.waits[launch_segment_]);
  text.back() = '.';
  throw std::logic_error(text);
}

}  // namespace penstock::sim
