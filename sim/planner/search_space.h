// The planner's space: what it may choose, as lists. Numerics stay as the scenario has them, but for the micro-batch,
// the chunks of long sequences and the token chunks, which change the order of additions and not the mathematics.
//
// What the scenario fixes (Scenario::fixed, by key; "micro_batch" and "chunk_tokens" may stand there too) is the same in
// every candidate.
//
// A *shape* is a candidate without residency: which layers' weights and states are in HBM and on NVMe is filled in by
// what the tiers have left (Residency below), since HBM left over is storage too.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shared/policy/parameters.h"
#include "shared/scenario/scenario.h"

namespace penstock::sim {

/// One point of the space.
struct Candidate {
  int micro_batch = 1;
  PolicyParameters parameters;
  std::int64_t chunk_tokens = 0;  // PolicyInput::chunk_tokens
};

/// What the scenario has.
inline Candidate candidate_of(const Scenario& scenario, const PolicyParameters& parameters) {
  return {scenario.micro_batch, parameters, scenario.chunk_tokens};
}
/// Puts micro-batch, chunks and policy into the scenario.
void set_plan(const Candidate& plan, Scenario& scenario);

/// How the micro-batches of a step are grouped.
struct Grouping {
  int group = 0;        // micro-batches; 0 = all
  int first_group = 0;  // 0 = as group
};

/// Which layers' weights and states stay in HBM, the first ones, and which go to NVMe, the last ones.
struct Residency {
  int weights = 0;
  int states = 0;
  int nvme_states = 0;
  int nvme_weights = 0;
  int nvme_slots = 2;
};

/// First decoder layers that are kept otherwise than the rest.
struct FirstLayers {
  double share = 0;  // of the decoder layers, rounded up; 0: all alike
  Keep keep = Keep::input;
  TierKind activations = TierKind::hbm;
};

/// What all layers keep, and every how manieth one its input.
struct KeepLevel {
  Keep keep = Keep::input;
  int checkpoint_every = 1;
  bool forward_twice = false;  // of blocks: made again layer by layer, so that one layer's is there at a time
};

/// Of a micro-batch that is tried, unless it is one sequence or the scenario's.
inline constexpr std::int64_t kMostMicroBatchTokens = 65536;

struct SearchSpace {
  std::vector<int> micro_batches;
  std::vector<std::int64_t> chunk_tokens{0};  // tried with micro-batches of one sequence; 0: uncut
  std::vector<Chunking> chunkings;
  std::vector<KeepLevel> keeps;
  /// Only those that keep more than the rest, or elsewhere, are tried. One kind by default: such shapes have low bounds
  /// and would take the scan's budget from all others; the local search splits the best few.
  std::vector<FirstLayers> firsts{FirstLayers{}};
  int most_groups = 16;  // groups per step that are tried, besides micro-batch-major
  std::vector<TierKind> activations, gradients, gradient_sums;
  std::vector<std::pair<OptimizerPlace, OptimizerTime>> optimizers;
  std::vector<int> weight_buffers, activation_slots, gradient_slots;
  /// Points between the fewest resident states that the DRAM needs and the most that HBM takes, both included.
  int residency_points = 3;
};

/// What `search` looks through by default for this scenario.
SearchSpace default_space(const Scenario& scenario);

/// The chunks that are tried of the scenario's sequences: none unless they are longer than kShortSequence.
std::vector<std::int64_t> chunks_to_try(const Scenario& scenario);
inline constexpr std::int64_t kShortSequence = 32768;
/// Whether a plan may cut the scenario's sequences though it leaves all other sums as they are.
bool may_cut(const Scenario& scenario);

/// A space for an answer within seconds: the scenario's micro-batch and chunks, rings of one size.
SearchSpace quick_space(const Scenario& scenario);

/// The choices that need least memory: whether anything fits at all.
SearchSpace compact_space(const Scenario& scenario);

/// The candidate with what the scenario fixes as the scenario has it.
Candidate with_fixed(Candidate candidate, const Scenario& scenario);

/// Whether the candidate has everything that the scenario fixes.
bool keeps_fixed(const Candidate& candidate, const Scenario& scenario);

/// Everything that a scenario can fix.
std::set<std::string> choice_keys();

/// Those of them that change the order of additions, and so the last bits of a result.
std::set<std::string> rounding_keys();

/// All shapes, in a fixed order. Combinations that contradict each other, and those that another one dominates for
/// certain (slots of a ring that does not exist), are left out.
std::vector<Candidate> shapes(const SearchSpace& space, const Scenario& scenario);

/// Groupings of `micro_batches` per step: all, equal groups, and equal groups behind a larger first one.
std::vector<Grouping> groupings(int micro_batches, int most_groups);

/// Candidates that differ from this one in one choice, for a local search: finer steps than the space has. What moves
/// alone says so in the table of parameters (each_parameter); what moves together with others is here.
std::vector<Candidate> neighbours(const Candidate& candidate, const Scenario& scenario);

/// Puts the candidate into `input` (the scenario's policy_input()).
void apply(const Candidate& candidate, const Scenario& scenario, PolicyInput& input);

/// Orders and tells candidates apart by the micro-batch and every parameter.
bool operator<(const Candidate& a, const Candidate& b);

}  // namespace penstock::sim
