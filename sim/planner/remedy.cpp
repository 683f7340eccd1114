#include "sim/planner/remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "shared/error.h"
#include "shared/model/frozen_layers.h"
#include "shared/scenario/policy_toml.h"
#include "shared/toml_reader.h"
#include "shared/units.h"
#include "sim/planner/open_policy.h"
#include "sim/planner/search.h"
#include "sim/simulate.h"

namespace penstock::sim {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMostOps = 500'000;        // simulated to predict one remedy
constexpr std::size_t kMostOfAClass = 5;          // that are predicted and ranked
constexpr std::int64_t kMostBytes = 4096 * kGiB;  // of a tier that is asked for
constexpr std::int64_t kCapacityStep = 1 * kGiB;  // capacities are whole GiB

constexpr const char* kOtherBits = "sums in another order: the last bits differ";

/// A scenario with one key changed that fits.
struct Trial {
  Remedy remedy;
  Scenario scenario;
};

/// What arenas the scenario needs; nothing if its parameters contradict each other.
std::optional<ArenaBytes> preset_arenas(const Scenario& scenario) {
  try {
    return arena_bytes(scenario.policy_input());
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// False: all tiers together do not hold the states, whatever the schedule.
bool holds_states(const Scenario& scenario) {
  const Numerics& numerics = scenario.policy.numerics;
  const std::int64_t weights = numerics.states == StateFormat::planes            ? 4
                               : numerics.states == StateFormat::master_and_copy ? 6
                                                                                 : 2;
  const TierCapacities room = usable_memory(scenario.machine);
  const std::int64_t bytes = weights + 2 * element_bytes(numerics.moments);
  return scenario.model.parameters <= (room.hbm + room.dram + room.nvme) / bytes;
}

/// The policy as a table, for the value of one key.
std::string policy_value(const PolicyParameters& policy, const std::string& key) {
  std::istringstream lines(policy_text(policy));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key + " = ")) return line.substr(key.size() + 3);
  return {};
}

/// The planner's policy with what [policy] gives beside the preset's name.
PolicyParameters ours_with_fixed(const Scenario& scenario) {
  std::string text = "[policy]\nname = \"penstock\"\n";
  for (const std::string& key : scenario.fixed)
    if (const std::string value = policy_value(scenario.policy, key); !value.empty())
      text += fmt::format("{} = {}\n", key, value);
  return read_policy(parse_toml(text, scenario.path.string()));
}

class Remedies {
 public:
  Remedies(const Scenario& scenario, int threads, bool machine_is_there)
      : scenario_(scenario),
        threads_(threads),
        machine_is_there_(machine_is_there),
        planned_(is_planned(scenario.policy.name)) {}

  std::vector<Remedy> find() {
    for (const auto& add_class :
         {&Remedies::same_mathematics, &Remedies::other_numerics, &Remedies::other_machine, &Remedies::other_task}) {
      trials_.clear();
      (this->*add_class)();
      rank();
      for (const Trial& trial : trials_)
        if (found_.size() < static_cast<std::size_t>(kMostRemedies)) found_.push_back(trial.remedy);
      if (found_.size() == static_cast<std::size_t>(kMostRemedies)) break;
    }
    return std::move(found_);
  }

 private:
  // --- whether it fits

  /// The candidate of those that need least, if it fits.
  std::optional<Candidate> fitting(const Scenario& scenario) const {
    if (!is_planned(scenario.policy.name)) {
      const auto arenas = preset_arenas(scenario);
      if (!arenas || !fits(*arenas, scenario.policy_input())) return std::nullopt;
      return candidate_of(scenario, scenario.policy);
    }
    if (holds_states(scenario)) {
      Scenario open = scenario;
      if (!may_cut(scenario)) open.fixed.insert("chunk_tokens");
      open.fixed.insert({"micro_batch", "loss_chunk_tokens"});
      const Feasibility result = feasible(open, compact_space(open), threads_);
      if (result.fits) return result.closest.candidate;
    }
    return std::nullopt;
  }

  /// Keeps the changed scenario if it fits.
  bool attempt(Remedy remedy, Scenario changed) {
    if (!fitting(changed)) return false;
    trials_.push_back({std::move(remedy), std::move(changed)});
    return true;
  }
  template <typename Change>
  bool attempt(const char* key, const std::string& value, const char* cost, Change change) {
    Scenario changed = scenario_;
    change(changed);
    return attempt({key, value, cost}, std::move(changed));
  }

