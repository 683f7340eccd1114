// What the largest machines of the catalogue hold: the claims of docs/megatrain.md that are about memory.
#include <gtest/gtest.h>

#include "shared/scenario/scenario.h"
#include "sim/planner/largest.h"
#include "sim/planner/search.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

/// Without NVMe.
Scenario scenario(const char* name, std::vector<std::string> overrides = {}) {
  overrides.push_back("machine.nvme=\"0 B\"");
  return read_scenario(source_folder() / "scenarios" / name, overrides);
}

bool holds(const Scenario& scenario, TierKind activations) {
  SearchSpace space = compact_space(scenario);
  space.activations = {activations};
  return feasible(scenario, space).fits;
}

// bf16 weights 2, moments 8, waiting gradients 2, and on the host 12 slabs of a layer's gradient (2.37 GB) and one of
// the embedding's (3.11 GB).
TEST(BigFits, MegaTrainHolds117BillionParametersIn1500GB) {
  const Scenario big = scenario("dense-120b-h200-1.5tb.toml", {"policy.name=megatrain"});
  const ArenaBytes arenas = arena_bytes(big.policy_input());
  EXPECT_EQ(big.machine.dram_bytes, 1'500'000'000'000);
  EXPECT_LE(arenas.dram, big.machine.dram_bytes);
  EXPECT_LE(arenas.hbm, big.machine.gpu.hbm_bytes);
  const double states = 12.0 * static_cast<double>(big.model.parameters);
  const auto gradient = [&](std::size_t layer) {
    return 2 * static_cast<double>(big.model.layers[layer].gradient_elements);
  };
  EXPECT_NEAR(static_cast<double>(arenas.dram), states + 12 * gradient(1) + gradient(0), 1e-4 * states);
}

// Exact clipping with an fp32 master is 14 B/param: 1635 GB. DRAM and HBM together have 1641 GB, which leaves too
// little for buffers; 1.6 TiB and HBM have 1900 GB, and some layers' states and gradients go to HBM.
TEST(BigFits, ExactClippingOf117BillionParametersTakesMoreThan1500GB) {
  const Scenario clipped = scenario("dense-120b-h200-1.5tb.toml");
  EXPECT_FALSE(feasible(clipped, compact_space(clipped)).fits);
  const Scenario roomy = scenario("dense-120b-h200-1.5tb.toml", {"machine.dram=\"1.6 TiB\""});
  EXPECT_TRUE(feasible(roomy, compact_space(roomy)).fits);
  // Consumed on arrival, gradients wait nowhere: 12 B/param, and no clipping.
  const Scenario unclipped = scenario("dense-120b-h200-1.5tb.toml", {"policy.clip=false"});
  EXPECT_TRUE(feasible(unclipped, compact_space(unclipped)).fits);
}

// 28 layer inputs of 524 288 x 3584 bf16 are 98 GiB, HBM has 89. Where only every 2nd, 4th or 8th is kept, a block's
// recomputed activations need as much, unless they are made again layer by layer.
TEST(BigFits, HalfAMillionTokensFitWithActivationsInDram) {
  Scenario lengthy = scenario("qwen2.5-7b-gh200.toml", {"workload.sequence_length=524288", "workload.sequences=1",
                                                        "workload.micro_batch=1", "run.deterministic=false"});
  EXPECT_TRUE(holds(lengthy, TierKind::dram));
  EXPECT_TRUE(holds(lengthy, TierKind::hbm));
  lengthy.fixed.insert("forward_twice");
  EXPECT_TRUE(holds(lengthy, TierKind::dram));
  EXPECT_FALSE(holds(lengthy, TierKind::hbm));
}

// 8 key heads of 128 and 32 layers: keys and values are 64 GiB, inputs of every layer 128, of every second 64; with 81
// of states that is more than the 244 of both tiers, once a block's are recomputed.
TEST(BigFits, HalfAMillionTokensOfMistral7BFitWhereBlocksAreMadeAgainTwice) {
  Scenario lengthy = scenario("qwen2.5-7b-h200-128gb.toml",
                              {"model.config=models/mistral-7b-v0.3.json", "workload.sequence_length=524288",
                               "workload.sequences=1", "workload.micro_batch=1"});
  ASSERT_TRUE(may_cut(lengthy));
  const Feasibility found = feasible(lengthy, compact_space(lengthy));
  EXPECT_TRUE(found.fits);
  EXPECT_TRUE(found.closest.candidate.parameters.forward_twice);
  lengthy.fixed.insert("forward_twice");
  EXPECT_FALSE(feasible(lengthy, compact_space(lengthy)).fits);
}

// HBM is storage too: 141 GB and 128 GB of DRAM.
TEST(BigFits, ThePlannerHoldsALargerModelThanMegaTrain) {
  const Scenario scarce = scenario("qwen2.5-7b-h200.toml", {"machine.dram=\"128 GB\"", "workload.sequences=16"});
  const auto parameters = [&](const PolicyChoice& policy) {
    return static_cast<double>(with_layers(scarce, most_layers(scarce, policy)).model.parameters);
  };
  const double ours = parameters(std::nullopt);
  EXPECT_GE(ours, 1.7 * parameters(preset_parameters("megatrain")));
  EXPECT_GE(ours, 2.0 * parameters(preset_parameters("megatrain-released")));
}

}  // namespace
}  // namespace penstock::sim
