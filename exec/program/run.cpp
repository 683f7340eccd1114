#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/dump.h"
#include "exec/data/tokens.h"
#include "exec/program/commands.h"
#include "exec/program/run_comparison.h"
#include "exec/program/setup.h"
#include "exec/runtime/bind.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/training.h"
#include "shared/build_commit.h"
#include "shared/compare/recording.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/memory.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/model/kernels.h"
#include "shared/timeline/timeline.h"
#include "shared/units.h"
#include "sim/simulate.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::int64_t kRecorderBytes = std::int64_t{1} << 30;  // the most that recorded op times may take

std::atomic<int> stops{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may touch it

std::atomic<std::int64_t> last_stop_ns{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// `timeout` and other wrappers pass on a signal that the terminal or they themselves have also sent to the group: what
/// follows faster than a hand is the same stop once more.
constexpr std::int64_t kSameStopNs = 100'000'000;

extern "C" void count_stop(int) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  const std::int64_t before = last_stop_ns.exchange(now_ns);
  if (stops.load() == 0 || now_ns - before >= kSameStopNs) stops.fetch_add(1);
}

/// Ctrl-C and a polite kill ask for a stop while this lives.
class StopSignals {
 public:
  StopSignals() {
    struct sigaction action {};
    action.sa_handler = count_stop;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~StopSignals() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

/// What was given and made before the first step.
struct Setup {
  Scenario scenario;
  std::unique_ptr<Backend> backend;
  std::string planned;  // what the planner chose, to be printed
  Schedule schedule;
  std::unique_ptr<TokenSource> tokens;
  std::unique_ptr<StateSource> states;
  std::int64_t steps_before = 0;
};

void choose_states(const RunCommandOptions& options, Setup& setup) {
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

/// Where the schedule goes that the policy writes: beside the timeline, where `penstock-sim compare` looks.
fs::path schedule_beside(const RunCommandOptions& options) { return options.timeline.parent_path() / "schedule.json"; }

void check_output_files(const RunCommandOptions& options, const Scenario& scenario) {
  std::vector<fs::path> taken = scenario.files;
  taken.insert(taken.end(), {options.schedule, options.save});
  std::vector<fs::path> outputs;
  if (!options.timeline.empty() && options.schedule.empty()) outputs.push_back(schedule_beside(options));
  if (!options.timeline.empty()) outputs.push_back(options.timeline);
  if (!options.record.empty()) outputs.push_back(options.record);
  for (const fs::path& output : outputs) {
    check_output_file(output, taken);
    taken.push_back(output);
  }
}

/// Everything that can be wrong is found out here, before memory is taken.
Setup prepare(const RunCommandOptions& options, StatusLine& status) {
  Setup setup;
  setup.scenario = load_scenario(options.scenario, options.overrides, options.profile);
  RunOptions& run = setup.scenario.run;
  if (options.steps > 0) run.steps = options.steps;
  run.warmup_steps = std::min(run.warmup_steps, run.steps - 1);
  const Scenario& scenario = setup.scenario;
  if (!options.record.empty()) require_recordable(scenario, options.schedule);
  if (!options.save.empty()) check_save_target(options.save);
  check_output_files(options, scenario);
  const TokenShape shape{scenario.sequences, scenario.sequence_length, scenario.model.config.vocabulary};
  setup.tokens = open_tokens(scenario.run.data, scenario.path, shape, scenario.run.seed);
  choose_states(options, setup);
  setup.backend = open_backend(setup.scenario, options.backend, options.hbm_limit);
  limit_hbm(setup.scenario, *setup.backend);
  if (options.schedule.empty()) {
    status.show("planning ...");
    setup.planned = planned_line(setup.scenario, *setup.backend);
  }
  status.show("writing and proving the schedule ...");
  setup.schedule = proved_schedule(setup.scenario, options.schedule);
  require_no_drive(setup.schedule, setup.backend->is_host());
  require_host_memory(setup.schedule, arena_bytes(setup.schedule), setup.backend->is_host(), read_memory_limits());
  status.clear();
  return setup;
}

std::string memory_lines(const Schedule& schedule) {
  std::string text;
  for (const TierMemory& tier : schedule_memory(schedule)) {
    text += fmt::format("{:<5} {} arena:", tier_names()[static_cast<std::size_t>(tier.tier.kind)],
                        format_bytes(static_cast<double>(tier.arena_bytes)));
    const char* comma = " ";
    for (const auto& [what, bytes] : tier.contents) {
      text += fmt::format("{}{} {}", comma, what, format_bytes(static_cast<double>(bytes)));
      comma = ", ";
    }
    text += "\n";
  }
  return text;
}

void print_head(const Setup& setup) {
  const Schedule& schedule = setup.schedule;
  fmt::print("{}: {} with {} parameters, policy {}, backend {}, schedule {}\n", setup.scenario.name,
             setup.scenario.model.config.name, format_count(setup.scenario.model.parameters), schedule.policy,
             setup.backend->name(), schedule_hash(schedule));
  fmt::print("{}", setup.planned);
  fmt::print("step: {} sequences of {} tokens in {} micro-batches; data: {}\n", setup.scenario.sequences,
             setup.scenario.sequence_length, schedule.micro_batches, setup.tokens->describe());
  fmt::print("{}", memory_lines(schedule));
  if (setup.steps_before > 0) fmt::print("resumed after step {}\n", setup.steps_before);
  std::fflush(stdout);
}

/// Collects the steps' reports and prints them as they come.
class Progress {
 public:
  Progress(const Setup& setup, StatusLine& status, int steps, bool json)
      : status_(status),
        tokens_per_step_(setup.schedule.tokens_per_step()),
        last_step_(setup.steps_before + steps),
        json_(json) {}

  void begin() { last_ns_ = now_ns(); }
  /// Called from a host lane; nobody else writes meanwhile.
  void operator()(const StepReport& report) {
    reports_.push_back(report);
    const double seconds = static_cast<double>(report.at_ns - last_ns_) * 1e-9;
    last_ns_ = report.at_ns;
    status_.clear();
    if (!json_) {
      fmt::print("step {:>5}  loss {:.6f}  norm {:<9.4g} lr {:.3e}  {:>9.1f} tokens/s{}\n", report.step, report.loss,
                 report.gradient_norm, report.learning_rate, static_cast<double>(tokens_per_step_) / seconds,
                 report.skipped ? "  NOT UPDATED: the gradient norm is not finite" : "");
      std::fflush(stdout);
    }
    if (report.step < last_step_) status_.show(bar(report.step, seconds));
  }
  const std::vector<StepReport>& reports() const { return reports_; }

 private:
  std::string bar(std::int64_t step, double seconds) const {
    const auto filled = static_cast<std::size_t>(30 * step / std::max<std::int64_t>(1, last_step_));
    return fmt::format("[{}{}] step {} of {}, about {} left", std::string(filled, '#'), std::string(30 - filled, '.'),
                       step, last_step_, format_seconds(seconds * static_cast<double>(last_step_ - step)));
  }

  StatusLine& status_;
  std::int64_t tokens_per_step_;
  std::int64_t last_step_;
  bool json_;
  std::int64_t last_ns_ = 0;
  std::vector<StepReport> reports_;
};

Timeline make_timeline(const Setup& setup, const Training& training, const ExecutorResult& result,
                       const Progress& progress) {
  Timeline timeline;
  timeline.source = TimelineSource::measured;
  timeline.schedule_hash = schedule_hash(setup.schedule);
  timeline.scenario = setup.scenario.name;
  timeline.machine = setup.scenario.machine.name;
  timeline.first_step = static_cast<int>(setup.steps_before);
  timeline.steps = std::min(result.steps, result.recorder.steps());
  timeline.warmup_steps = std::min(setup.scenario.run.warmup_steps, std::max(0, timeline.steps - 1));
  timeline.ops = result.recorder.times(timeline.first_step, timeline.steps);
  for (std::size_t i = 0; i < setup.schedule.tiers.size(); ++i)
    timeline.peaks.push_back({setup.schedule.tiers[i].kind, training.arenas()[i]});
  for (const StepReport& report : progress.reports())
    if (timeline.losses.size() < static_cast<std::size_t>(timeline.steps)) timeline.losses.push_back(report.loss);
  return timeline;
}

/// Steady state, if enough steps were run for one.
struct Speed {
  double step_seconds = 0;
  double spread = 0;
  double tokens_per_second = 0;
  double model_flops_per_second = 0;
  double predicted_seconds = 0;  // 0 = not known
};

/// 0 where the machine lacks a figure that the schedule needs: no reason for a run that is done to fail.
double predicted_step_seconds(const Setup& setup) {
  sim::SimulateOptions options;
  options.record_timeline = false;
  try {
    return sim::simulate(setup.schedule, setup.scenario.machine, options).step_seconds;
  } catch (const InputError&) {
    return 0;
  }
}

std::optional<Speed> measure(const Setup& setup, const Timeline& timeline) {
  if (timeline.steps - timeline.warmup_steps < 2) return std::nullopt;
  Speed speed;
  speed.step_seconds = steady_step_seconds(setup.schedule, timeline);
  speed.spread = step_spread(setup.schedule, timeline);
  if (speed.step_seconds <= 0) return std::nullopt;
  speed.tokens_per_second = static_cast<double>(setup.schedule.tokens_per_step()) / speed.step_seconds;
  speed.model_flops_per_second =
      model_flops(setup.scenario.model, {setup.scenario.sequences, setup.scenario.sequence_length}) /
      speed.step_seconds;
  speed.predicted_seconds = predicted_step_seconds(setup);
  return speed;
}

void print_tail(const Setup& setup, const ExecutorResult& result, const std::optional<Speed>& speed) {
  if (result.stopped)
    fmt::print("stopped after step {}, as asked; every update of it was applied\n", setup.steps_before + result.steps);
  if (!speed) return;
  fmt::print("steady step {} (median; spread {:.1f} %), {:.1f} tokens/s, {} model FLOPs\n",
             format_seconds(speed->step_seconds), speed->spread * 100, speed->tokens_per_second,
             format_flops(speed->model_flops_per_second));
  if (speed->predicted_seconds <= 0) return;
  fmt::print("predicted   {} ({:+.1f} %{})\n", format_seconds(speed->predicted_seconds),
             (speed->predicted_seconds / speed->step_seconds - 1) * 100,
             setup.scenario.machine.measured
                 ? ""
                 : "; the machine is not calibrated: penstock-exec calibrate writes a profile of it");
}

ordered_json result_json(const Setup& setup, const Training& training, const ExecutorResult& result,
                         const Progress& progress, const std::optional<Speed>& speed) {
  ordered_json steps = ordered_json::array(), memory = ordered_json::array();
  for (const StepReport& report : progress.reports())
    steps.push_back({{"step", report.step},
                     {"loss", report.loss},
                     {"gradient_norm", report.gradient_norm},
                     {"learning_rate", report.learning_rate},
                     {"skipped", report.skipped}});
  for (std::size_t i = 0; i < setup.schedule.tiers.size(); ++i)
    memory.push_back({{"tier", tier_names()[static_cast<std::size_t>(setup.schedule.tiers[i].kind)]},
                      {"arena_bytes", training.arenas()[i]}});
  ordered_json json = {{"format", "penstock-run/1"},
                       {"scenario", setup.scenario.name},
                       {"policy", setup.schedule.policy},
                       {"schedule", schedule_hash(setup.schedule)},
                       {"backend", setup.backend->name()},
                       {"machine", setup.scenario.machine.name},
                       {"parameters", setup.scenario.model.parameters},
                       {"tokens_per_step", setup.schedule.tokens_per_step()},
                       {"stopped", result.stopped},
                       {"steps", steps},
                       {"memory", memory}};
  if (speed)
    json["steady"] = {{"step_seconds", speed->step_seconds},
                      {"spread", speed->spread},
                      {"tokens_per_second", speed->tokens_per_second},
                      {"model_flops_per_second", speed->model_flops_per_second},
                      {"predicted_step_seconds", speed->predicted_seconds},
                      {"calibrated", setup.scenario.machine.measured}};
  return json;
}

int recorded_steps(const Schedule& schedule, int steps) {
  const std::int64_t per_step = static_cast<std::int64_t>(schedule.ops.size()) * 16;
  return static_cast<int>(
      std::min<std::int64_t>(steps, std::max<std::int64_t>(1, kRecorderBytes / std::max<std::int64_t>(1, per_step))));
}

/// The timeline and, where the policy wrote it, the schedule beside it.
void write_files(const RunCommandOptions& options, const Setup& setup, const Timeline& timeline,
                 const Training& training) {
  if (!options.save.empty())
    save_checkpoint(options.save, {training.steps_done(), setup.scenario.run.seed}, setup.schedule,
                    setup.scenario.model, training.states());
  if (!options.record.empty())
    write_recording(
        make_recording(setup.scenario, options.overrides, setup.schedule, timeline, build_commit(), options.record),
        options.record);
  if (options.timeline.empty()) return;
  write_timeline(timeline, options.timeline);
  if (options.schedule.empty()) write_schedule(setup.schedule, schedule_beside(options));
}

void print_files(const RunCommandOptions& options, const Training& training) {
  if (!options.save.empty()) fmt::print("saved step {} to {}\n", training.steps_done(), options.save.string());
  if (!options.timeline.empty()) fmt::print("wrote {}\n", options.timeline.string());
  if (!options.record.empty()) fmt::print("recorded in {}\n", options.record.string());
}

}  // namespace

int run_command(const RunCommandOptions& options) {
  StatusLine status;
  const Setup setup = prepare(options, status);
  const RunOptions& run = setup.scenario.run;
  const int recorded = recorded_steps(setup.schedule, run.steps);
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
  training_options.executor.stops = &stops;
  const StopSignals signals;
  progress.begin();
  const ExecutorResult result = training.run(training_options);
  status.clear();

  const Timeline timeline = make_timeline(setup, training, result, progress);
  write_files(options, setup, timeline, training);
  if (!options.dump.empty())
    write_dump(options.dump, setup.schedule, setup.scenario.model, *setup.backend, *setup.tokens,
               training_options.hyper, progress.reports());
  const std::optional<Speed> speed = measure(setup, timeline);
  std::optional<Comparison> comparison;
  if (comparing) comparison = comparing->finish(setup.schedule, timeline);
  if (options.json) {
    ordered_json json = result_json(setup, training, result, progress, speed);
    if (comparison) json["comparison"] = ordered_json::parse(comparison_json(setup.schedule, *comparison));
    fmt::print("{}\n", json.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    print_tail(setup, result, speed);
    if (comparison) fmt::print("\n{}\n", comparison_text(setup.schedule, *comparison));
    print_files(options, training);
    if (comparison) fmt::print("prediction, measurement and comparison lie in {}\n", options.compare.string());
  }
  return kExitDone;
}

}  // namespace penstock::exec
