// Mixtures of experts as models: counts, shapes, config.json, kernels.
//
// The small model: hidden 64, 4 heads and 2 kv heads of 16 (qkv 128 columns), 8 experts of 48, of which a token has 3, and
// of 5 layers the first, third and fourth dense with 128. Its matrices of experts are all multiples of 64 elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "shared/error.h"
#include "shared/model/activations.h"
#include "shared/model/config_json.h"
#include "shared/model/kernels.h"
#include "shared/model/model.h"
#include "tests/shared/error_text.h"
#include "tests/shared/policy/small_models.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

Model catalogue(const std::string& name) {
  return make_model(read_model_config(source_folder() / "scenarios/models" / (name + ".json")));
}

// --- counts -------------------------------------------------------------------------------------------------------
// Per layer: (heads + 2 kv) d h + heads d h of attention, 2 h of norms, QK norms (2 d, of OLMoE h + kv d), the router e h,
// the experts 3 e h w; embedding and head v h each, and h.

TEST(ExpertsCount, Qwen3_30B_A3B) {
  const std::int64_t layer = 5120 * 2048 + 4096 * 2048 + 2 * 2048 + 2 * 128 + 128 * 2048 + 3LL * 128 * 2048 * 768;
  EXPECT_EQ(layer, 623'120'640);
  const Model model = catalogue("qwen3-30b-a3b");
  EXPECT_EQ(model.parameters, 48 * layer + 2 * 151936LL * 2048 + 2048);
  EXPECT_EQ(model.parameters, 30'532'122'624);
  // 120 of 128 experts are not a token's: 3.35e9, with the embedding that it is published without.
  EXPECT_EQ(model.active_parameters(), model.parameters - 48 * 3LL * 120 * 2048 * 768);
  EXPECT_EQ(model.active_parameters(), 3'353'032'704);
}

TEST(ExpertsCount, Qwen3_235B_A22B) {
  const Model model = catalogue("qwen3-235b-a22b");
  EXPECT_EQ(model.parameters, 235'093'634'560);
  EXPECT_NEAR(static_cast<double>(model.active_parameters()), 22.2e9, 0.1e9);
}

TEST(ExpertsCount, Mixtral8x7B) {
  const std::int64_t layer = 6144LL * 4096 + 4096 * 4096 + 2 * 4096 + 8 * 4096 + 3LL * 8 * 4096 * 14336;
  EXPECT_EQ(catalogue("mixtral-8x7b").parameters, 32 * layer + 2 * 32000LL * 4096 + 4096);
  EXPECT_EQ(catalogue("mixtral-8x7b").parameters, 46'702'792'704);
}

TEST(ExpertsCount, OlmoeNormalisesWholeQueriesAndKeys) {
  const std::int64_t layer = 4LL * 2048 * 2048 + 2 * 2048 + 2 * 2048 + 64 * 2048 + 3LL * 64 * 2048 * 1024;
  const Model model = catalogue("olmoe-1b-7b");
  EXPECT_EQ(model.parameters, 16 * layer + 2 * 50304LL * 2048 + 2048);
  EXPECT_EQ(model.parameters, 6'919'161'856);
  EXPECT_TRUE(model.config.qk_norm_whole);
}

// --- layout -------------------------------------------------------------------------------------------------------

TEST(ExpertsLayout, LayersOfBothKindsStandInOneModel) {
  const Model model = small::experts();
  std::string kinds;
  for (const Layer& layer : model.layers) kinds += "EdHx"[static_cast<int>(layer.kind)];
  EXPECT_EQ(kinds, "EdxddxH");
  EXPECT_EQ(model.largest_decoder().index, 2);
  EXPECT_EQ(model.smallest_decoder().index, 1);
  EXPECT_EQ(model.first_of(LayerKind::experts).index, 2);
  // Experts: 8 x 3 x 64 x 48 = 73728, router 512; dense: 3 x 64 x 128 = 24576.
  EXPECT_EQ(model.layers[2].parameters - model.layers[1].parameters, 73728 + 512 - 24576);
  EXPECT_EQ(model.widest_mlp(), 3 * 48);
}

TEST(ExpertsLayout, AnExpertsMatricesLieAtFixedDistances) {
  const Model model = small::experts();
  const DecoderOffsets& at = model.experts;
  EXPECT_EQ(at.gate_up_stride, 2 * 48 * 64);
  EXPECT_EQ(at.down_stride, 48 * 64);
  const auto find = [&](const std::string& name) {
    const auto& tensors = model.layers[2].tensors;
    return *std::find_if(tensors.begin(), tensors.end(), [&](const ParameterTensor& t) { return t.name == name; });
  };
  EXPECT_EQ(find("model.layers.1.mlp.gate.weight").offset, at.router);
  EXPECT_EQ(find("model.layers.1.mlp.gate.weight").rows, 8);
  EXPECT_EQ(find("model.layers.1.mlp.experts.5.gate_proj.weight").offset, at.gate_up + 5 * at.gate_up_stride);
  EXPECT_EQ(find("model.layers.1.mlp.experts.5.up_proj.weight").offset, at.gate_up + 5 * at.gate_up_stride + 48 * 64);
  EXPECT_EQ(find("model.layers.1.mlp.experts.7.down_proj.weight").offset, at.down + 7 * at.down_stride);
  EXPECT_EQ(find("model.layers.1.mlp.experts.7.down_proj.weight").rows, 64);
}

TEST(ExpertsLayout, OddExpertsBeginAtMultiplesOf64Elements) {
  ModelConfig config = small::experts().config;
  config.hidden = 6;
  config.experts.intermediate = 5;  // gate and up are 60 elements, down 30
  config.experts.dense_layers.clear();
  const Model model = make_model(config);
  EXPECT_EQ(model.experts.gate_up_stride, 64);
  EXPECT_EQ(model.experts.down_stride, 64);
  EXPECT_EQ(model.experts.gate_up % 64, 0);
}

TEST(ExpertsLayout, MixtralHasNamesOfItsOwn) {
  ModelConfig config = small::experts().config;
  config.family = ModelFamily::mixtral;
  std::set<std::string> names;
  const Model model = make_model(config);
  for (const ParameterTensor& tensor : model.layers[2].tensors) names.insert(tensor.name);
  EXPECT_TRUE(names.contains("model.layers.1.block_sparse_moe.gate.weight"));
  for (const char* part : {"w1", "w2", "w3"})
    EXPECT_TRUE(names.contains("model.layers.1.block_sparse_moe.experts.7." + std::string(part) + ".weight")) << part;
}

// --- config.json --------------------------------------------------------------------------------------------------

class ExpertsConfig : public testing::Test {
 protected:
  ModelConfig read(const std::string& text) { return read_model_config(folder_.write("config.json", text)); }
  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  static std::string qwen3(const std::string& members) {
    return "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 4, "
           "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 256" +
           members + "}";
  }
  static std::string of_type(const std::string& type, const std::string& members) {
    std::string text = qwen3(members);
    return text.replace(text.find("qwen3_moe"), 9, type);
  }

  static constexpr const char* kSizes =
      ", \"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32";
  TemporaryFolder folder_;
};

TEST_F(ExpertsConfig, AbsentKeysAreTheFamilysDefaults) {
  const ModelConfig qwen = read(qwen3(kSizes));
  EXPECT_EQ(qwen.experts,
            (Experts{.count = 8, .per_token = 2, .intermediate = 32, .normalised = false, .dense_layers = {}}));
  EXPECT_TRUE(qwen.qk_norm);
  EXPECT_EQ(qwen.head_dim, 16);
  const char* sizes = ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2";
  const ModelConfig mixtral = read(of_type("mixtral", sizes));
  EXPECT_EQ(mixtral.experts,
            (Experts{.count = 8, .per_token = 2, .intermediate = 128, .normalised = true, .dense_layers = {}}));
  EXPECT_EQ(mixtral.rms_epsilon, 1e-5);
  EXPECT_EQ(mixtral.rope_theta, 1e6);
  EXPECT_EQ(mixtral.sliding_window, 0);
  const ModelConfig olmoe = read(of_type("olmoe", sizes));
  EXPECT_FALSE(olmoe.experts.normalised);
  EXPECT_TRUE(olmoe.qk_norm_whole);
}

TEST_F(ExpertsConfig, WhichLayersHaveExperts) {
  const auto kinds = [this](const std::string& members) {
    const ModelConfig config = read(qwen3(kSizes + members));
    std::string text;
    for (int layer = 0; layer < 4; ++layer) text += decoder_kind(config, layer) == LayerKind::experts ? 'x' : 'd';
    return text;
  };
  EXPECT_EQ(kinds(""), "xxxx");
  EXPECT_EQ(kinds(", \"mlp_only_layers\": [2, 0]"), "dxdx");
  EXPECT_EQ(kinds(", \"decoder_sparse_step\": 2"), "dxdx");
  EXPECT_EQ(kinds(", \"decoder_sparse_step\": 2, \"mlp_only_layers\": [3, 3]"), "dxdd");
  EXPECT_EQ(kinds(", \"mlp_only_layers\": null"), "xxxx");
}

TEST_F(ExpertsConfig, TheBalancingLossCountsOnlyWhereItIsAskedFor) {
  EXPECT_EQ(read(qwen3(kSizes + std::string(", \"router_aux_loss_coef\": 0.9"))).experts.balance, 0);
  EXPECT_EQ(read(qwen3(kSizes + std::string(", \"output_router_logits\": true"))).experts.balance, 0.001);
  EXPECT_EQ(read(qwen3(kSizes + std::string(", \"output_router_logits\": true, \"router_aux_loss_coef\": 0.5")))
                .experts.balance,
            0.5);
}

TEST_F(ExpertsConfig, WhatCannotBeIsRefused) {
  const std::string few = ", \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32";
  EXPECT_MENTIONS(refusal(qwen3(few)), "num_experts: is missing");
  EXPECT_MENTIONS(refusal(qwen3(", \"num_experts\": 8, \"num_experts_per_tok\": 9, \"moe_intermediate_size\": 32")),
                  "num_experts_per_tok: 9 experts are to be chosen of 8; expected at most 8");
  EXPECT_MENTIONS(refusal(qwen3(", \"num_experts\": 8, \"num_experts_per_tok\": 2")),
                  "moe_intermediate_size: is missing");
  EXPECT_MENTIONS(refusal(qwen3(", \"num_experts\": 0" + few)), "num_experts: expected a whole number from 1 to 1024");
  EXPECT_MENTIONS(refusal(qwen3(", \"num_experts\": 8, \"num_local_experts\": 16" + few)), "num_experts is 8");
  EXPECT_MENTIONS(refusal(qwen3(kSizes + std::string(", \"mlp_only_layers\": [4]"))),
                  "mlp_only_layers: 4 is no layer; the model has the layers 0 to 3");
  EXPECT_MENTIONS(refusal(qwen3(kSizes + std::string(", \"decoder_sparse_step\": 0"))), "decoder_sparse_step");
  EXPECT_MENTIONS(refusal(qwen3(kSizes + std::string(", \"norm_topk_prop\": true"))), "did you mean norm_topk_prob?");
  EXPECT_MENTIONS(refusal(qwen3(kSizes + std::string(", \"shared_expert_intermediate_size\": 32"))),
                  "an expert that every token has");
  EXPECT_MENTIONS(refusal(of_type("mixtral", kSizes + std::string(", \"router_jitter_noise\": 0.1"))),
                  "router_jitter_noise");
  EXPECT_MENTIONS(refusal(of_type("mixtral", kSizes + std::string(", \"norm_topk_prob\": false"))), "norm_topk_prob");
  EXPECT_MENTIONS(refusal(of_type("olmoe", kSizes + std::string(", \"clip_qkv\": 8.0"))), "clip_qkv");
  EXPECT_MENTIONS(refusal(of_type("llama", kSizes)), "its MLPs are mixtures of experts");
  EXPECT_EQ(refusal(of_type("llama", ", \"num_experts\": 0, \"num_local_experts\": 1")), "accepted");
}

// transformers' OLMoE hands it to flash attention, and makes a mask without it for the others.
TEST_F(ExpertsConfig, AWindowOfOlmoeIsNotKnown) {
  const std::string sizes = kSizes;
  EXPECT_MENTIONS(refusal(of_type("olmoe", sizes + ", \"sliding_window\": 64")), "sliding_window: 64: whether");
  EXPECT_EQ(refusal(of_type("olmoe", sizes + ", \"sliding_window\": null")), "accepted");
  EXPECT_EQ(refusal(of_type("mixtral", sizes + ", \"sliding_window\": 64")), "accepted");
}

TEST_F(ExpertsConfig, OtherWaysToChooseExpertsAreNotPassedOver) {
  for (const auto& [member, what] : {std::pair{"\"first_k_dense_replace\": 1", "its first layers have no experts"},
                                     {"\"moe_layer_freq\": [0, 1, 1, 1]", "some of its layers have no experts"},
                                     {"\"n_group\": 8", "chosen in groups"},
                                     {"\"topk_group\": 4", "chosen in groups"},
                                     {"\"routed_scaling_factor\": 2.5", "is scaled"},
                                     {"\"use_routing_bias\": true", "with a bias"},
                                     {"\"moe_num_shared_experts\": 2", "every token has"},
                                     {"\"scoring_func\": \"sigmoid\"", "expected \"softmax\""},
                                     {"\"topk_method\": \"noaux_tc\"", "expected \"greedy\""}})
    EXPECT_MENTIONS(refusal(qwen3(kSizes + std::string(", ") + member)), what);
  EXPECT_EQ(refusal(qwen3(kSizes + std::string(", \"first_k_dense_replace\": 0, \"moe_layer_freq\": 1, \"n_group\": 1, "
                                               "\"topk_group\": null, \"routed_scaling_factor\": 1.0, "
                                               "\"scoring_func\": \"softmax\", \"topk_method\": \"greedy\""))),
            "accepted");
  // Families whose layers all have experts.
  for (const char* type : {"mixtral", "olmoe"}) {
    EXPECT_MENTIONS(refusal(of_type(type, kSizes + std::string(", \"mlp_only_layers\": [1]"))),
                    "only qwen3_moe has such");
    EXPECT_MENTIONS(refusal(of_type(type, kSizes + std::string(", \"decoder_sparse_step\": 2"))),
                    "only qwen3_moe has such");
    EXPECT_EQ(refusal(of_type(type, kSizes + std::string(", \"mlp_only_layers\": [], \"decoder_sparse_step\": 1"))),
              "accepted");
  }
}

// --- activations and kernels --------------------------------------------------------------------------------------
// A batch of 2 sequences of 32: 64 tokens, 192 choices.

const BatchShape kBatch{2, 32};

std::string names(const std::vector<Kernel>& list) {
  std::string text;
  for (const Kernel& kernel : list) text += (text.empty() ? "" : ", ") + std::string(kernel.name());
  return text;
}

std::vector<Kernel> kernels(Pass pass, Keep keep, std::int64_t mlp_tokens = 0, bool output = false) {
  return template_kernels(small::experts(), LayerKind::experts, pass, kBatch, {keep, {mlp_tokens, 0}, 0}, output);
}

TEST(ExpertsActivations, KeepWhatBackwardReads) {
  const Model model = small::experts();
  const auto kept = [&](Keep keep) { return kept_region(model, LayerKind::experts, kBatch, {keep, {}, 0}).bytes; };
  const std::int64_t attention = 64 * 64 * 2 + 2 * 4 * 32 * 4, middle = 64 * 64 * 2;
  EXPECT_EQ(kept(Keep::input_attention), attention + middle);
  // QK norm's input, qkv, router logits, choices, weights (192 x 4 = 768 each) and gate, up of 192 rows.
  EXPECT_EQ(kept(Keep::everything),
            attention + middle + 64 * 96 * 2 + 64 * 128 * 2 + 64 * 8 * 4 + 768 + 768 + 192 * 96 * 2);
  // A chunked MLP's backward makes all of the MLP again.
  EXPECT_EQ(recomputed_region(model, LayerKind::experts, kBatch, {Keep::input_attention, {16, 0}, 0}).bytes,
            64 * 96 * 2 + 64 * 128 * 2);
}

TEST(ExpertsKernels, ForwardAndBackward) {
  EXPECT_EQ(names(kernels(Pass::forward, Keep::everything)),
            "input norm, qkv, qk norm and rotary, attention, attention output, middle norm, router, expert choice, "
            "expert order, expert rows, experts gate_up, experts swiglu, experts down, expert sum");
  EXPECT_EQ(names(kernels(Pass::backward, Keep::everything)),
            "middle norm, expert order, expert rows, expert gradient rows, experts down input gradient, "
            "experts swiglu backward, experts down weight gradient, experts gate_up weight gradient, "
            "experts gate_up input gradient, expert gradient sum, expert choice backward, router weight gradient, "
            "router input gradient, middle norm backward, attention output weight gradient, "
            "attention output input gradient, attention backward, qk norm and rotary backward, input norm, "
            "qkv weight gradient, qkv input gradient, input norm backward");
  EXPECT_EQ(names(kernels(Pass::recompute, Keep::input_attention)),
            "input norm, qkv, qk norm and rotary, middle norm, router, expert choice, expert order, expert rows, "
            "experts gate_up");
  // From kept gate_up: the order alone is made again.
  EXPECT_EQ(names(kernels(Pass::recompute, Keep::everything, 0, true)),
            "expert order, experts swiglu, experts down, expert sum");
}

TEST(ExpertsKernels, AChunkedMlpRoutesOnceAndMakesItsRowsChunkByChunk) {
  const auto count = [](const std::vector<Kernel>& list, KernelId id) {
    std::int64_t executions = 0;
    for (const Kernel& kernel : list) executions += kernel.id == id ? kernel.count : 0;
    return executions;
  };
  const auto backward = kernels(Pass::backward, Keep::input_attention, 16);
  EXPECT_EQ(count(backward, KernelId::router), 1);
  EXPECT_EQ(count(backward, KernelId::experts_gate_up), 4);
  EXPECT_EQ(count(backward, KernelId::expert_order), 4);
  EXPECT_EQ(count(kernels(Pass::recompute, Keep::input_attention, 16), KernelId::router), 0);
  EXPECT_DOUBLE_EQ(kernel_flops(kernels(Pass::forward, Keep::input, 16)),
                   kernel_flops(kernels(Pass::forward, Keep::input)));
}

TEST(ExpertsKernels, ATokenMeetsTheRouterAndItsExperts) {
  // qkv 8192, attention output 4096, router 512, three experts of 3 x 64 x 48 = 9216.
  const double layer = 8192 + 4096 + 512 + 3 * 9216, attention = 2.0 * 2 * 4 * 16 * 32 * 32;
  EXPECT_DOUBLE_EQ(kernel_flops(kernels(Pass::forward, Keep::everything)), 2 * layer * 64 + attention);
  EXPECT_DOUBLE_EQ(kernel_flops(kernels(Pass::backward, Keep::everything)), 4 * layer * 64 + 2.5 * attention);
  const double dense = 8192 + 4096 + 24576;
  EXPECT_DOUBLE_EQ(model_flops(small::experts(), kBatch),
                   6.0 * (2 * layer + 3 * dense + 16384) * 64 + 3.0 * 5 * attention);
}

TEST(ExpertsKernels, GroupedProductsReadEveryExpertsWeights) {
  const auto list = kernels(Pass::backward, Keep::everything);
  const auto find = [&](KernelId id) {
    return *std::find_if(list.begin(), list.end(), [&](const Kernel& kernel) { return kernel.id == id; });
  };
  const Kernel input = find(KernelId::experts_down_input_gradient);
  EXPECT_EQ(input.groups, 8);
  EXPECT_EQ(input.bytes, (192 * 64 + 8 * 64 * 48) * 2 + 192 * 48 * 2);
  const Kernel weights = find(KernelId::experts_down_weight_gradient);
  EXPECT_TRUE(weights.groups_share_k);
  EXPECT_EQ(weights.bytes, (192 * 64 + 192 * 48) * 2 + 2 * 8 * 64 * 48 * 4);
}

TEST(RowsOfExperts, ShareRowsEvenlyOrByASkew) {
  EXPECT_EQ(rows_of_experts(10, 4, 1), (std::vector<std::int64_t>{3, 2, 3, 2}));  // 2.5 each, rounded as they add up
  // Halves: 8/15 of 15 rows is 8, which is 32/15 of the mean.
  EXPECT_EQ(rows_of_experts(15, 4, 32.0 / 15), (std::vector<std::int64_t>{8, 4, 2, 1}));
  EXPECT_EQ(rows_of_experts(7, 3, 3), (std::vector<std::int64_t>{7, 0, 0}));
  EXPECT_EQ(rows_of_experts(0, 2, 1), (std::vector<std::int64_t>{0, 0}));
  const auto parts = rows_of_experts(131072, 128, 6);
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), 131072);
  EXPECT_NEAR(static_cast<double>(parts.front()), 6 * 1024, 1);
}

}  // namespace
}  // namespace penstock
