#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "exec/checkpoint/dump.h"
#include "exec/program/commands.h"
#include "exec/program/run_comparison.h"
#include "exec/program/run_outputs.h"
#include "exec/program/run_report.h"
#include "exec/program/run_setup.h"
#include "exec/program/stop_signals.h"
#include "exec/runtime/training.h"
#include "shared/error.h"

namespace penstock::exec {

using nlohmann::ordered_json;

int run_command(const RunCommandOptions& options) {
  StatusLine status;
  const RunSetup setup = prepare_run(options, status);
  const RunOptions& run = setup.scenario.run;
  const int recorded = recorded_steps(setup.schedule, run.steps, setup.backend->is_host(), setup.host_bytes);
  std::optional<RunComparison> comparing;
  if (!options.compare.empty()) {
    status.show("predicting ...");
    comparing.emplace(setup.scenario, setup.schedule, recorded, options.compare);
    status.clear();
  }
  if (!options.json) print_head(setup);
  status.show("taking memory and filling the states ...");
  Training training(setup.schedule, setup.scenario.model, *setup.backend);
  training.load(*setup.states, setup.steps_before);
  status.clear();

  Progress progress(setup, status, run.steps, options.json);
  TrainingOptions training_options;
  training_options.hyper = {run.learning_rate, run.beta1, run.beta2, run.epsilon, run.weight_decay, run.max_norm};
  training_options.learning_rate_warmup_steps = run.learning_rate_warmup_steps;
  training_options.tokens = setup.tokens.get();
  training_options.report = [&progress](const StepReport& report) { progress(report); };
  training_options.executor.steps = run.steps;
  training_options.executor.record_steps = recorded;
  training_options.executor.watchdog_seconds = options.watchdog_seconds;
  const StopSignals signals;
  training_options.executor.stops = &signals.count();
  progress.begin();
  const ExecutorResult result = training.run(training_options);
  status.clear();

  const Timeline timeline = make_timeline(setup, training, result, progress);
  write_run_files(options, setup, timeline, training);
  if (!options.dump.empty())
    write_dump(options.dump, setup.schedule, setup.scenario.model, *setup.backend, *setup.tokens,
               training_options.hyper, progress.reports());
  const std::optional<Speed> speed = measure(setup, timeline);
  const BesideMemory beside = beside_memory(setup, training);
  std::optional<Comparison> comparison;
  if (comparing) comparison = comparing->finish(setup.schedule, timeline);
  if (options.json) {
    ordered_json json = result_json(setup, training, result, progress, speed, beside);
    if (comparison) json["comparison"] = ordered_json::parse(comparison_json(setup.schedule, *comparison));
    fmt::print("{}\n", json.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    print_tail(setup, result, speed, beside);
    if (comparison) fmt::print("\n{}\n", comparison_text(setup.schedule, *comparison));
    print_run_files(options, training);
    if (comparison) fmt::print("prediction, measurement and comparison lie in {}\n", options.compare.string());
  }
  return kExitDone;
}

}  // namespace penstock::exec
