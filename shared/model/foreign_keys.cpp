#include "shared/model/foreign_keys.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shared/model/model_families.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr double kNone = -1;  // no number leaves the mathematics as it is

struct ForeignKey {
  const char* name;
  double neutral;
  const char* what;
};

/// As transformers' configurations call them; which families have them stands behind.
constexpr ForeignKey kForeign[] = {
    {"attn_logit_softcapping", kNone, "scores of attention are capped"},            // gemma2
    {"final_logit_softcapping", kNone, "logits are capped"},                        // gemma2
    {"embedding_multiplier", 1, "embeddings are scaled"},                           // granite
    {"residual_multiplier", 1, "residuals are scaled"},                             // granite
    {"logits_scaling", 1, "logits are scaled"},                                     // granite
    {"logit_scale", 1, "logits are scaled"},                                        // cohere
    {"scale_emb", 1, "embeddings are scaled"},                                      // minicpm
    {"scale_depth", kNone, "residuals are scaled"},                                 // minicpm
    {"n_routed_experts", 1, "its MLPs are mixtures of experts"},                    // deepseek_v3
    {"kv_lora_rank", kNone, "attention is latent"},                                 // deepseek_v3
    {"clip_qkv", kNone, "queries, keys and values are clipped"},                    // olmo
    {"alibi", kNone, "positions are ALiBi"},                                        // falcon
    {"parallel_attn", kNone, "attention is beside the MLP"},                        // falcon
    {"use_parallel_residual", kNone, "attention is beside the MLP"},                // gpt_neox
    {"attention_chunk_size", kNone, "attention ends at chunks"},                    // llama4
    {"no_rope_layers", kNone, "some of its layers have no rotary embedding"},       // smollm3
    {"rope_interleaved", kNone, "rotary embeddings are of neighbouring elements"},  // smollm
    {"embd_pdrop", 0, "there is no dropout here"},                                  // phi3
    {"resid_pdrop", 0, "there is no dropout here"},                                 // phi3
    {"hidden_dropout", 0, "there is no dropout here"},                              // falcon
};

/// Which a family without experts has not.
constexpr ForeignKey kExperts[] = {
    {"num_local_experts", 1, "its MLPs are mixtures of experts"},  // mixtral
    {"num_experts", 1, "its MLPs are mixtures of experts"},        // qwen3_moe
};

/// Which a family with experts has not.
constexpr ForeignKey kOtherExperts[] = {
    {"shared_expert_intermediate_size", 0, "it has an expert that every token has"},  // qwen2_moe
    {"n_shared_experts", 0, "it has experts that every token has"},                   // deepseek_v2
    {"num_shared_experts", 0, "it has experts that every token has"},                 // glm, hunyuan
    {"moe_num_shared_experts", 0, "it has experts that every token has"},             // ernie4_5_moe
    {"first_k_dense_replace", 0, "its first layers have no experts"},                 // deepseek_v2
    {"moe_layer_freq", 1, "some of its layers have no experts"},                      // deepseek_v2
    {"n_group", 1, "experts are chosen in groups"},                                   // deepseek_v2
    {"topk_group", 1, "experts are chosen in groups"},                                // deepseek_v2
    {"routed_scaling_factor", 1, "what experts make is scaled"},                      // deepseek_v2
    {"use_routing_bias", kNone, "experts are chosen with a bias"},                    // minimax_m2
    {"swiglu_limit", kNone, "gate and up are clamped"},                               // gpt_oss
};

/// Which a family has not whose layers all have experts.
constexpr ForeignKey kDenseLayers[] = {
    {"mlp_only_layers", kNone, "some of its layers have no experts; only qwen3_moe has such"},
    {"decoder_sparse_step", 1, "some of its layers have no experts; only qwen3_moe has such"},
};

bool changes_nothing(const json& value, double neutral) {
  if (value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty())) return true;
  return neutral != kNone && value.is_number() && value.get<double>() == neutral;
}

void refuse(JsonObject& object, const ForeignKey& key) {
  if (!object.has(key.name) || changes_nothing(object.value(key.name), key.neutral)) return;
  object.fail(key.name, fmt::format("{} cannot be read: {}", shown(object.value(key.name)), key.what));
}

/// A switch of what some families do anyway and the others never.
void refuse_otherwise(JsonObject& object, const char* name, bool is_computed, const char* does, const char* nearest) {
  if (!object.has(name) || object.value(name).is_null() || object.value(name) == is_computed) return;
  object.fail(name, is_computed ? fmt::format("{} cannot be read: a model of this model_type {}; expected true",
                                              shown(object.value(name)), does)
                                : fmt::format("{} cannot be read: no model of this model_type {}; the nearest that can "
                                              "be read is {}",
                                              shown(object.value(name)), does, nearest));
}

/// Of a mixture of experts: how they are chosen, in words.
void refuse_other_word(JsonObject& object, const char* name, std::string_view expected) {
  if (!object.has(name) || object.value(name).is_null() || object.value(name) == expected) return;
  object.fail(name, fmt::format("{} cannot be read: experts are chosen in another way; expected \"{}\"",
                                shown(object.value(name)), expected));
}

void refuse_foreign_experts(JsonObject& object, const ModelConfig& config) {
  const ExpertDefaults* const experts = expert_defaults(config.family);
  if (experts == nullptr) {
    for (const ForeignKey& key : kExperts)
      if (!object.has(key.name) || object.value(key.name) != 0) refuse(object, key);
    return;
  }
  for (const ForeignKey& key : kOtherExperts) refuse(object, key);
  if (!experts->may_be_mixed)
    for (const ForeignKey& key : kDenseLayers) refuse(object, key);
  refuse_other_word(object, "scoring_func", "softmax");  // deepseek_v3
  refuse_other_word(object, "topk_method", "greedy");    // deepseek_v2
}

}  // namespace

void refuse_foreign_keys(JsonObject& object, const ModelConfig& config) {
  for (const ForeignKey& key : kForeign) refuse(object, key);
  refuse_foreign_experts(object, config);
  for (const char* name : {"use_qk_norm", "qk_layernorm"})  // cohere, qwen3_moe; phi
    refuse_otherwise(object, name, config.qk_norm, "normalises queries and keys", "qwen3");
  refuse_otherwise(object, "qkv_bias", config.qkv_bias, "has biases on q, k and v", "qwen2");  // qwen2_moe
  // What attention is scaled by is 1 / sqrt(head_dim) here, under either key.
  const auto head_dim = static_cast<double>(config.head_dim);
  const char* const what = "attention is scaled by another factor than 1 / sqrt(head_dim)";
  const auto is_near = [&](const char* name, double usual) {
    const json& value = object.value(name);
    return value.is_number() && std::abs(value.get<double>() - usual) <= 1e-6 * usual;
  };
  if (object.has("query_pre_attn_scalar") && !is_near("query_pre_attn_scalar", head_dim))
    refuse(object, {"query_pre_attn_scalar", kNone, what});  // gemma2
  if (object.has("attention_multiplier") && !is_near("attention_multiplier", 1 / std::sqrt(head_dim)))
    refuse(object, {"attention_multiplier", kNone, what});  // granite
}

}  // namespace penstock