  // --- class 1

  void same_mathematics() {
    if (scenario_.run.deterministic && !scenario_.machine.gpu.is_host)
      attempt("run.deterministic", "false", "the last bits vary from run to run",
              [](Scenario& s) { s.run.deterministic = false; });
    if (planned_)
      left_to_the_planner();
    else
      preset_places();
    larger_drive();
    smaller_chunks();
    shorter_chunks_of_sequences();
    for (int size = scenario_.micro_batch - 1; size >= 1; --size)
      if (scenario_.sequences % size == 0 && attempt("workload.micro_batch", fmt::format("{}", size), kOtherBits,
                                                     [&](Scenario& s) { s.micro_batch = size; }))
        break;
    if (!planned_)
      attempt("policy.name", "\"penstock\"", "no longer the preset's schedule, nor its numerics",
              [](Scenario& s) { s.policy = ours_with_fixed(s); });
  }

  /// A key that the scenario fixes gets the value that the planner would give it.
  void left_to_the_planner() {
    for (const std::string& key : scenario_.fixed) {
      if (!choice_keys().contains(key) || key.ends_with("chunk_tokens") || key == "micro_batch") continue;
      Scenario open = scenario_;
      open.fixed.erase(key);
      const auto candidate = fitting(open);
      if (!candidate) continue;
      Scenario only = scenario_;  // what this key is, and nothing else of the candidate
      only.fixed = {key};
      only.policy = candidate->parameters;
      Scenario changed = scenario_;
      changed.policy = with_fixed(candidate_of(scenario_, scenario_.policy), only).parameters;
      changed.policy.name = scenario_.policy.name;
      attempt({"policy." + key, policy_value(changed.policy, key), "another schedule of the same mathematics"},
              std::move(changed));
    }
  }

  template <typename Change>
  bool attempt_policy(const std::string& key, const char* cost, Change change) {
    Scenario changed = scenario_;
    change(changed.policy);
    const std::string value = policy_value(changed.policy, key);
    if (value == policy_value(scenario_.policy, key)) return false;
    return attempt({"policy." + key, value, cost}, std::move(changed));
  }

  void preset_places() {
    constexpr const char* kRecompute = "more is recomputed";
    constexpr const char* kTravel = "more crosses the link";
    constexpr const char* kLessAhead = "less is fetched ahead";
    for (const Keep keep : {Keep::input_attention, Keep::input_context, Keep::input})
      if (keep < scenario_.policy.keep && attempt_policy("keep", kRecompute, [&](auto& p) { p.keep = keep; })) break;
    for (const int every : {2, 4, 8})
      if (every > scenario_.policy.checkpoint_every &&
          attempt_policy("checkpoint_every", kRecompute, [&](auto& p) { p.checkpoint_every = every; }))
        break;
    attempt_policy("activations", kTravel, [](auto& p) { p.activations = TierKind::dram; });
    attempt_policy("gradients", "gradients wait elsewhere",
                   [](auto& p) { p.gradients = p.gradients == TierKind::dram ? TierKind::hbm : TierKind::dram; });
    attempt_policy("gradient_sums", kTravel, [](auto& p) { p.gradient_sums = TierKind::dram; });
    attempt_policy("resident_states", kTravel, [](auto& p) { p.resident_states = 0; });
    attempt_policy("resident_weights", kTravel, [](auto& p) { p.resident_weights = 0; });
    attempt_policy("weight_buffers", kLessAhead, [](auto& p) { p.weight_buffers = 1; });
    attempt_policy("gradient_slots", kLessAhead, [](auto& p) { p.gradient_slots = 1; });
    attempt_policy("activation_slots", kLessAhead, [](auto& p) { p.activation_slots = 1; });
    attempt_policy("optimizer_place", "the CPU updates", [](auto& p) { p.optimizer_place = OptimizerPlace::host; });
    if (scenario_.machine.nvme.bytes > 0) {
      constexpr const char* kWrites = "the drive is written in every step";
      attempt_policy("nvme_states", kWrites, [](auto& p) { p.nvme_states = -1; });
      attempt_policy("activations", kWrites, [](auto& p) { p.activations = TierKind::nvme; });
    }
  }

