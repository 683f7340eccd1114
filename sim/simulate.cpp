#include "sim/simulate.h"

#include "shared/ir/schedule_json.h"
#include "shared/model/kernels.h"
#include "sim/cost/bounds.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/power.h"
#include "sim/engine/steady_state.h"

namespace penstock::sim {
namespace {

Timeline timeline_of(const Schedule& schedule, const Machine& machine, SimulatedRun& run,
                     const std::vector<TierMemory>& memory) {
  Timeline timeline;
  timeline.source = TimelineSource::predicted;
  timeline.schedule_hash = schedule_hash(schedule);
  timeline.machine = machine.name;
  timeline.first_step = run.first_recorded_step;
  timeline.steps = run.recorded_steps;
  timeline.ops = std::move(run.ops);
  for (const TierMemory& tier : memory) timeline.peaks.push_back({tier.tier.kind, tier.arena_bytes});
  return timeline;
}

}  // namespace

Prediction simulate(const Schedule& schedule, const Machine& machine, const SimulateOptions& options) {
  const Model model = make_model(schedule.model);
  const std::vector<OpCost> costs = op_costs(schedule, model, machine);
  Capacities capacities = machine_capacities(machine, schedule_threads(costs, schedule));
  capacities.power = power_curve(machine.gpu.power, sustained_slowdown(costs));
  // Steps are long beside the time in which a power limit acts: what a pause spares is used up soon after it.
  if (!capacities.power.empty() || machine.gpu.matmul_burst_flops_per_second > machine.gpu.matmul_flops_per_second)
    capacities.power_settle_seconds = machine.gpu.power_settle_seconds;
  SimulatedRun run = simulate_costs(schedule, costs, capacities, {options.max_steps, options.record_timeline});

  Prediction prediction;
  prediction.step_seconds = run.step_seconds;
  prediction.period_steps = run.period_steps;
  prediction.first_step_seconds = run.first_step_seconds;
  prediction.warmup_periods = run.warmup_periods;
  prediction.tokens_per_second = static_cast<double>(schedule.tokens_per_step()) / run.step_seconds;
  prediction.model_flops = model_flops(model, schedule.whole_step());
  prediction.executed_flops = executed_flops(schedule, model);
  prediction.lane_busy_seconds = run.lane_busy_seconds;
  if (options.count_memory) prediction.memory = schedule_memory(schedule);
  prediction.bounds = same_traffic_bound(schedule, costs, capacities);
  prediction.bounds.any_schedule_seconds = any_schedule_seconds(schedule, model, machine);
  if (options.record_timeline) {
    prediction.timeline = timeline_of(schedule, machine, run, prediction.memory);
    prediction.stalls = attribute_stalls(schedule, prediction.timeline);
    prediction.critical = critical_path(schedule, prediction.timeline);
  }
  return prediction;
}

}  // namespace penstock::sim
