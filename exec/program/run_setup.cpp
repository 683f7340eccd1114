#include "exec/program/run_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/dump.h"
#include "exec/program/run_outputs.h"
#include "exec/runtime/bind.h"
#include "exec/runtime/limits.h"
#include "shared/compare/recording.h"
#include "shared/compare/timeline_schedule.h"
#include "shared/error.h"
#include "shared/ir/schedule_json.h"

namespace penstock::exec {
namespace {

void choose_states(const RunCommandOptions& options, RunSetup& setup) {
  if (!options.resume.empty()) {
    Checkpoint checkpoint = open_checkpoint(options.resume, setup.scenario.model);
    if (checkpoint.info.seed != setup.scenario.run.seed)
      throw InputError(
          fmt::format("{}: was trained with seed {}, the scenario says {}; --set run.seed={} goes on with its data",
                      options.resume.string(), checkpoint.info.seed, setup.scenario.run.seed, checkpoint.info.seed));
    setup.steps_before = checkpoint.info.step;
    setup.states = std::move(checkpoint.states);
  } else if (!setup.scenario.run.weights.empty()) {
    setup.states = published_states(setup.scenario.run.weights, setup.scenario.model);
  } else {
    setup.states = random_states(setup.scenario.run.seed);
  }
}

RunShape run_shape(const RunCommandOptions& options, const RunSetup& setup, int cores) {
  const Scenario& scenario = setup.scenario;
  RunShape shape;
  shape.on_host = setup.backend->is_host();
  shape.micro_batch = {scenario.micro_batch, scenario.sequence_length};
  shape.chunking = scenario.policy.numerics.chunking;
  shape.micro_batches = scenario.sequences / scenario.micro_batch;
  shape.steps = scenario.run.steps;
  shape.writes_times = !options.timeline.empty() || !options.compare.empty();
  shape.cores = cores;
  return shape;
}

}  // namespace

RunSetup prepare_run(const RunCommandOptions& options, StatusLine& status) {
  RunSetup setup;
  setup.scenario = load_scenario(options.scenario, options.overrides, options.profile);
  RunOptions& run = setup.scenario.run;
  if (options.steps > 0) run.steps = options.steps;
  run.warmup_steps = std::min(run.warmup_steps, run.steps - 1);
  const Scenario& scenario = setup.scenario;
  if (!options.record.empty()) require_recordable(scenario, options.schedule);
  if (!options.save.empty()) check_save_target(options.save);
  check_run_outputs(options, scenario, {});
  const TokenShape shape{scenario.sequences, scenario.sequence_length, scenario.model.config.vocabulary};
  status.show("reading the data ...");
  setup.tokens = open_tokens(scenario.run.data, scenario.path, shape, scenario.run.seed);
  status.clear();
  choose_states(options, setup);
  setup.backend = open_backend(setup.scenario, options.backend, options.hbm_limit);
  limit_hbm(setup.scenario, *setup.backend);
  const MemoryLimits limits = read_memory_limits();
  setup.host_bytes = limits.usable_bytes();
  setup.beside = beside_arenas(scenario.model, run_shape(options, setup, limits.cores), setup.host_bytes);
  setup.room = arena_room(setup.scenario, *setup.backend, setup.beside.largest_arenas(setup.host_bytes));
  if (options.schedule.empty()) {
    status.show("planning ...");
    setup.planned = planned_line(setup.scenario, setup.room);
  }
  status.show("writing and proving the schedule ...");
  setup.schedule = proved_schedule(setup.scenario, options.schedule);
  require_no_drive(setup.schedule, setup.backend->is_host());
  require_host_memory(setup.schedule, arena_bytes(setup.schedule), setup.backend->is_host(), setup.beside, limits);
  if (!options.dump.empty())
    require_dumpable(options.dump, setup.schedule, setup.scenario.model, setup.scenario.run.steps);
  if (!options.timeline.empty() && options.schedule.empty()) {
    setup.schedule_beside = schedule_beside(options.timeline, schedule_hash(setup.schedule));
    check_run_outputs(options, scenario, setup.schedule_beside);
  }
  begin_resident_peak();
  status.clear();
  return setup;
}

}  // namespace penstock::exec