  void shorter_chunks_of_sequences() {
    // Under a planned policy they have been tried unless they are given.
    if (scenario_.micro_batch > 1 || (planned_ && !scenario_.fixed.contains("chunk_tokens"))) return;
    for (const std::int64_t tokens : chunks_to_try(scenario_))
      if ((scenario_.chunk_tokens == 0 || tokens < scenario_.chunk_tokens) &&
          attempt("workload.chunk_tokens", fmt::format("{}", tokens), kOtherBits,
                  [&](Scenario& s) { s.chunk_tokens = tokens; }))
        break;
  }

  void smaller_chunks() {
    const Chunking& now = scenario_.policy.numerics.chunking;
    const auto is_smaller = [&](std::int64_t tokens, std::int64_t before) {
      return tokens < scenario_.micro_batch * scenario_.sequence_length && (before == 0 || tokens < before);
    };
    // Under a planned policy an open chunk has been tried.
    const bool open = planned_ && !scenario_.fixed.contains("mlp_chunk_tokens");
    for (const std::int64_t tokens : {8192, 4096, 2048, 1024, 512})
      if (!open && is_smaller(tokens, now.mlp_tokens) &&
          attempt("policy.mlp_chunk_tokens", fmt::format("{}", tokens), kOtherBits,
                  [&](Scenario& s) { s.policy.numerics.chunking.mlp_tokens = tokens; }))
        break;
    for (const std::int64_t tokens : {512, 256, 128})
      if (is_smaller(tokens, now.loss_tokens == 0 ? kDefaultLossTokens : now.loss_tokens) &&
          attempt("policy.loss_chunk_tokens", fmt::format("{}", tokens), kOtherBits,
                  [&](Scenario& s) { s.policy.numerics.chunking.loss_tokens = tokens; }))
        break;
  }

  // --- class 2

  void other_numerics() {
    const auto numerics = [&](const char* key, const char* cost, auto change) {
      attempt_policy(key, cost, [&](PolicyParameters& p) { change(p.numerics); });
    };
    numerics("moments", "moments rounded to bf16: other mathematics",
             [](Numerics& n) { n.moments = ElementType::bf16; });
    numerics("gradient_sum", "gradients summed in bf16: other mathematics",
             [](Numerics& n) { n.gradient_sum = ElementType::bf16; });
    if (planned_)
      numerics("clip", "gradients are consumed as they land, nothing is clipped: other mathematics",
               [](Numerics& n) { n.clip = false; });
    numerics("states", "no fp32 master: other mathematics", [](Numerics& n) { n.states = StateFormat::bf16; });
  }

  // --- class 3

  void other_machine() {
    if (machine_is_there_) return;
    larger("machine.dram", scenario_.machine.dram_bytes, "",
           [](Machine& m, std::int64_t bytes) { m.dram_bytes = bytes; });
    larger("machine.hbm", scenario_.machine.gpu.hbm_bytes, "",
           [](Machine& m, std::int64_t bytes) { m.gpu.hbm_bytes = bytes; });
  }

  /// Most machines have a drive, whether anybody spoke of it or not: it comes before other numerics.
  void larger_drive() {
    if (!planned_ || scenario_.machine.nvme.read_bytes_per_second <= 0) return;
    if (machine_is_there_ && !scenario_.nvme_paths.empty()) return;
    const std::size_t before = trials_.size();
    larger("machine.nvme", scenario_.machine.nvme.bytes, "states on a drive, which is written in every step",
           [](Machine& m, std::int64_t bytes) { m.nvme.bytes = bytes; });
    if (!machine_is_there_ || trials_.size() == before) return;
    Trial& trial = trials_.back();  // of a run it takes a folder there
    trial.remedy.cost = fmt::format("with {} free, on a drive, which is written in every step",
                                    format_bytes(static_cast<double>(trial.scenario.machine.nvme.bytes)));
    trial.remedy.key = "machine.nvme_path";
    trial.remedy.value = "\"FOLDER\"";
  }

  /// The least capacity with which it fits; `cost` empty: how much more that is.
  template <typename Set>
  void larger(const char* key, std::int64_t now, const std::string& cost, Set set) {
    const auto with = [&](std::int64_t bytes) {
      Scenario changed = scenario_;
      set(changed.machine, bytes);
      return changed;
    };
    if (!fitting(with(kMostBytes))) return;
    std::int64_t low = now / kCapacityStep, high = kMostBytes / kCapacityStep;  // high fits
    while (high - low > std::max<std::int64_t>(1, high / 128)) {
      const std::int64_t middle = (low + high) / 2;
      (fitting(with(middle * kCapacityStep)) ? high : low) = middle;
    }
    const std::int64_t bytes = high * kCapacityStep;
    const std::string more = fmt::format("{} more than there are", format_bytes(static_cast<double>(bytes - now)));
    trials_.push_back({{key, fmt::format("\"{} GiB\"", high), cost.empty() ? more : cost}, with(bytes)});
  }

