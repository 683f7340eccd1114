#include "sim/planner/search_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "shared/scenario/scenario.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

using Tokens = std::vector<std::int64_t>;

Scenario long_sequences(const std::string& model) {
  return read_scenario(source_folder() / "scenarios/h200/qwen2.5-7b-long.toml",
                       {"model.config=\"" + (source_folder() / "scenarios/models" / model).string() + '"'});
}

std::set<std::int64_t> chunks_beside(const Scenario& scenario, std::int64_t chunk_tokens) {
  Candidate from = candidate_of(scenario, scenario.policy);
  from.chunk_tokens = chunk_tokens;
  std::set<std::int64_t> result;
  for (const Candidate& next : neighbours(from, scenario)) result.insert(next.chunk_tokens);
  result.erase(chunk_tokens);
  return result;
}

// With 7 queries per key 2 x 7 x 16,384^2 bytes are within the budget of 4.25 GiB, with 8 of 16,384 or 7 of 32,768 they
// are not, and our own kernel would compute attention.
TEST(SearchSpace, ChunksAreThoseThatTheLibraryTakes) {
  Scenario scenario = long_sequences("qwen2.5-7b.json");
  scenario.fixed.clear();
  EXPECT_EQ(chunks_to_try(scenario), (Tokens{16384, 8192}));
  EXPECT_EQ(chunks_to_try(long_sequences("qwen2.5-72b.json")), Tokens{8192});
  EXPECT_EQ(chunks_beside(scenario, 16384), std::set<std::int64_t>{8192});
  EXPECT_EQ(chunks_beside(scenario, 8192), (std::set<std::int64_t>{4096, 16384}));
  // Whoever has chosen larger ones has chosen the kernel.
  EXPECT_EQ(chunks_beside(scenario, 32768), (std::set<std::int64_t>{16384, 65536}));
  scenario.run.deterministic = false;
  EXPECT_EQ(chunks_beside(scenario, 16384), (std::set<std::int64_t>{8192, 32768}));
}

TEST(SearchSpace, ShortSequencesAreNotCut) {
  Scenario scenario = long_sequences("qwen2.5-7b.json");
  scenario.sequence_length = kShortSequence;
  EXPECT_TRUE(chunks_to_try(scenario).empty());
  EXPECT_FALSE(may_cut(scenario));
}

// The executor would refuse them.
TEST(SearchSpace, SequencesWithTheLoadBalancingLossAreNotCut) {
  Scenario scenario = long_sequences("qwen3-30b-a3b.json");
  scenario.fixed.clear();
  EXPECT_FALSE(chunks_to_try(scenario).empty());
  EXPECT_TRUE(may_cut(scenario));
  scenario.model.config.experts.balance = 0.001;
  EXPECT_TRUE(chunks_to_try(scenario).empty());
  EXPECT_FALSE(may_cut(scenario));
}

}  // namespace
}  // namespace penstock::sim
