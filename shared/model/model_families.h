// What Hugging Face's model types mean to us: what a config.json that lacks a key stands for, and why a model type that
// cannot be read cannot be. Facts are those of the package transformers, versions 4.46.3 and 5.24.0, classes
// LlamaConfig, Qwen2Config, Qwen3Config (5.24.0) and MistralConfig, which agree on every figure here; and of 5.24.0
// MinistralConfig, MixtralConfig, Qwen3MoeConfig and OlmoeConfig.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/model/model.h"

namespace penstock {

/// What a key that is absent stands for. The sizes that make a model what it is (hidden_size, intermediate_size,
/// num_hidden_layers, num_attention_heads, vocab_size) have defaults there too; a file without them is refused here.
struct FamilyDefaults {
  std::int64_t kv_heads = 0;       // 0: as many as heads; null means that in every family
  std::int64_t head_dim = 0;       // 0: hidden / heads
  std::int64_t max_positions = 0;  // max_position_embeddings
  /// 0: none. Mistral's window is that of every layer, Ministral's of those that are listed or else of every one; Qwen2's
  /// and Qwen3's only with "use_sliding_window": true, and from layer `max_window_layers` on. Llama has none.
  std::int64_t sliding_window = 0, max_window_layers = 0;
  double rms_epsilon = 1e-6, rope_theta = 10000;
};
const FamilyDefaults& family_defaults(ModelFamily family);

/// Of a family of mixtures of experts. How many experts there are, how many a token has and how wide one is has no
/// default here.
struct ExpertDefaults {
  bool normalised = false;  // norm_topk_prob; a family without that key always does
  bool has_normalised = true;
  double balance = 0;          // router_aux_loss_coef, which counts where output_router_logits is true
  bool has_own_width = false;  // moe_intermediate_size; else intermediate_size is an expert's
  bool may_be_mixed = false;   // decoder_sparse_step, mlp_only_layers
};
/// nullptr: the family has no experts.
const ExpertDefaults* expert_defaults(ModelFamily family);

// The same in all: "hidden_act": "silu", no biases but qwen2's, "tie_word_embeddings": false, "output_router_logits":
// false, "decoder_sparse_step": 1, "mlp_only_layers": [].

/// What a model of another type has that is not computed here, and the nearest type that is: "mixtures of experts are
/// not supported; the nearest that is: qwen3". For a type that nobody knows: the one that was probably meant, or all.
std::string why_not_supported(std::string_view model_type);

/// "llama" for "LlamaForCausalLM"; empty if it is no type that can be read.
std::string type_of_architecture(std::string_view architecture);

}  // namespace penstock
