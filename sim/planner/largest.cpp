#include "sim/planner/largest.h"

#include <algorithm>

#include "shared/error.h"
#include "shared/model/frozen_layers.h"
#include "sim/planner/search.h"

namespace penstock::sim {
namespace {

bool fits(Scenario scenario, const PolicyChoice& policy) {
  if (!policy) return feasible(scenario, compact_space(scenario)).fits;
  scenario.policy = *policy;
  try {
    const PolicyInput input = scenario.policy_input();
    return penstock::fits(arena_bytes(input), input);
  } catch (const InputError&) {  // more ops than a schedule may have, groups that do not add up
    return false;
  }
}

/// The largest count up to `most` with `works`, which is taken to be monotone.
template <typename Works>
std::int64_t largest(std::int64_t most, const Works& works) {
  std::int64_t low = 0, high = 1;
  while (high < most && works(high)) {
    low = high;
    high = std::min(2 * high, most);
  }
  if (high == most && works(most)) return most;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (works(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

Scenario with_layers(Scenario scenario, std::int64_t layers) {
  scenario.model = make_model(with_decoder_layers(scenario.model.config, layers));
  return scenario;
}

std::int64_t most_layers(const Scenario& scenario, const PolicyChoice& policy) {
  const std::int64_t experts = std::max<std::int64_t>(1, scenario.model.config.experts.count);
  return largest(std::min(kMostLayersTried, kMostExperts / experts),
                 [&](std::int64_t layers) { return fits(with_layers(scenario, layers), policy); });
}

std::int64_t longest_context(const Scenario& scenario, const PolicyChoice& policy) {
  constexpr std::int64_t kUnit = 1024;
  Scenario one = scenario;
  one.sequences = one.micro_batch = 1;
  return kUnit * largest(kLongestContextTried / kUnit, [&](std::int64_t units) {
           one.sequence_length = units * kUnit;
           return fits(one, policy);
         });
}

std::int64_t most_sequences(const Scenario& scenario, const PolicyChoice& policy) {
  Scenario more = scenario;
  return scenario.micro_batch * largest(kMostSequencesTried / scenario.micro_batch, [&](std::int64_t micro_batches) {
           more.sequences = static_cast<int>(micro_batches * scenario.micro_batch);
           return fits(more, policy);
         });
}

}  // namespace penstock::sim
