#include "exec/program/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/ir/memory_text.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/machine/pinned_memory.h"
#include "shared/model/frozen_layers.h"
#include "shared/model/kernels.h"
#include "shared/standard_streams.h"
#include "shared/units.h"
#include "sim/cost/bounds.h"
#include "sim/front_desk.h"
#include "sim/planner/drive_use.h"
#include "sim/simulate.h"

namespace penstock::exec {
namespace {

using nlohmann::ordered_json;

std::string size(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::int64_t usable_bytes(const TierCapacities& room, TierKind tier) {
  return tier == TierKind::hbm ? room.hbm : tier == TierKind::dram ? room.dram : room.nvme;
}

std::string memory_lines(const RunSetup& setup) {
  std::string text;
  for (const TierMemory& tier : schedule_memory(setup.schedule)) {
    const std::string held = contents_text(tier, Unused::shown);
    text += fmt::format("{:<5} {} arena of {} usable:{}{}\n", tier_names()[static_cast<std::size_t>(tier.tier.kind)],
                        size(tier.arena_bytes), size(usable_bytes(setup.room, tier.tier.kind)), held.empty() ? "" : " ",
                        held);
    if (tier.tier.kind != TierKind::dram) continue;
    if (const std::string pinned = pinned_text(tier.arena_bytes, setup.scenario.machine); !pinned.empty())
      text += pinned + "\n";
  }
  if (setup.store != nullptr) {
    std::string folders;
    for (const std::filesystem::path& folder : setup.scenario.nvme_paths)
      folders += (folders.empty() ? "" : ", ") + folder.string();
    text += fmt::format("store {}: {}\n", folders, setup.store->describe());
  }
  return text;
}

std::string resumed_text(const RunSetup& setup) {
  if (!setup.resumed) return "";
  const Resumed& resumed = *setup.resumed;
  std::string text = fmt::format("resumed after step {} of {}{}\n", setup.steps_before, resumed.from.string(),
                                 setup.scenario.run.init.weights.empty() ? "" : "; [init] weights is not read");
  for (const ChangedValue& value : resumed.changed)
    text += fmt::format("changed since then, as allowed: {} was {}, is {}\n", value.key, value.before, value.now);
  for (const std::string& key : resumed.allowed_in_vain)
    text += fmt::format("--allow-changed {}: not needed, it is as it was\n", key);
  return text;
}

ordered_json resumed_json(const RunSetup& setup) {
  ordered_json changed = ordered_json::array();
  for (const ChangedValue& value : setup.resumed->changed)
    changed.push_back(
        {{"key", value.key}, {"before", ordered_json::parse(value.before)}, {"now", ordered_json::parse(value.now)}});
  return {{"from", setup.resumed->from.string()}, {"step", setup.steps_before}, {"changed", changed}};
}

ordered_json data_json(const TokenSource& tokens) {
  ordered_json passed_over = ordered_json::array();
  for (const PassedOver& what : tokens.passed_over())
    passed_over.push_back(
        {{"reason", what.reason}, {"count", what.count}, {"first", what.first}, {"command", what.command}});
  return {{"description", tokens.describe()}, {"checksum", tokens.checksum()}, {"passed_over", passed_over}};
}

/// What decays and what does not train.
std::string optimizer_text(const Scenario& scenario) {
  const RunOptions& run = scenario.run;
  std::string text = "optimizer: AdamW, ";
  switch (run.decay) {
    case Decay::all: text += fmt::format("weight decay {} of all that trains", run.weight_decay); break;
    case Decay::matrices:
      text += fmt::format("weight decay {} of matrices, not of norms, biases and embeddings", run.weight_decay);
      break;
    case Decay::matrices_and_embeddings:
      text += fmt::format("weight decay {} of matrices and embeddings, not of norms and biases", run.weight_decay);
      break;
  }
  const std::string frozen = frozen_text(scenario.model.config);
  return text + (frozen.empty() ? "\n" : fmt::format("; frozen: {}\n", frozen));
}

}  // namespace

double bound_seconds(const RunSetup& setup) {
  const Machine& machine = setup.scenario.machine;
  if (machine.gpu.matmul_flops_per_second <= 0) return 0;
  if (machine.gpu.is_host && !machine.measured) return 0;  // a guess at some CPU's rate bounds nothing
  return sim::any_schedule_seconds(setup.schedule, setup.scenario.model, machine);
}

ordered_json evaluations_json(std::span<const EvaluationReport> reports) {
  ordered_json list = ordered_json::array();
  for (const EvaluationReport& report : reports) {
    list.push_back({{"step", report.step}, {"loss", report.loss}, {"seconds", report.seconds}});
    if (report.balance_loss) list.back()["balance_loss"] = *report.balance_loss;
  }
  return list;
}

std::string head_text(const RunSetup& setup) {
  const Schedule& schedule = setup.schedule;
  std::string text = fmt::format("{}: {} with {} parameters, policy {}, backend {}, schedule {}\n", setup.scenario.name,
                                 setup.scenario.model.config.name, format_count(setup.scenario.model.parameters),
                                 schedule.policy, setup.backend->name(), schedule_hash(schedule));
  text += sim::planned_line(setup.decision);
  text += fmt::format("step: {} sequences of {} tokens in {} micro-batches; data: {}\n", setup.scenario.sequences,
                      setup.scenario.sequence_length, schedule.micro_batches, setup.tokens->describe());
  for (const PassedOver& what : setup.tokens->passed_over()) text += in_words(what) + "\n";
  if (setup.evaluation)
    text += fmt::format("evaluation: every {} steps, {} rows of {}\n", setup.scenario.run.eval.every,
                        std::int64_t{setup.scenario.run.eval.steps} * setup.scenario.sequences,
                        setup.evaluation->tokens->describe());
  text += optimizer_text(setup.scenario);
  if (!setup.weights.empty()) text += fmt::format("weights: {}\n", setup.weights);
  text += memory_lines(setup);
  text += resumed_text(setup);
  return text;
}

Timeline make_timeline(const RunSetup& setup, const Training& training, const ExecutorResult& result,
                       std::span<const StepReport> reports) {
  Timeline timeline;
  timeline.source = TimelineSource::measured;
  timeline.schedule_hash = schedule_hash(setup.schedule);
  timeline.scenario = setup.scenario.name;
  timeline.machine = setup.scenario.machine.name;
  timeline.first_step = static_cast<int>(setup.steps_before);
  timeline.steps = std::min(result.steps, result.recorder.steps());
  timeline.warmup_steps = std::min(setup.scenario.run.warmup_steps, timeline.steps);
  timeline.ops = result.recorder.times(timeline.first_step, timeline.steps);
  for (std::size_t i = 0; i < setup.schedule.tiers.size(); ++i)
    timeline.peaks.push_back({setup.schedule.tiers[i].kind, training.arenas()[i]});
  for (const StepReport& report : reports)
    if (timeline.losses.size() < static_cast<std::size_t>(timeline.steps)) timeline.losses.push_back(report.loss);
  return timeline;
}

double predicted_step_seconds(const RunSetup& setup) {
  sim::SimulateOptions options;
  options.record_timeline = false;
  try {
    return sim::simulate(setup.schedule, setup.scenario.machine, options).step_seconds;
  } catch (const InputError&) {
    return 0;
  }
}

std::optional<Speed> measure(const RunSetup& setup, const Timeline& timeline) {
  Speed speed;
  speed.periods = step_periods(setup.schedule, timeline).size();
  if (speed.periods == 0) return std::nullopt;
  speed.step_seconds = steady_step_seconds(setup.schedule, timeline);
  speed.spread = step_spread(setup.schedule, timeline);
  if (speed.step_seconds <= 0) return std::nullopt;
  speed.tokens_per_second = static_cast<double>(setup.schedule.tokens_per_step()) / speed.step_seconds;
  speed.model_flops_per_second = model_flops(setup.scenario.model, setup.schedule.whole_step()) / speed.step_seconds;
  speed.predicted_seconds = predicted_step_seconds(setup);
  return speed;
}

BesideMemory beside_memory(const RunSetup& setup, const Training& training) {
  const std::int64_t arenas = host_arena_bytes(setup.schedule, training.arenas(), setup.backend->is_host());
  const std::int64_t copy = setup.save ? setup.save->set_aside_bytes() : 0;
  const std::int64_t peak = peak_resident_bytes();
  return {peak < 0 ? -1 : std::max<std::int64_t>(0, peak - arenas - copy), setup.beside.total(arenas),
          setup.backend->context_bytes(), setup.host_bytes - read_memory_limits().usable_bytes() - arenas - copy};
}

std::string tail_text(const RunSetup& setup, const ExecutorResult& result, const std::optional<Speed>& speed,
                      const BesideMemory& beside) {
  std::string text;
  if (result.stopped)
    text = fmt::format("stopped after step {}, as asked; every update of it was applied\n",
                       setup.steps_before + result.steps);
  std::string held;
  if (beside.host_bytes >= 0)
    held = fmt::format("{} of host memory at most ({} had been left for it)", size(beside.host_bytes),
                       size(beside.counted_bytes));
  if (beside.gpu_bytes > 0)
    held +=
        fmt::format("{}{} of GPU memory for context and libraries", held.empty() ? "" : ", ", size(beside.gpu_bytes));
  if (!held.empty() && beside.machine_bytes > 0)
    held += fmt::format("; {} less are free on the machine", size(beside.machine_bytes));
  if (!held.empty()) text += fmt::format("beside the arenas: {}\n", held);
  const std::string drive =
      sim::drive_text(setup.schedule, setup.scenario.machine.nvme, speed ? speed->step_seconds : 0);
  if (!drive.empty()) text += drive + "\n";
  if (!speed) return text;
  text +=
      fmt::format("steady step {} ({}), {:.1f} tokens/s, {} model FLOPs\n", format_seconds(speed->step_seconds),
                  speed->periods == 1 ? "the only one" : fmt::format("median; spread {:.1f} %", speed->spread * 100),
                  speed->tokens_per_second, format_flops(speed->model_flops_per_second));
  if (speed->predicted_seconds <= 0) return text;
  return text + fmt::format("predicted   {} ({:+.1f} %{})\n", format_seconds(speed->predicted_seconds),
                            (speed->predicted_seconds / speed->step_seconds - 1) * 100,
                            setup.scenario.machine.measured
                                ? ""
                                : "; the machine is not calibrated: penstock-exec calibrate writes a profile of it");
}

ordered_json result_json(const RunSetup& setup, const Training& training, const ExecutorResult& result,
                         std::span<const StepReport> reports, const std::optional<Speed>& speed,
                         const BesideMemory& beside) {
  ordered_json steps = ordered_json::array(), memory = ordered_json::array();
  for (const StepReport& report : reports) {
    steps.push_back({{"step", report.step},
                     {"loss", report.loss},
                     {"gradient_norm", report.gradient_norm},
                     {"learning_rate", report.learning_rate},
                     {"skipped", report.skipped}});
    if (report.balance_loss) steps.back()["balance_loss"] = *report.balance_loss;
  }
  for (std::size_t i = 0; i < setup.schedule.tiers.size(); ++i)
    memory.push_back({{"tier", tier_names()[static_cast<std::size_t>(setup.schedule.tiers[i].kind)]},
                      {"arena_bytes", training.arenas()[i]},
                      {"usable_bytes", usable_bytes(setup.room, setup.schedule.tiers[i].kind)}});
  ordered_json json = {{"format", "penstock-run/1"},
                       {"scenario", setup.scenario.name},
                       {"policy", setup.schedule.policy},
                       {"schedule", schedule_hash(setup.schedule)},
                       {"backend", setup.backend->name()},
                       {"machine", setup.scenario.machine.name},
                       {"parameters", setup.scenario.model.parameters},
                       {"tokens_per_step", setup.schedule.tokens_per_step()},
                       {"data", data_json(*setup.tokens)},
                       {"stopped", result.stopped},
                       {"steps", steps},
                       {"memory", memory},
                       {"beside_arenas",
                        {{"host_bytes", beside.host_bytes},
                         {"host_counted_bytes", beside.counted_bytes},
                         {"machine_bytes", beside.machine_bytes},
                         {"gpu_bytes", beside.gpu_bytes}}}};
  if (!setup.weights.empty()) json["weights"] = setup.weights;
  if (setup.store != nullptr)
    sim::put_drive(json, setup.schedule, setup.scenario.machine.nvme, speed ? speed->step_seconds : 0);
  if (setup.resumed) json["resumed"] = resumed_json(setup);
  if (speed)
    json["steady"] = {{"step_seconds", speed->step_seconds},
                      {"spread", speed->spread},
                      {"tokens_per_second", speed->tokens_per_second},
                      {"model_flops_per_second", speed->model_flops_per_second},
                      {"predicted_step_seconds", speed->predicted_seconds},
                      {"calibrated", setup.scenario.machine.measured}};
  return json;
}

}  // namespace penstock::exec
