#include "shared/scenario/training_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace penstock {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr std::string_view kExportTypes[] = {"bf16", "fp32"};

constexpr std::string_view kDataKinds[] = {"auto", "nanogpt"};

std::uint64_t read_seed(TomlSection& section) {
  return static_cast<std::uint64_t>(section.integer("seed", 0, INT64_MAX));
}

std::string read_kind(TomlSection& section) { return std::string(kDataKinds[section.choice("kind", kDataKinds)]); }

void read_rate(TomlSection& optimizer, bool has_steps, RunOptions& run) {
  RateOptions& rate = run.rate;
  if (optimizer.has("schedule"))
    rate.schedule = static_cast<RateSchedule>(optimizer.choice("schedule", kRateSchedules));
  const bool is_wsd = rate.schedule == RateSchedule::wsd;
  const bool has_total = optimizer.has("total_steps");
  if (has_total) rate.total_steps = optimizer.integer("total_steps", 2, kMostSteps);
  if (optimizer.has("final_learning_rate"))
    rate.final_rate = optimizer.number("final_learning_rate", 0, run.learning_rate);
  const bool has_decay = optimizer.has("decay_steps");
  if (has_decay && !is_wsd) optimizer.fail("decay_steps", "is of schedule = \"wsd\" alone; leave it out");
  if (rate.schedule == RateSchedule::constant) {
    for (const char* key : {"total_steps", "final_learning_rate"})
      if (optimizer.has(key)) optimizer.fail(key, "does nothing with schedule = \"constant\"; leave it out");
    return;
  }
  if (!has_total) {
    if (!has_steps)
      optimizer.fail("schedule", "needs to know over how many steps: give total_steps here, or [run] steps");
    rate.total_steps = run.steps;
  }
  const std::int64_t peak = std::max<std::int64_t>(1, run.learning_rate_warmup_steps);
  if (is_wsd && !has_decay) optimizer.fail("schedule", "wsd needs decay_steps, as a tenth of all steps");
  if (is_wsd) rate.decay_steps = optimizer.integer("decay_steps", 1, kMostSteps);
  const std::int64_t least = peak + std::max<std::int64_t>(1, rate.decay_steps);
  if (rate.total_steps < least)
    optimizer.fail(
        has_total ? "total_steps" : "schedule",
        fmt::format("{} steps in all are fewer than the {} that warm-up and decay take", rate.total_steps, least));
}

std::filesystem::path path_of(TomlSection& section, const char* key, const std::filesystem::path& scenario) {
  if (section.text(key).empty()) section.fail(key, "expected a path, found an empty text");
  return scenario_path(section.name() + "." + key, section.value(key), scenario);
}

}  // namespace

void read_init(TomlSection& section, RunOptions& run) {
  if (section.has("seed")) run.init.seed = read_seed(section);
  section.finish();
}

void read_data(TomlSection& section, RunOptions& run) {
  if (section.has("seed")) run.data.seed = read_seed(section);
  if (section.has("kind")) run.data.kind = read_kind(section);
  if (section.has("packing")) run.data.packing = static_cast<Packing>(section.choice("packing", kPackings));
  section.finish();
}

void read_eval(TomlSection& section, RunOptions& run) {
  EvalOptions& eval = run.eval;
  if (section.has("every")) eval.every = section.integer("every", 1, kMostSteps);
  if (section.has("kind")) eval.kind = read_kind(section);
  if (section.has("steps")) eval.steps = static_cast<int>(section.integer("steps", 1, 1'000'000));
  if (eval.every > 0 && eval.file.empty()) section.fail("every", "there is nothing to evaluate on; give file");
  for (const char* key : {"file", "kind", "steps"})
    if (eval.every == 0 && section.has(key))
      section.fail(key, "does nothing without every; give that, or leave it out");
  section.finish();
}

void read_optimizer(const TomlDocument& document, bool has_steps, RunOptions& run) {
  TomlSection optimizer(document, "optimizer");
  optimizer.has("freeze");  // read with the model
  const auto number = [&](const char* key, double& value, double low, double high) {
    if (optimizer.has(key)) value = optimizer.number(key, low, high);
  };
  number("learning_rate", run.learning_rate, 0, 100);
  number("beta1", run.beta1, 0, 0.999999);
  number("beta2", run.beta2, 0, 0.999999);
  number("epsilon", run.epsilon, 1e-30, 1);
  number("weight_decay", run.weight_decay, 0, 100);
  number("max_norm", run.max_norm, 1e-30, 1e30);
  if (optimizer.has("decay")) run.decay = static_cast<Decay>(optimizer.choice("decay", kDecays));
  if (optimizer.has("warmup_steps"))
    run.learning_rate_warmup_steps = static_cast<int>(optimizer.integer("warmup_steps", 0, kMostSteps));
  read_rate(optimizer, has_steps, run);
  optimizer.finish();
}

void read_checkpoint(const TomlDocument& document, const std::filesystem::path& scenario, RunOptions& run) {
  TomlSection section(document, "checkpoint");
  CheckpointOptions& checkpoint = run.checkpoint;
  if (section.has("folder")) checkpoint.folder = path_of(section, "folder", scenario);
  if (section.has("every")) checkpoint.every = section.integer("every", 1, kMostSteps);
  if (section.has("keep")) {
    if (checkpoint.every == 0) section.fail("keep", "does nothing without every; give that, or leave it out");
    checkpoint.keep = static_cast<int>(section.integer("keep", 1, 1'000'000));
  }
  if (section.has("copy")) {
    if (checkpoint.every == 0) section.fail("copy", "does nothing without every; give that, or leave it out");
    checkpoint.copy = section.boolean("copy");
  }
  if (section.has("export")) checkpoint.export_to = path_of(section, "export", scenario);
  if (section.has("export_like")) checkpoint.export_like = path_of(section, "export_like", scenario);
  if (section.has("export_type")) checkpoint.export_fp32 = section.choice("export_type", kExportTypes) == 1;
  if (section.has("export_shard")) checkpoint.export_shard_bytes = section.bytes("export_shard", 1);
  section.finish();
}

void read_log(const TomlDocument& document, const std::filesystem::path& scenario, RunOptions& run) {
  TomlSection section(document, "log");
  if (section.has("metrics")) run.metrics = path_of(section, "metrics", scenario);
  section.finish();
}

}  // namespace penstock
