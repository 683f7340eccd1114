// Everything that decides the numbers is described; what does not is not.
#include "exec/checkpoint/run_description.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/shared/error_text.h"
#include "tests/shared/policy/small_models.h"

namespace penstock::exec {
namespace {

struct DescribedRun {
  Schedule schedule = make_schedule(small::input(small::llama(), "penstock"));
  RunOptions run;
  std::string data = "crc32:12345678 of 90 bytes";

  RunDescription description() const { return describe_run(schedule, run, data); }
};

/// The keys that differ once `change` was made.
std::vector<std::string> changed_keys(const std::function<void(DescribedRun&)>& change, DescribedRun before = {}) {
  DescribedRun after = before;
  change(after);
  std::vector<std::string> keys;
  const RunDescription was = before.description(), is = after.description();
  for (std::size_t i = 0; i < was.values.size(); ++i)
    if (was.values[i].value != is.values[i].value) keys.push_back(was.values[i].key);
  return keys;
}

struct Case {
  const char* key;
  std::function<void(DescribedRun&)> change;
};

TEST(RunDescription, EachKeyThatDecidesIsItsOwn) {
  const std::vector<Case> cases = {
      {"model_type", [](DescribedRun& r) { r.schedule.model.family = ModelFamily::mistral; }},
      {"hidden_size", [](DescribedRun& r) { ++r.schedule.model.hidden; }},
      {"intermediate_size", [](DescribedRun& r) { ++r.schedule.model.intermediate; }},
      {"num_hidden_layers", [](DescribedRun& r) { ++r.schedule.model.decoder_layers; }},
      {"num_attention_heads", [](DescribedRun& r) { ++r.schedule.model.heads; }},
      {"num_key_value_heads", [](DescribedRun& r) { ++r.schedule.model.kv_heads; }},
      {"head_dim", [](DescribedRun& r) { ++r.schedule.model.head_dim; }},
      {"vocab_size", [](DescribedRun& r) { ++r.schedule.model.vocabulary; }},
      {"tie_word_embeddings", [](DescribedRun& r) { r.schedule.model.tied_embeddings ^= true; }},
      {"qkv_bias", [](DescribedRun& r) { r.schedule.model.qkv_bias ^= true; }},
      {"qk_norm", [](DescribedRun& r) { r.schedule.model.qk_norm ^= true; }},
      {"rms_norm_eps", [](DescribedRun& r) { r.schedule.model.rms_epsilon *= 1.0000001; }},
      {"rope_theta", [](DescribedRun& r) { r.schedule.model.rope_theta += 1; }},
      {"sequence_length", [](DescribedRun& r) { ++r.schedule.micro_batch.sequence_length; }},
      {"sequences", [](DescribedRun& r) { ++r.schedule.micro_batches; }},
      {"states", [](DescribedRun& r) { r.schedule.numerics.states = StateFormat::master_and_copy; }},
      {"moments", [](DescribedRun& r) { r.schedule.numerics.moments = ElementType::bf16; }},
      {"gradient_sum", [](DescribedRun& r) { r.schedule.numerics.gradient_sum = ElementType::bf16; }},
      {"gradient_link", [](DescribedRun& r) { r.schedule.numerics.gradient_link = ElementType::fp32; }},
      {"sum_on_host", [](DescribedRun& r) { r.schedule.numerics.sum_on_host ^= true; }},
      {"mlp_chunk_tokens", [](DescribedRun& r) { r.schedule.numerics.chunking.mlp_tokens = 1; }},
      {"loss_chunk_tokens", [](DescribedRun& r) { r.schedule.numerics.chunking.loss_tokens = 7; }},
      {"seed", [](DescribedRun& r) { r.run.data.seed = 18446744073709551615u; }},
      {"deterministic", [](DescribedRun& r) { r.run.deterministic = false; }},
      {"learning_rate", [](DescribedRun& r) { r.run.learning_rate = 1e-3; }},
      {"learning_rate_warmup_steps", [](DescribedRun& r) { r.run.learning_rate_warmup_steps = 5; }},
      {"beta1", [](DescribedRun& r) { r.run.beta1 = 0.91; }},
      {"beta2", [](DescribedRun& r) { r.run.beta2 = 0.951; }},
      {"epsilon", [](DescribedRun& r) { r.run.epsilon = 1e-9; }},
      {"weight_decay", [](DescribedRun& r) { r.run.weight_decay = 0; }},
      {"max_norm", [](DescribedRun& r) { r.run.max_norm = 2; }},
      {"data", [](DescribedRun& r) { r.data = "random"; }},
      {"decay", [](DescribedRun& r) { r.run.decay = Decay::matrices; }},
      {"freeze", [](DescribedRun& r) { r.schedule.model.frozen_layers = {0}; }},
  };
  DescribedRun decaying;
  decaying.run.rate = {RateSchedule::wsd, 100, 1e-5, 20};
  const std::vector<Case> of_decaying = {
      {"schedule", [](DescribedRun& r) { r.run.rate.schedule = RateSchedule::linear, r.run.rate.decay_steps = 0; }},
      {"total_steps", [](DescribedRun& r) { ++r.run.rate.total_steps; }},
      {"final_learning_rate", [](DescribedRun& r) { r.run.rate.final_rate = 0; }},
      {"decay_steps", [](DescribedRun& r) { ++r.run.rate.decay_steps; }},
  };
  for (const Case& each : of_decaying) EXPECT_EQ(changed_keys(each.change, decaying).front(), each.key);
  for (const Case& each : cases) EXPECT_EQ(changed_keys(each.change), std::vector<std::string>{each.key}) << each.key;
}

TEST(RunDescription, WhatOnlyMovesDataIsNotInIt) {
  const std::vector<std::function<void(DescribedRun&)>> changes = {
      [](DescribedRun& r) { r.schedule.policy = "other"; },
      [](DescribedRun& r) { r.schedule.tiers[0].capacity_bytes *= 2; },
      [](DescribedRun& r) { r.schedule.ops.pop_back(); },
      [](DescribedRun& r) { r.schedule.library_bytes += 1; },
      [](DescribedRun& r) { r.schedule.model.name = "other"; },
      [](DescribedRun& r) { r.schedule.model.max_positions *= 2; },
      [](DescribedRun& r) { r.run.steps = 77; },
      [](DescribedRun& r) { r.run.backend = "cuda"; },
      [](DescribedRun& r) { r.run.data.file = "moved"; },
      [](DescribedRun& r) {
        r.run.init = {"elsewhere", 7};
      },
      [](DescribedRun& r) { r.run.link_h2d_bytes_per_second = 1; },
      [](DescribedRun& r) {
        r.run.checkpoint.every = 5;
        r.run.checkpoint.keep = 7;
        r.run.checkpoint.folder = r.run.checkpoint.export_to = "elsewhere";
      },
      [](DescribedRun& r) { r.run.metrics = "elsewhere"; },
      [](DescribedRun& r) {
        r.run.eval = {"elsewhere", "nanogpt", 5, 6};
      },
      [](DescribedRun& r) { r.run.rate.total_steps = 100; },  // of a constant rate
  };
  for (std::size_t i = 0; i < changes.size(); ++i) EXPECT_TRUE(changed_keys(changes[i]).empty()) << i;
}

TEST(RunDescription, WhatHasNoEffectMayDiffer) {
  DescribedRun unclipped;
  unclipped.schedule.numerics.clip = false;
  EXPECT_TRUE(changed_keys([](DescribedRun& r) { r.run.max_norm = 5; }, unclipped).empty());
  DescribedRun undecayed;
  undecayed.run.weight_decay = 0;
  EXPECT_TRUE(changed_keys([](DescribedRun& r) { r.run.decay = Decay::matrices; }, undecayed).empty());
  // Chunks as long as the micro-batch are none.
  DescribedRun whole;
  EXPECT_TRUE(
      changed_keys([](DescribedRun& r) { r.schedule.numerics.chunking.mlp_tokens = r.schedule.micro_batch.tokens(); },
                   whole)
          .empty());
  EXPECT_TRUE(
      changed_keys([](DescribedRun& r) { r.schedule.numerics.chunking.loss_tokens = kDefaultLossTokens; }).empty());
  // Llama-3.1's scaling: its other figures matter where there is a factor.
  EXPECT_TRUE(changed_keys([](DescribedRun& r) { r.schedule.model.rope_high_freq_factor = 8; }).empty());
  DescribedRun scaled;
  scaled.schedule.model.rope_factor = 8;
  const std::vector<std::string> keys =
      changed_keys([](DescribedRun& r) { r.schedule.model.rope_high_freq_factor = 8; }, scaled);
  EXPECT_EQ(keys, std::vector<std::string>{"rope_scaling.high_freq_factor"});
}

TEST(RunDescription, WindowsAndScalingsCountWhereSequencesReachThem) {
  using Keys = std::vector<std::string>;
  const auto window = [](std::int64_t tokens) {
    return [tokens](DescribedRun& r) {
      r.schedule.model.sliding_window = tokens;
      r.schedule.model.window_layers = {0};
    };
  };
  const std::int64_t length = DescribedRun().schedule.micro_batch.sequence_length;
  EXPECT_EQ(changed_keys(window(length - 1)), (Keys{"sliding_window", "layer_types"}));
  EXPECT_EQ(changed_keys(window(length)), Keys());
  DescribedRun yarn;
  yarn.schedule.model.rope_scaling = RopeScaling::yarn;
  yarn.schedule.model.rope_factor = 4;
  EXPECT_EQ(changed_keys([](DescribedRun& r) { r.schedule.model.rope_scaling = RopeScaling::linear; }, yarn),
            (Keys{"rope_scaling.low_freq_factor", "rope_scaling.high_freq_factor",
                  "rope_scaling.original_max_position_embeddings", "rope_scaling.rope_type",
                  "rope_scaling.attention_factor", "rope_scaling.truncate"}));
  EXPECT_EQ(changed_keys([](DescribedRun& r) { r.schedule.model.rope_attention_factor = 1.1; }, yarn),
            Keys{"rope_scaling.attention_factor"});
  DescribedRun dynamic;
  dynamic.schedule.model.rope_scaling = RopeScaling::dynamic;
  dynamic.schedule.model.max_positions = length;
  EXPECT_EQ(changed_keys([](DescribedRun& r) { r.schedule.model.rope_factor = 2; }, dynamic), Keys());
  dynamic.schedule.model.max_positions = length - 1;
  EXPECT_EQ(changed_keys([](DescribedRun& r) { r.schedule.model.rope_factor = 2; }, dynamic),
            Keys{"rope_scaling.factor"});
}

TEST(RunDescription, ExpertsOfAMixtureCount) {
  DescribedRun mixture;
  mixture.schedule.model.experts = {.count = 8, .per_token = 2, .intermediate = 5, .dense_layers = {}};
  const std::vector<Case> cases = {
      {"num_experts", [](DescribedRun& r) { ++r.schedule.model.experts.count; }},
      {"num_experts_per_tok", [](DescribedRun& r) { ++r.schedule.model.experts.per_token; }},
      {"moe_intermediate_size", [](DescribedRun& r) { ++r.schedule.model.experts.intermediate; }},
      {"norm_topk_prob", [](DescribedRun& r) { r.schedule.model.experts.normalised ^= true; }},
      {"router_aux_loss_coef", [](DescribedRun& r) { r.schedule.model.experts.balance = 0.1; }},
      {"decoder_sparse_step", [](DescribedRun& r) { ++r.schedule.model.experts.every; }},
      {"mlp_only_layers", [](DescribedRun& r) { r.schedule.model.experts.dense_layers = {0}; }},
  };
  for (const Case& each : cases) EXPECT_EQ(changed_keys(each.change, mixture), std::vector<std::string>{each.key});
  EXPECT_EQ(allowed_keys({"num_experts_per_tok"}), std::set<std::string>{"num_experts_per_tok"});
}

TEST(RunDescription, AllowedKeysAreKnownOnesThatMayChange) {
  EXPECT_EQ(allowed_keys({"seed", "run.learning_rate", "workload.sequences"}),
            (std::set<std::string>{"learning_rate", "seed", "sequences"}));
  EXPECT_EQ(allowed_keys({"run.learning_rate_warmup_steps", "optimizer.warmup_steps", "run.data", "data.file"}),
            (std::set<std::string>{"data", "learning_rate_warmup_steps"}));
  EXPECT_EQ(allowed_keys({"optimizer.learning_rate", "optimizer.schedule"}),
            (std::set<std::string>{"learning_rate", "schedule"}));
  EXPECT_EQ(allowed_keys({"rope_scaling.factor"}), (std::set<std::string>{"rope_scaling.factor"}));
  EXPECT_MENTIONS(error_text([] { allowed_keys({"sed"}); }), "did you mean seed?");
  EXPECT_MENTIONS(error_text([] { allowed_keys({"policy.seed"}); }), "did you mean seed?");
  EXPECT_MENTIONS(error_text([] { allowed_keys({""}); }), "it may be model_type, hidden_size");
  for (const char* key : {"hidden_size", "num_attention_heads", "vocab_size", "rms_norm_eps", "model_type"})
    EXPECT_MENTIONS(error_text([&] { allowed_keys({key}); }), "cannot be allowed");
}

TEST(RunDescription, NamesEveryDifferenceThatIsNotAllowed) {
  const DescribedRun before;
  DescribedRun after;
  after.run.data.seed = 5;
  after.run.beta1 = 0.5;
  after.data = "random";
  const auto require = [&](const std::set<std::string>& allowed) {
    return require_same(before.description(), after.description(), allowed, "c");
  };
  const std::string error = error_text([&] { require({"beta1"}); });
  EXPECT_MENTIONS(error, "c: ");
  EXPECT_MENTIONS(error, "data.seed is 1 in the checkpoint, 5 now");
  EXPECT_MENTIONS(error, "data.file is \"crc32:12345678 of 90 bytes\" in the checkpoint, \"random\" now");
  EXPECT_MENTIONS(error, "--allow-changed seed --allow-changed data");
  EXPECT_EQ(error.find("beta1"), std::string::npos) << error;
  const std::vector<ChangedValue> changed = require({"seed", "beta1", "beta2", "data"});
  ASSERT_EQ(changed.size(), 3u);
  EXPECT_EQ(changed[1].key, "beta1");
  EXPECT_EQ(changed[1].before, "0.9");
  EXPECT_EQ(changed[1].now, "0.5");
}

}  // namespace
}  // namespace penstock::exec
