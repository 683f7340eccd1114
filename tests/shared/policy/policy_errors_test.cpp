// Every contradiction is refused in words that name the parameter and what would be right.
#include <gtest/gtest.h>

#include <functional>

#include "shared/error.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

void expect_refused(const std::string& words, const std::function<void(PolicyInput&)>& change) {
  PolicyInput in = small::input(small::llama(), "penstock");
  change(in);
  try {
    make_schedule(in);
    ADD_FAILURE() << "accepted; expected an error with: " << words;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(PolicyErrors, Workload) {
  expect_refused("micro_batch = 3 does not divide sequences = 8", [](PolicyInput& in) { in.micro_batch = 3; });
  expect_refused("micro_batch = 0", [](PolicyInput& in) { in.micro_batch = 0; });
  expect_refused("micro_batch = 9", [](PolicyInput& in) { in.micro_batch = 9; });
  expect_refused("sequences = 0", [](PolicyInput& in) { in.sequences = 0; });
  expect_refused("sequence_length = -1", [](PolicyInput& in) { in.sequence_length = -1; });
  expect_refused("absurdly large", [](PolicyInput& in) {
    in.sequence_length = 1 << 26;
    in.sequences = in.micro_batch = 1 << 20;
  });
  // 4e6 / (8 x 7 layers) = 71428 micro-batches.
  expect_refused(
      "1048576 micro-batches of 7 layers make more than 4000000 ops per step; make micro-batches of at least 15 "
      "sequences, or steps of at most 71428",
      [](PolicyInput& in) {
        in.sequences = 1 << 20;
        in.micro_batch = 1;
      });
}

TEST(PolicyErrors, SizesBeyondSixtyBits) {
  // Kept gate and up: 2^31 tokens x 2^19 columns x 2 bytes for each of 5 layers and 256 micro-batches, more than 2^61
  // bytes.
  expect_refused("absurdly large", [](PolicyInput& in) {
    ModelConfig config = in.model.config;
    config.intermediate = 1 << 18;
    in.model = make_model(config);
    in.sequence_length = 1 << 26;
    in.sequences = 256 * 32;
    in.micro_batch = 32;
    in.parameters.keep = Keep::everything;
  });
}

TEST(PolicyErrors, Groups) {
  expect_refused("groups of 3 micro-batches do not add up to the 4", [](PolicyInput& in) { in.parameters.group = 3; });
  expect_refused("behind a first group of 1", [](PolicyInput& in) {
    in.parameters.first_group = 1;
    in.parameters.group = 2;
  });
  expect_refused("group = 5", [](PolicyInput& in) { in.parameters.group = 5; });
}

TEST(PolicyErrors, Contradictions) {
  expect_refused("clip = false", [](PolicyInput& in) { in.parameters.optimizer_time = OptimizerTime::backward; });
  expect_refused("checkpoint_every = 2", [](PolicyInput& in) {
    in.parameters.keep = Keep::everything;
    in.parameters.checkpoint_every = 2;
  });
  expect_refused("forward_twice", [](PolicyInput& in) {
    in.parameters.keep = Keep::everything;
    in.parameters.forward_twice = true;
  });
  expect_refused("sum_on_host", [](PolicyInput& in) {
    in.parameters.numerics.sum_on_host = true;
    in.parameters.gradients = TierKind::hbm;
  });
  expect_refused("gradient_sums", [](PolicyInput& in) {
    in.parameters.numerics.sum_on_host = true;
    in.parameters.gradient_sums = TierKind::dram;
  });
  expect_refused("gradient_sums = \"nvme\"", [](PolicyInput& in) {
    in.parameters.numerics.sum_on_host = true;
    in.parameters.gradient_sums = TierKind::nvme;
  });
}

TEST(PolicyErrors, Nvme) {
  const auto refused = [](const std::string& words, const std::function<void(PolicyParameters&)>& change) {
    expect_refused(words, [&](PolicyInput& in) {
      in.parameters.nvme_states = 3;
      change(in.parameters);
    });
  };
  refused("nvme_states = 0; set it, or gradients = \"dram\"", [](PolicyParameters& p) {
    p.nvme_states = 0;
    p.gradients = TierKind::nvme;
  });
  refused("sum_on_host", [](PolicyParameters& p) {
    p.gradients = TierKind::nvme;
    p.numerics.sum_on_host = true;
  });
  refused("none waits", [](PolicyParameters& p) {
    p.gradients = TierKind::nvme;
    p.numerics.clip = false;
    p.optimizer_time = OptimizerTime::backward;
  });
  refused("optimizer_place = \"gpu\" contradicts",
          [](PolicyParameters& p) { p.optimizer_place = OptimizerPlace::gpu; });
  refused("resident_states = 3 (first layers, in HBM) and nvme_states = 3 (last layers) overlap: there are 5",
          [](PolicyParameters& p) { p.resident_states = 3; });
  refused("overlap", [](PolicyParameters& p) { p.resident_states = -1; });
  refused("nvme_weights = \"all\" (last layers) overlap", [](PolicyParameters& p) {
    p.resident_states = 1;
    p.nvme_weights = -1;
  });
  refused("upload_copies", [](PolicyParameters& p) {
    p.nvme_weights = 1;
    p.upload_copies = true;
  });
  refused("nvme_slots = 0", [](PolicyParameters& p) { p.nvme_slots = 0; });
  refused("nvme_states = 6 is out of range (0 to 5, or \"all\")", [](PolicyParameters& p) { p.nvme_states = 6; });
}

TEST(PolicyErrors, Ranges) {
  expect_refused("weight_buffers = 0", [](PolicyInput& in) { in.parameters.weight_buffers = 0; });
  expect_refused("resident_weights = 6", [](PolicyInput& in) { in.parameters.resident_weights = 6; });
  expect_refused("first_layers = 6", [](PolicyInput& in) { in.parameters.first_layers = 6; });
  expect_refused("checkpoint_every = 0", [](PolicyInput& in) { in.parameters.checkpoint_every = 0; });
  expect_refused("burst_bytes = 0", [](PolicyInput& in) { in.parameters.burst = BurstKind::fixed; });
  expect_refused("host_pass_bytes_per_parameter",
                 [](PolicyInput& in) { in.parameters.host_pass_bytes_per_parameter = -1; });
  expect_refused("recompute_loads = 2", [](PolicyInput& in) { in.parameters.recompute_loads = 2; });
}

TEST(PolicyErrors, UnknownPresetNamesTheKnownOnes) {
  try {
    preset_parameters("zero9");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("'zero9'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("megatrain-released"), std::string::npos);
  }
}

TEST(Presets, HaveSummaryAndSource) {
  for (const PresetInfo& preset : presets()) {
    EXPECT_FALSE(preset.summary.empty()) << preset.name;
    EXPECT_FALSE(preset.source.empty()) << preset.name;
    EXPECT_EQ(preset_parameters(preset.name).name, preset.name);
  }
}

}  // namespace
}  // namespace penstock