  // --- class 4

  /// The largest count below `now` with which it fits, to about 1 %; a multiple of `unit`.
  template <typename Set>
  void fewer(const char* key, std::int64_t now, std::int64_t unit, const char* cost, Set set) {
    const auto with = [&](std::int64_t units) {
      Scenario changed = scenario_;
      set(changed, units * unit);
      return changed;
    };
    std::int64_t low = 1, high = (now + unit - 1) / unit;  // low fits, high does not
    if (high <= low || !fitting(with(low))) return;
    while (high - low > std::max<std::int64_t>(1, low / 128)) {
      const std::int64_t middle = (low + high) / 2;
      (fitting(with(middle)) ? low : high) = middle;
    }
    trials_.push_back({{key, fmt::format("{}", low * unit), cost}, with(low)});
  }

  void other_task() {
    fewer("workload.sequences", scenario_.sequences, scenario_.micro_batch, "fewer tokens per optimizer step",
          [](Scenario& s, std::int64_t count) { s.sequences = static_cast<int>(count); });
    const std::int64_t length = scenario_.sequence_length;
    fewer("workload.sequence_length", length,
          length >= 4096  ? 1024
          : length >= 128 ? 64
                          : 1,
          "shorter sequences", [](Scenario& s, std::int64_t tokens) { s.sequence_length = tokens; });
    fewer("model.layers", scenario_.model.layer_count() - 2, 1, "another model",
          [](Scenario& s, std::int64_t layers) { s.model = make_model(with_decoder_layers(s.model.config, layers)); });
  }

  // --- what it costs

  void rank() {
    if (trials_.size() > kMostOfAClass) trials_.resize(kMostOfAClass);
    std::erase_if(trials_, [&](Trial& trial) { return !predict(trial); });
    std::stable_sort(trials_.begin(), trials_.end(), [](const Trial& a, const Trial& b) {
      return a.remedy.tokens_per_second > b.remedy.tokens_per_second;
    });
  }

  /// False if there is no plan after all: the machine lacks a figure that it needs.
  bool predict(Trial& trial) const {
    Scenario& scenario = trial.scenario;
    try {
      SearchOptions how;
      how.threads = threads_;
      how.most_ops = kMostOps;
      apply(decide(scenario, how), scenario);
      const PolicyInput input = scenario.policy_input();
      const Schedule schedule = make_schedule(input);
      if (!fits(arena_bytes(input), input)) return false;
      trial.remedy.step_seconds = simulate(schedule, scenario.machine, {64, false, false}).step_seconds;
      trial.remedy.tokens_per_second = static_cast<double>(schedule.tokens_per_step()) / trial.remedy.step_seconds;
      return true;
    } catch (const InputError&) {
      return false;
    }
  }

  const Scenario& scenario_;
  int threads_;
  bool machine_is_there_, planned_;
  std::vector<Trial> trials_;  // of the class being looked at
  std::vector<Remedy> found_;
};

std::string remedy_text(const Remedy& remedy) {
  std::string text = fmt::format("{} = {} ({}", remedy.key, remedy.value, remedy.cost);
  if (remedy.step_seconds > 0)
    text +=
        fmt::format("; {} per step, {:.1f} tokens/s", format_seconds(remedy.step_seconds), remedy.tokens_per_second);
  return text + ")";
}

}  // namespace

std::vector<Remedy> remedies(const Scenario& scenario, int threads, bool machine_is_there) {
  return Remedies(scenario, threads, machine_is_there).find();
}

std::string remedies_text(const std::vector<Remedy>& remedies) {
  if (remedies.empty()) return "No single key makes it fit.";
  std::string text =
      remedies.size() == 1 ? "One key makes it fit: " : "One key makes it fit, that of least cost first: ";
  for (std::size_t i = 0; i < remedies.size(); ++i) text += (i == 0 ? "" : "; or ") + remedy_text(remedies[i]);
  return text + ".";
}

}  // namespace penstock::sim
