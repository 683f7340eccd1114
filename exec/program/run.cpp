#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/checkpoint/dump.h"
#include "exec/cuda/backend.h"
#include "exec/program/attempts.h"
#include "exec/program/card_log.h"
#include "exec/program/card_sensor.h"
#include "exec/program/commands.h"
#include "exec/program/model_export.h"
#include "exec/program/run_comparison.h"
#include "exec/program/run_outputs.h"
#include "exec/program/run_report.h"
#include "exec/program/run_saves_report.h"
#include "exec/program/run_setup.h"
#include "exec/program/run_start.h"
#include "exec/program/run_stops.h"
#include "exec/program/run_updates.h"
#include "exec/program/watchdog.h"
#include "exec/training/console_line.h"
#include "exec/training/evaluation.h"
#include "exec/training/metrics_log.h"
#include "exec/training/step_record.h"
#include "exec/training/trainer.h"
#include "exec/training/training.h"
#include "shared/error.h"
#include "shared/path_kind.h"
#include "shared/standard_streams.h"

namespace penstock::exec {

using nlohmann::ordered_json;

namespace {

AdamHyper hyper_of(const RunOptions& run) {
  return {run.learning_rate, run.beta1, run.beta2, run.epsilon, run.weight_decay, run.max_norm};
}

TrainingOptions training_options(const RunCommandOptions& options, const RunSetup& setup, int recorded) {
  const RunOptions& run = setup.scenario.run;
  const Watchdog watchdog =
      watchdog_of(options.watchdog_seconds, setup.schedule, setup.scenario, setup.backend->is_host());
  TrainingOptions training;
  training.hyper = hyper_of(run);
  training.learning_rate_warmup_steps = run.learning_rate_warmup_steps;
  training.rate = run.rate;
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

/// Of --resume auto, where all steps are done.
std::string nothing_left_text(const std::filesystem::path& checkpoint, bool json) {
  if (!json) return fmt::format("nothing to train: {} has all the steps\n", checkpoint.string());
  const ordered_json result = {
      {"format", "penstock-run/1"}, {"finished", checkpoint.string()}, {"steps", ordered_json::array()}};
  return result.dump(2) + "\n";
}

/// From what was given to what is left: prepared, trained, written, said.
class Run {
 public:
  /// Everything that can be refused is; memory is taken.
  Run(const RunCommandOptions& options, Scenario scenario, StatusLine& status) : options_(options), status_(status) {
    stops_.emplace(options_.save);
    prepare_run(options_, std::move(scenario), status_, setup_);
    if (const auto& path = setup_.scenario.run.metrics; !path.empty())
      metrics_.emplace(path, setup_.steps_before, setup_.schedule.tokens_per_step());
    predict();
    if (!options.json) print_out(head_text(setup_));
    if (lost_output() == EPIPE) throw std::runtime_error("standard output is read by nobody; nothing was started");
    status.update("taking memory and filling the states");
    training_.emplace(setup_.schedule, setup_.scenario.model, *setup_.backend, std::move(setup_.drive),
                      setup_.scenario.run.decay);
    learn_pinned();
    training_->load(*setup_.states, setup_.steps_before);
    setup_.states.reset();  // its files are closed: a save may replace them
    const std::string saves = setup_.save ? prepare_saves(setup_, *training_) : "";
    status.clear();
    if (!options.json) print_out(saves);
    if (setup_.evaluation)
      evaluation_.emplace(setup_.evaluation->schedule, *training_, *setup_.backend, *setup_.evaluation->tokens,
                          setup_.scenario.run.eval.steps);
    if (metrics_) metrics_->begin();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// From here on a wish to end leaves time to finish.
  void train() {
    ConsoleLine console(status_, console_options());
    stops_->begins(setup_);
    std::vector<TrainingObserver*> observers{&*stops_, &console, &record_};
    if (metrics_) observers.push_back(&*metrics_);
    TrainingOptions options = training_options(options_, setup_, recorded_);
    options.executor.control = &stops_->control();
    options.executor.gates = setup_.save ? setup_.save->gates() : nullptr;
    Trainer trainer(*training_, options, observers);
    if (evaluation_) trainer.evaluates(*evaluation_, setup_.scenario.run.eval.every);
    if (setup_.save) trainer.saves(*setup_.save, setup_.description);
    watch_card();
    // A run that was killed may have saved a step and not evaluated it.
    trainer.train(metrics_ && metrics_->has_evaluation());
    if (card_) card_summary_ = card_->finish();
    trainer.finish_save();
    stops_->writing();
    status_.clear();
    result_ = trainer.take_result();
    updates_ = count_updates(record_.steps(), setup_.schedule.numerics.clip);
  }
  bool stopped() const { return result_.stopped; }

  /// Each file by itself; in the text, where it is.
  void write(Attempts& attempts) {
    if (metrics_) attempts.make([&] { metrics_->finish(); });
    const bool saves_nothing = !setup_.save || !setup_.save->saved();
    attempts.make([&] { require_updates(updates_, saves_nothing ? options_.save : std::filesystem::path()); });
    const Timeline timeline = make_timeline(setup_, *training_, result_, record_.steps());
    files_ = write_run_files(options_, setup_, timeline, *training_, updates_, attempts);
    export_model(attempts);
    if (!options_.dump.empty())
      attempts.make_of_enough_steps([&] {
        write_dump(options_.dump, setup_.schedule, setup_.scenario.model, training_->memories(), *setup_.tokens,
                   hyper_of(setup_.scenario.run), record_.steps());
      });
    speed_ = measure(setup_, timeline);
    if (comparing_) attempts.make_of_enough_steps([&] { comparison_ = comparing_->finish(setup_.schedule, timeline); });
  }

  void print() const {
    const BesideMemory beside = beside_memory(setup_, *training_);
    print_out(options_.json ? json(beside) : text(beside));
  }

 private:
  ConsoleOptions console_options() const {
    return {setup_.schedule.tokens_per_step(), bound_seconds(setup_), setup_.steps_before + setup_.scenario.run.steps,
            !options_.json};
  }

  /// The driver's readings of the card, where it can be asked.
  void watch_card() {
    if (setup_.backend->is_host()) return;
    std::string why;
    if (auto sensor = open_card_sensor(cuda_bus_id(), why))
      card_.emplace(std::move(sensor));
    else
      tell(fmt::format("penstock-exec: note: clocks, power and link of the card are not read: {}\n", why));
  }

  /// A run that was ended early and has saved goes on from there, and exports when it is done.
  void export_model(Attempts& attempts) {
    if (!setup_.exported || updates_.failed()) return;
    if (result_.stopped && setup_.save) {
      files_ += fmt::format("not exported to {}: not all steps are trained\n", setup_.exported->folder().string());
      return;
    }
    is_exported_ = attempts.make([&] {
      setup_.exported->write(training_->states());
      files_ += exported_text(*setup_.exported);
    });
  }

  /// What could be pinned decides how copies go: what was predicted without knowing is predicted again.
  void learn_pinned() {
    const std::optional<Backend::Pinned> pinned = setup_.backend->pinned();
    if (!pinned) return;
    status_.clear();
    tell(fmt::format("penstock-exec: note: {}\n", pinned->why));
    if (std::exchange(setup_.scenario.machine.pinned_bytes, pinned->bytes) != pinned->bytes) predict();
  }

  void predict() {
    recorded_ =
        recorded_steps(setup_.schedule, setup_.scenario.run.steps, setup_.backend->is_host(), setup_.host_bytes);
    if (options_.compare.empty()) return;
    status_.update("predicting");
    comparing_.emplace(setup_.scenario, setup_.schedule, recorded_, options_.compare, options_.schedule);
    status_.clear();
  }

  std::string json(const BesideMemory& beside) const {
    ordered_json json = result_json(setup_, *training_, result_, record_.steps(), speed_, beside);
    json["updates"] = updates_json(updates_);
    if (setup_.save) json["saves"] = saves_json(*setup_.save);
    if (card_) json["card"] = card_json(card_summary_);
    if (evaluation_) json["evaluations"] = evaluations_json(record_.evaluations());
    if (is_exported_) json["exported"] = setup_.exported->folder().string();
    if (comparison_) json["comparison"] = ordered_json::parse(comparison_json(setup_.schedule, *comparison_));
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }

  std::string text(const BesideMemory& beside) const {
    std::string text = tail_text(setup_, result_, speed_, beside) + card_text(card_summary_) + updates_text(updates_);
    if (setup_.save) text += saves_text(*setup_.save);
    if (comparison_) text += fmt::format("\n{}\n", comparison_text(setup_.schedule, *comparison_));
    text += files_;
    if (comparison_)
      text += fmt::format("prediction, measurement and comparison lie in {}\n", options_.compare.string());
    return text;
  }

  const RunCommandOptions& options_;
  StatusLine& status_;
  RunSetup setup_;
  int recorded_ = 0;  // steps
  std::optional<RunComparison> comparing_;
  std::optional<Training> training_;
  std::optional<Evaluation> evaluation_;
  StepRecord record_;
  std::optional<MetricsLog> metrics_;
  std::optional<RunStops> stops_;
  std::optional<CardLog> card_;
  CardSummary card_summary_;
  ExecutorResult result_;
  RunUpdates updates_;
  std::string files_;
  bool is_exported_ = false;
  std::optional<Speed> speed_;
  std::optional<Comparison> comparison_;
};

/// What a run that was killed behind its last checkpoint still owes. A folder that is there is its own.
void export_finished(const std::filesystem::path& checkpoint, const RunCommandOptions& options, Scenario scenario) {
  if (!options.export_to.empty()) scenario.run.checkpoint.export_to = options.export_to;
  if (scenario.run.checkpoint.export_to.empty() || is_there(scenario.run.checkpoint.export_to)) return;
  check_run_outputs(options, scenario, {});
  ModelFolder folder(export_options(scenario), scenario.model);
  export_checkpoint(*open_checkpoint(checkpoint), scenario.model, folder);
  if (!options.json) print_out(exported_text(folder));
}

}  // namespace

int run_command(const RunCommandOptions& given) {
  Scenario scenario = read_scenario(given.scenario);
  const RunStart start = find_start(given, scenario);
  const RunCommandOptions& options = start.options;
  if (start.finished) {
    export_finished(*start.finished, options, scenario);
    print_out(nothing_left_text(*start.finished, options.json));
    require_output();
    return kExitDone;
  }
  ::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of the write, and never the end of what was trained
  StatusLine status;
  Run run(options, std::move(scenario), status);
  run.train();
  Attempts attempts(run.stopped());
  run.write(attempts);
  run.print();
  attempts.finish();
  require_output();
  return kExitDone;
}

}  // namespace penstock::exec
