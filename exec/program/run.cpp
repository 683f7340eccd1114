#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "exec/checkpoint/dump.h"
#include "exec/program/attempts.h"
#include "exec/program/commands.h"
#include "exec/program/run_comparison.h"
#include "exec/program/run_outputs.h"
#include "exec/program/run_report.h"
#include "exec/program/run_setup.h"
#include "exec/program/run_stops.h"
#include "exec/program/run_updates.h"
#include "exec/program/watchdog.h"
#include "exec/runtime/training.h"
#include "shared/error.h"
#include "shared/standard_streams.h"

namespace penstock::exec {

using nlohmann::ordered_json;

namespace {

TrainingOptions training_options(const RunCommandOptions& options, const RunSetup& setup, int recorded) {
  const RunOptions& run = setup.scenario.run;
  const Watchdog watchdog =
      watchdog_of(options.watchdog_seconds, setup.schedule, setup.scenario, setup.backend->is_host());
  TrainingOptions training;
  training.hyper = {run.learning_rate, run.beta1, run.beta2, run.epsilon, run.weight_decay, run.max_norm};
  training.learning_rate_warmup_steps = run.learning_rate_warmup_steps;
  training.tokens = setup.tokens.get();
  training.executor.steps = run.steps;
  training.executor.record_steps = recorded;
  training.executor.watchdog_seconds = watchdog.seconds;
  training.executor.watchdog_why = watchdog.why;
  return training;
}

/// The run is over and its files are written: its text may still have been lost.
void require_output() {
  if (const int reason = lost_output(); reason != 0)
    throw std::runtime_error(
        fmt::format("standard output could not be written and text of it is lost: {}; all files "
                    "that were asked for are there",
                    std::generic_category().message(reason)));
}

}  // namespace

int run_command(const RunCommandOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of the write, and never the end of what was trained
  StatusLine status;
  RunSetup setup = prepare_run(options, status);
  const int recorded =
      recorded_steps(setup.schedule, setup.scenario.run.steps, setup.backend->is_host(), setup.host_bytes);
  std::optional<RunComparison> comparing;
  if (!options.compare.empty()) {
    status.show("predicting ...");
    comparing.emplace(setup.scenario, setup.schedule, recorded, options.compare, options.schedule);
    status.clear();
  }
  if (!options.json) print_out(head_text(setup));
  if (lost_output() == EPIPE) throw std::runtime_error("standard output is read by nobody; nothing was started");
  status.show("taking memory and filling the states ...");
  Training training(setup.schedule, setup.scenario.model, *setup.backend);
  training.load(*setup.states, setup.steps_before);
  setup.states.reset();  // its files are closed: a save may replace them
  status.clear();

  Progress progress(setup, status, setup.scenario.run.steps, options.json);
  TrainingOptions trained = training_options(options, setup, recorded);
  trained.report = [&progress](const StepReport& report) { progress(report); };
  progress.begin();
  RunStops stops(options.save, setup, progress);
  trained.executor.control = &stops.control();
  const ExecutorResult result = training.run(trained);
  stops.writing();
  status.clear();

  Attempts attempts(result.stopped);
  const RunUpdates updates = count_updates(progress.reports(), setup.schedule.numerics.clip);
  attempts.make([&] { require_updates(updates, options.save); });
  const Timeline timeline = make_timeline(setup, training, result, progress);
  std::string files = write_run_files(options, setup, timeline, training, updates, attempts);
  if (!options.dump.empty())
    attempts.make_of_enough_steps([&] {
      write_dump(options.dump, setup.schedule, setup.scenario.model, *setup.backend, *setup.tokens, trained.hyper,
                 progress.reports());
    });
  const std::optional<Speed> speed = measure(setup, timeline);
  const BesideMemory beside = beside_memory(setup, training);
  std::optional<Comparison> comparison;
  if (comparing) attempts.make_of_enough_steps([&] { comparison = comparing->finish(setup.schedule, timeline); });
  if (options.json) {
    ordered_json json = result_json(setup, training, result, progress, speed, beside);
    json["updates"] = updates_json(updates);
    if (comparison) json["comparison"] = ordered_json::parse(comparison_json(setup.schedule, *comparison));
    print_out(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  } else {
    std::string text = tail_text(setup, result, speed, beside) + updates_text(updates);
    if (comparison) {
      text += fmt::format("\n{}\n", comparison_text(setup.schedule, *comparison));
      files += fmt::format("prediction, measurement and comparison lie in {}\n", options.compare.string());
    }
    print_out(text + files);
  }
  attempts.finish();
  require_output();
  return kExitDone;
}

}  // namespace penstock::exec
