#include "sim/planner/search_space.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>

#include "shared/model/library_workspace.h"
#include "shared/model/sequence_limits.h"

namespace penstock::sim {
namespace {

constexpr const char* kMicroBatchKey = "micro_batch";
constexpr const char* kChunkKey = "chunk_tokens";
constexpr int kJointTurn = 10;  // Moves::turn: when residency and first layers move, several parameters at once
constexpr std::int64_t kFewestTokens = 4096;  // of a micro-batch that is tried
constexpr std::size_t kMostMicroBatches = 4;
constexpr int kMostSmallMicroBatches = 256;  // of one sequence, in a step

std::vector<int> divisors(int number) {
  std::vector<int> result;
  for (int i = 1; i <= number / i; ++i) {
    if (number % i != 0) continue;
    result.push_back(i);
    if (i != number / i) result.push_back(number / i);
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// Divisors of the sequences whose micro-batches are neither tiny nor huge, thinned out evenly; the scenario's too.
std::vector<int> micro_batches(const Scenario& scenario) {
  std::vector<int> wanted;
  for (const int size : divisors(scenario.sequences)) {
    const std::int64_t tokens = size * scenario.sequence_length;
    if ((tokens >= kFewestTokens || size == scenario.sequences) && (tokens <= kMostMicroBatchTokens || size == 1))
      wanted.push_back(size);
  }
  std::vector<int> result;
  const std::size_t count = std::min(wanted.size(), kMostMicroBatches);
  for (std::size_t i = 0; i < count; ++i)
    result.push_back(wanted[count == 1 ? 0 : i * (wanted.size() - 1) / (count - 1)]);
  result.push_back(scenario.micro_batch);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

/// Where kept activations may wait.
std::vector<TierKind> places(const Scenario& scenario) {
  std::vector<TierKind> tiers{TierKind::hbm, TierKind::dram};
  if (scenario.machine.nvme.bytes > 0) tiers.push_back(TierKind::nvme);
  return tiers;
}

/// Negative, zero, positive; of the micro-batch first, then in the order of the table of parameters.
int compared(const Candidate& a, const Candidate& b) {
  const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  int result = order(a.micro_batch, b.micro_batch);
  if (result == 0) result = order(a.chunk_tokens, b.chunk_tokens);
  each_parameter([&](const ParameterAbout& about, const auto& member, const auto&) {
    if (result != 0 || (about.counts != nullptr && !about.counts(a.parameters))) return;
    result = order(member(a.parameters), member(b.parameters));
  });
  return result;
}

/// Numerics are the scenario's in every candidate.
bool is_choice(const ParameterAbout& about) { return about.decides != Decides::numerics; }

/// Whether first layers kept so are kept otherwise than the rest.
bool differs(Keep keep, TierKind tier, const PolicyParameters& rest) {
  return keep != rest.keep || tier != rest.activations || rest.checkpoint_every > 1;
}

void set_first(PolicyParameters& p, int layers, Keep keep, TierKind tier) {
  p.first_layers = layers;
  p.first_keep = keep;
  p.first_activations = tier;
}

/// Whether attention takes most of the time, so that keeping what it has made, and no more, is a level of its own.
bool is_long(const Scenario& scenario) { return scenario.sequence_length > kShortSequence; }

/// Whether the GPU's library computes attention of chunks of so many tokens; our own kernel, for all others, is slower by
/// far. On the host one kernel computes all.
bool is_for_library(const Scenario& scenario, std::int64_t chunk_tokens) {
  if (scenario.machine.gpu.is_host) return true;
  BatchShape sequence = scenario.shape(1);
  sequence.chunk_tokens = chunk_tokens;
  return attention_backward_piece(scenario.model, chunk_of(sequence, 0), scenario.run.deterministic).kv_groups > 0;
}

class Neighbours {
 public:
  Neighbours(const Candidate& from, const Scenario& scenario) : from_(from), scenario_(scenario) {
    decoders_ = scenario.model.layer_count() - 2;
  }

  std::vector<Candidate> all() {
    one_parameter(0, kJointTurn);
    trade_residency();
    other_first_layers();
    one_parameter(kJointTurn, kLastTurn);
    other_groupings();
    other_micro_batches();
    other_chunks();
    std::erase_if(result_, [&](const Candidate& next) { return !keeps_fixed(next, scenario_); });
    return std::move(result_);
  }

 private:
  template <typename Change>
  void add(Change change) {
    Candidate next = from_;
    change(next.parameters);
    result_.push_back(std::move(next));
  }

  /// Values of one parameter alone, of those whose turn is above `from` and up to `to`.
  void one_parameter(int from, int to) {
    std::set<int> turns;
    each_parameter([&](const ParameterAbout& about, const auto&, const auto&) {
      if (about.moves.count > 0 && about.moves.turn > from && about.moves.turn <= to) turns.insert(about.moves.turn);
    });
    for (const int turn : turns)
      each_parameter([&](const ParameterAbout& about, const auto& member, const auto&) {
        if (about.moves.turn == turn) other_values(about.moves, member);
      });
  }

  template <typename Member>
  void other_values(const Moves& moves, const Member& member) {
    using Value = std::remove_cvref_t<decltype(member(from_.parameters))>;
    if constexpr (std::is_enum_v<Value> || std::is_integral_v<Value>) {
      const auto now = static_cast<std::int64_t>(member(from_.parameters));
      if (moves.by_steps && now < moves.low) return;  // -1: everything
      const std::int64_t high = moves.high == kDecoderLayers ? std::max(1, decoders_) : moves.high;
      for (std::size_t i = 0; i < moves.count; ++i) {
        const std::int64_t value = moves.by_steps ? now + moves.values[i] : moves.values[i];
        if (value == now || (moves.by_steps && (value < moves.low || value > high))) continue;
        if (moves.where != nullptr && !moves.where(from_.parameters, value)) continue;
        add([&](PolicyParameters& p) { member(p) = static_cast<Value>(value); });
      }
    }
  }

  /// Seven layers' weights take the HBM of one layer's states and gradient.
  void trade_residency() {
    const PolicyParameters& p = from_.parameters;
    if (p.resident_states < 0 || p.resident_weights < 0) return;
    for (const int states : {-2, -1, 1, 2}) {
      const int weights = std::clamp(std::max(p.resident_weights, p.resident_states) - 6 * states, 0, decoders_);
      if (p.resident_states + states < 0 || p.resident_states + states > decoders_) continue;
      add([&](PolicyParameters& q) {
        q.resident_states = p.resident_states + states;
        q.resident_weights = weights > q.resident_states ? weights : 0;
      });
    }
  }

  /// More or fewer of them; another level or place for them; the first ones.
  void other_first_layers() {
    const PolicyParameters& p = from_.parameters;
    // All of them are searched as layers that are alike, unless the scenario says that all are first ones.
    const int most = scenario_.fixed.contains("first_layers") ? decoders_ : decoders_ - 1;
    const auto add_first = [&](int layers, Keep keep, TierKind tier) {
      if (layers > 0 && layers <= most && (layers == decoders_ || differs(keep, tier, p)))
        add([&](PolicyParameters& q) { set_first(q, layers, keep, tier); });
    };
    for (const int step : {-8, -4, -2, -1, 1, 2, 4, 8})
      if (p.first_layers > 0) add_first(p.first_layers + step, p.first_keep, p.first_activations);
    if (p.first_layers == 1) add([&](PolicyParameters& q) { set_first(q, 0, Keep::input, TierKind::hbm); });
    for (const Keep keep : {Keep::everything, Keep::input_attention, Keep::input_context, Keep::input})
      for (const TierKind tier : places(scenario_)) {
        if (keep == Keep::input_context && !is_long(scenario_)) continue;
        if (p.first_layers > 0 && (keep != p.first_keep || tier != p.first_activations))
          add_first(p.first_layers, keep, tier);
        if (p.first_layers == 0)
          for (const int part : {8, 2}) add_first(decoders_ / part, keep, tier);
      }
  }

  void other_groupings() {
    for (const Grouping& grouping : groupings(scenario_.sequences / from_.micro_batch, 16))
      add([&](PolicyParameters& q) {
        q.group = grouping.group;
        q.first_group = grouping.first_group;
      });
  }

  /// Groups of as many sequences as before.
  void other_micro_batches() {
    const PolicyParameters& p = from_.parameters;
    for (const int size : divisors(scenario_.sequences)) {
      if (size == from_.micro_batch || size > 4 * from_.micro_batch || 4 * size < from_.micro_batch) continue;
      if (from_.chunk_tokens > 0) continue;  // of one sequence
      if (size < from_.micro_batch && size * scenario_.sequence_length < kFewestTokens) continue;
      const std::int64_t group = std::int64_t{p.group} * from_.micro_batch;
      const std::int64_t first = std::int64_t{p.first_group} * from_.micro_batch;
      if (group % size != 0 || first % size != 0) continue;
      Candidate next = from_;
      next.micro_batch = size;
      next.parameters.group = static_cast<int>(group / size);
      next.parameters.first_group = static_cast<int>(first / size);
      result_.push_back(std::move(next));
    }
  }

  void other_chunks() {
    for (const std::int64_t tokens : {from_.chunk_tokens / 2, 2 * from_.chunk_tokens}) {
      if (tokens < kFewestTokens || tokens >= scenario_.sequence_length) continue;
      if (is_for_library(scenario_, from_.chunk_tokens) && !is_for_library(scenario_, tokens)) continue;
      result_.push_back(from_);
      result_.back().chunk_tokens = tokens;
    }
  }

  const Candidate& from_;
  const Scenario& scenario_;
  int decoders_ = 0;
  std::vector<Candidate> result_;
};

}  // namespace

bool operator<(const Candidate& a, const Candidate& b) { return compared(a, b) < 0; }

std::vector<std::int64_t> chunks_to_try(const Scenario& scenario) {
  if (!is_long(scenario) || !cut_not_computed(scenario.model.config).empty()) return {};
  const std::vector<std::int64_t> all{16384, 8192};
  std::vector<std::int64_t> result = all;
  std::erase_if(result, [&](std::int64_t tokens) { return !is_for_library(scenario, tokens); });
  return result.empty() ? all : result;
}

bool may_cut(const Scenario& scenario) {
  return scenario.micro_batch == 1 && !scenario.fixed.contains(kChunkKey) && !chunks_to_try(scenario).empty();
}

void set_plan(const Candidate& plan, Scenario& scenario) {
  scenario.micro_batch = plan.micro_batch;
  scenario.chunk_tokens = plan.chunk_tokens;
  scenario.policy = plan.parameters;
}

SearchSpace default_space(const Scenario& scenario) {
  SearchSpace space;
  const Numerics& numerics = scenario.policy.numerics;
  space.micro_batches = micro_batches(scenario);
  space.chunk_tokens = {scenario.chunk_tokens};
  if (!scenario.fixed.contains(kChunkKey))
    for (const std::int64_t tokens : chunks_to_try(scenario)) space.chunk_tokens.push_back(tokens);
  space.chunkings = {numerics.chunking};
  if (numerics.chunking.mlp_tokens == 0) space.chunkings.push_back({4096, numerics.chunking.loss_tokens});
  space.keeps = {
      {Keep::everything, 1}, {Keep::input_attention, 1}, {Keep::input, 1}, {Keep::input, 2}, {Keep::input, 4}};
  if (is_long(scenario)) space.keeps.insert(space.keeps.begin() + 2, {Keep::input_context, 1});
  space.activations = places(scenario);
  space.gradients = {TierKind::dram};
  space.gradient_sums = {TierKind::hbm};
  if (!numerics.sum_on_host) {
    space.gradients.push_back(TierKind::hbm);
    space.gradient_sums.push_back(TierKind::dram);
  }
  space.optimizers = {{OptimizerPlace::host, OptimizerTime::next_forward},
                      {OptimizerPlace::gpu, OptimizerTime::next_forward}};
  if (!numerics.clip) {
    space.optimizers.push_back({OptimizerPlace::host, OptimizerTime::backward});
    space.optimizers.push_back({OptimizerPlace::gpu, OptimizerTime::backward});
  }
  space.weight_buffers = {2, 4};
  space.activation_slots = {3};
  space.gradient_slots = {2};
  return space;
}

SearchSpace quick_space(const Scenario& scenario) {
  SearchSpace space = default_space(scenario);
  space.micro_batches = {scenario.micro_batch};
  space.chunk_tokens = {scenario.chunk_tokens};
  space.chunkings = {scenario.policy.numerics.chunking};
  space.weight_buffers = {2};
  return space;
}

SearchSpace compact_space(const Scenario& scenario) {
  SearchSpace space = default_space(scenario);
  space.micro_batches = {scenario.micro_batch};
  if (scenario.micro_batch > 1 && scenario.sequences <= kMostSmallMicroBatches) space.micro_batches.push_back(1);
  // Chunks of the scenario's, or small ones.
  if (space.chunkings.size() > 1) space.chunkings = {{1024, scenario.policy.numerics.chunking.loss_tokens}};
  space.keeps = {{Keep::input, 1}, {Keep::input, 2}, {Keep::input, 4}, {Keep::input, 8}};
  // What is made again of a whole block of a long sequence may be more than all else.
  if (is_long(scenario))
    for (const int every : {2, 4, 8}) space.keeps.push_back({Keep::input, every, true});
  space.most_groups = 2;
  space.weight_buffers = {1};
  space.activation_slots = {1};
  space.gradient_slots = {1};
  space.residency_points = 2;
  return space;
}

std::vector<Grouping> groupings(int micro_batches, int most_groups) {
  std::vector<Grouping> result{{0, 0}};
  for (const int group : divisors(micro_batches)) {
    const int groups = micro_batches / group;
    if (groups == 1 || (groups > most_groups && group > 1)) continue;
    result.push_back({group, 0});
    // A first group of about half, or a quarter, of the step.
    for (const int part : {2, 4})
      if (const int first = groups / part * group; groups >= 2 * part && first > group)
        result.push_back({group, first});
  }
  return result;
}

Candidate with_fixed(Candidate candidate, const Scenario& scenario) {
  if (scenario.fixed.contains(kMicroBatchKey)) candidate.micro_batch = scenario.micro_batch;
  if (scenario.fixed.contains(kChunkKey)) candidate.chunk_tokens = scenario.chunk_tokens;
  each_parameter([&](const ParameterAbout& about, const auto& member, const auto&) {
    if (is_choice(about) && scenario.fixed.contains(about.key)) member(candidate.parameters) = member(scenario.policy);
  });
  return candidate;
}

bool keeps_fixed(const Candidate& candidate, const Scenario& scenario) {
  return compared(with_fixed(candidate, scenario), candidate) == 0;
}

std::set<std::string> choice_keys() {
  std::set<std::string> keys{kMicroBatchKey, kChunkKey};
  each_parameter([&](const ParameterAbout& about, const auto&, const auto&) {
    if (is_choice(about)) keys.insert(about.key);
  });
  return keys;
}

std::set<std::string> rounding_keys() {
  std::set<std::string> keys{kMicroBatchKey, kChunkKey};
  each_parameter([&](const ParameterAbout& about, const auto&, const auto&) {
    if (about.decides == Decides::order_of_additions) keys.insert(about.key);
  });
  return keys;
}

std::vector<Candidate> shapes(const SearchSpace& space, const Scenario& scenario) {
  std::vector<Candidate> result;
  std::set<Candidate> known;  // what is fixed makes some of them equal
  Candidate candidate;
  PolicyParameters& p = candidate.parameters;
  p.numerics = scenario.policy.numerics;
  p.optimizer_threads = scenario.policy.optimizer_threads;
  const auto slots = [&](auto next) {
    const bool ring = activations_travel(p);
    for (const int activation_slots : space.activation_slots) {
      p.activation_slots = activation_slots;
      for (const int gradient_slots : space.gradient_slots) {
        p.gradient_slots = gradient_slots;
        for (const int buffers : space.weight_buffers) {
          p.weight_buffers = buffers;
          next();
        }
      }
      if (!ring) break;
    }
  };
  const auto firsts = [&](auto next) {
    const int decoders = scenario.model.layer_count() - 2;
    if (const int given = scenario.policy.first_layers; given > 0 && scenario.fixed.contains("first_layers")) {
      for (const auto& [keep, every, twice] : space.keeps)
        for (const TierKind tier : space.activations) {
          set_first(p, given, keep, tier);
          if (every == 1 && (given < decoders || (keep == p.keep && tier == p.activations))) next();
        }
      return;
    }
    for (const FirstLayers& first : space.firsts) {
      const int layers = static_cast<int>(std::ceil(first.share * decoders));
      if (layers > 0 && (layers >= decoders || first.keep < p.keep || !differs(first.keep, first.activations, p)))
        continue;
      if (layers > 0)
        set_first(p, layers, first.keep, first.activations);
      else
        set_first(p, 0, Keep::input, TierKind::hbm);
      next();
    }
  };
  const auto tiers = [&](auto next) {
    for (const TierKind activations : space.activations)
      for (const TierKind gradients : space.gradients)
        for (const TierKind sums : space.gradient_sums) {
          p.activations = activations;
          p.gradients = gradients;
          p.gradient_sums = sums;
          if (p.group == 0 && sums != TierKind::hbm && space.gradient_sums.size() > 1) continue;
          firsts([&] { slots(next); });
        }
  };
  const auto micro_batches = [&](auto next) {
    for (const int micro_batch : space.micro_batches)
      for (const std::int64_t tokens : space.chunk_tokens) {
        if (tokens > 0 && (micro_batch > 1 || tokens >= scenario.sequence_length)) continue;
        candidate.micro_batch = micro_batch;
        candidate.chunk_tokens = tokens;
        next(tokens > 0 ? tokens : micro_batch * scenario.sequence_length);
      }
  };
  micro_batches([&](std::int64_t tokens) {
    for (const Chunking& chunking : space.chunkings) {
      p.numerics.chunking = chunking;
      if (&chunking != &space.chunkings.front() && chunking.mlp_tokens >= tokens) continue;
      for (const auto& [keep, every, twice] : space.keeps) {
        p.keep = keep;
        p.checkpoint_every = every;
        p.forward_twice = twice;
        if (every > std::max(1, scenario.model.layer_count() - 2)) continue;
        for (const Grouping& grouping : groupings(scenario.sequences / candidate.micro_batch, space.most_groups)) {
          p.group = grouping.group;
          p.first_group = grouping.first_group;
          for (const auto& [place, time] : space.optimizers) {
            p.optimizer_place = place;
            p.optimizer_time = time;
            tiers([&] {
              const Candidate shape = with_fixed(candidate, scenario);
              if (known.insert(shape).second) result.push_back(shape);
            });
          }
        }
      }
    }
  });
  return result;
}

std::vector<Candidate> neighbours(const Candidate& candidate, const Scenario& scenario) {
  return Neighbours(candidate, scenario).all();
}

void apply(const Candidate& candidate, const Scenario& scenario, PolicyInput& input) {
  const bool same = input.micro_batch == candidate.micro_batch && input.chunk_tokens == candidate.chunk_tokens;
  if (!same && !scenario.machine.gpu.is_host) {
    BatchShape shape = scenario.shape(candidate.micro_batch);
    shape.chunk_tokens = candidate.chunk_tokens < shape.sequence_length ? candidate.chunk_tokens : 0;
    input.library_bytes = library_workspace_bytes(input.model, shape, scenario.run.deterministic);
  }
  input.micro_batch = candidate.micro_batch;
  input.chunk_tokens = candidate.chunk_tokens;
  input.parameters = candidate.parameters;
}

}  // namespace penstock::sim
