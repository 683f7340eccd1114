#include "shared/model/model_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "shared/nearest_name.h"

namespace penstock {
namespace {

constexpr const char* kExperts = "this kind of mixture of experts is not supported";
constexpr const char* kSharedExperts = "experts that every token has are not supported";
constexpr const char* kVision = "it sees or hears too; only language models are supported";
constexpr const char* kGelu = "learned positions, LayerNorm and GELU are not supported";
constexpr const char* kLayerNorm = "LayerNorm is not supported";
constexpr const char* kGemma = "GELU, norms that add 1 to their weight and scaled embeddings are not supported";
constexpr const char* kMultipliers = "factors on embeddings, attention, residuals and logits are not supported";
constexpr const char* kStateSpace = "layers without attention (state-space, recurrent, convolutions) are not supported";
constexpr const char* kLatent = "latent attention is not supported";
constexpr const char* kEncoder = "it is no decoder-only language model";
constexpr const char* kInterleaved = "rotary embeddings of neighbouring elements are not supported";
constexpr const char* kNormBehind = "norms behind attention and MLP are not supported";
constexpr const char* kRelu2 = "squared ReLU without a gate is not supported";

struct OtherType {
  std::string_view name, difference, nearest;
};

/// Families of our time by their model_type.
constexpr OtherType kOthers[] = {
    {"qwen2_moe", kSharedExperts, "qwen3_moe"},
    {"gpt_oss", "attention with sinks, biases on router and experts and a clamped SwiGLU are not supported",
     "qwen3_moe"},
    {"phimoe", kExperts, "mixtral"},
    {"granitemoe", kMultipliers, "mixtral"},
    {"glm4_moe", kSharedExperts, "qwen3_moe"},
    {"ernie4_5_moe", kSharedExperts, "qwen3_moe"},
    {"hunyuan_v1_moe", kSharedExperts, "qwen3_moe"},
    {"minimax_m2", kExperts, "qwen3_moe"},
    {"dbrx", kExperts, "mixtral"},
    {"llama4", kSharedExperts, "llama"},
    {"llama4_text", kSharedExperts, "llama"},
    {"deepseek_v2", kLatent, "llama"},
    {"deepseek_v3", kLatent, "llama"},
    {"deepseek_v32", kLatent, "llama"},
    {"kimi_k2", kLatent, "llama"},
    {"minicpm3", kLatent, "llama"},
    {"phi3", "q, k, v and gate, up are one tensor each in its weights; a copy converted to llama can be read", "llama"},
    {"phi", "LayerNorm, GELU, biases and partly rotated heads are not supported", "llama"},
    {"gemma", kGemma, "llama"},
    {"gemma2", kGemma, "llama"},
    {"gemma3", kGemma, "qwen3"},
    {"gemma3_text", kGemma, "qwen3"},
    {"gemma3n", kGemma, "qwen3"},
    {"gpt2", kGelu, "llama"},
    {"gpt_neo", kGelu, "llama"},
    {"gpt_bigcode", kGelu, "llama"},
    {"opt", kGelu, "llama"},
    {"gpt_neox", "LayerNorm, GELU and biases are not supported", "llama"},
    {"gptj", "LayerNorm, GELU and biases are not supported", "llama"},
    {"bloom", "ALiBi positions, LayerNorm and GELU are not supported", "llama"},
    {"mpt", "ALiBi positions, LayerNorm and GELU are not supported", "llama"},
    {"falcon", "LayerNorm, GELU and attention beside the MLP are not supported", "llama"},
    {"stablelm", kLayerNorm, "llama"},
    {"starcoder2", "LayerNorm, GELU and biases are not supported", "llama"},
    {"olmo", kLayerNorm, "llama"},
    {"olmo2", kNormBehind, "qwen3"},
    {"olmo3", kNormBehind, "qwen3"},
    {"exaone4", kNormBehind, "qwen3"},
    {"cohere", "LayerNorm, attention beside the MLP and scaled logits are not supported", "llama"},
    {"cohere2", "LayerNorm, attention beside the MLP and scaled logits are not supported", "llama"},
    {"smollm3", "some of its layers have no rotary embedding", "llama"},
    {"granite", kMultipliers, "llama"},
    {"minicpm", kMultipliers, "llama"},
    {"glm", kInterleaved, "qwen2"},
    {"glm4", kInterleaved, "qwen2"},
    {"chatglm", kInterleaved, "qwen2"},
    {"ernie4_5", kInterleaved, "llama"},
    {"helium", kInterleaved, "llama"},
    {"nemotron", kRelu2, "llama"},
    {"arcee", kRelu2, "llama"},
    {"apertus", "the activation xIELU is not supported", "qwen3"},
    {"bitnet", "quantised weights and norms within attention and MLP are not supported", "llama"},
    {"hunyuan_v1_dense", "QK norms behind the rotary embedding are not supported", "qwen3"},
    {"seed_oss", "dropout is not supported", "qwen2"},
    {"ministral3", "scaled rotary frequencies and queries are not supported", "mistral"},
    {"internlm", "a bias on the output projection is not supported", "qwen2"},
    {"internlm2", "q, k and v are one tensor in its weights; a copy converted to llama can be read", "llama"},
    {"baichuan", "q, k and v are one tensor in its weights; a 7B converted to llama can be read", "llama"},
    {"qwen", "q, k and v are one tensor in its weights", "qwen2"},
    {"yi", "the first release names its tensors otherwise; the later one is llama", "llama"},
    {"qwen3_next", kStateSpace, "qwen3"},
    {"qwen3_5", kStateSpace, "qwen3"},
    {"mamba", kStateSpace, "llama"},
    {"mamba2", kStateSpace, "llama"},
    {"jamba", kStateSpace, "llama"},
    {"bamba", kStateSpace, "llama"},
    {"falcon_h1", kStateSpace, "llama"},
    {"falcon_mamba", kStateSpace, "llama"},
    {"recurrent_gemma", kStateSpace, "llama"},
    {"nemotron_h", kStateSpace, "llama"},
    {"zamba2", kStateSpace, "llama"},
    {"lfm2", kStateSpace, "llama"},
    {"rwkv", kStateSpace, "llama"},
    {"qwen2_vl", kVision, "qwen2"},
    {"qwen2_5_vl", kVision, "qwen2"},
    {"qwen2_5_omni", kVision, "qwen2"},
    {"qwen2_audio", kVision, "qwen2"},
    {"qwen3_vl", kVision, "qwen3"},
    {"internvl_chat", kVision, "qwen2"},
    {"internvl", kVision, "qwen2"},
    {"mllama", kVision, "llama"},
    {"llava", kVision, "llama"},
    {"llava_next", kVision, "llama"},
    {"llava_onevision", kVision, "qwen2"},
    {"mistral3", kVision, "mistral"},
    {"pixtral", kVision, "mistral"},
    {"paligemma", kVision, "llama"},
    {"idefics3", kVision, "llama"},
    {"smolvlm", kVision, "llama"},
    {"voxtral", kVision, "llama"},
    {"bert", kEncoder, "llama"},
    {"roberta", kEncoder, "llama"},
    {"modernbert", kEncoder, "llama"},
    {"t5", kEncoder, "llama"},
    {"bart", kEncoder, "llama"},
    {"whisper", kEncoder, "llama"},
};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::vector<std::string> supported() { return {model_family_names().begin(), model_family_names().end()}; }

}  // namespace

const FamilyDefaults& family_defaults(ModelFamily family) {
  static constexpr FamilyDefaults kLlama{0, 0, 2048, 0, 0};
  static constexpr FamilyDefaults kQwen2{32, 0, 32768, 4096, 28};
  static constexpr FamilyDefaults kQwen3{32, 128, 32768, 4096, 28};
  static constexpr FamilyDefaults kMistral{8, 0, 131072, 4096, 0};
  static constexpr FamilyDefaults kMixtral{8, 0, 131072, 0, 0, 1e-5, 1e6};
  static constexpr FamilyDefaults kQwen3Moe{4, 0, 32768, 4096, 28};
  static constexpr FamilyDefaults kOlmoe{0, 0, 4096, 0, 0, 1e-5};
  switch (family) {
    case ModelFamily::llama: return kLlama;
    case ModelFamily::qwen2: return kQwen2;
    case ModelFamily::qwen3: return kQwen3;
    case ModelFamily::mistral:
    case ModelFamily::ministral: return kMistral;
    case ModelFamily::mixtral: return kMixtral;
    case ModelFamily::qwen3_moe: return kQwen3Moe;
    case ModelFamily::olmoe: return kOlmoe;
  }
  return kLlama;
}

const ExpertDefaults* expert_defaults(ModelFamily family) {
  static constexpr ExpertDefaults kMixtral{.normalised = true, .has_normalised = false, .balance = 0.001};
  static constexpr ExpertDefaults kQwen3Moe{.balance = 0.001, .has_own_width = true, .may_be_mixed = true};
  static constexpr ExpertDefaults kOlmoe{.balance = 0.01};
  switch (family) {
    case ModelFamily::mixtral: return &kMixtral;
    case ModelFamily::qwen3_moe: return &kQwen3Moe;
    case ModelFamily::olmoe: return &kOlmoe;
    default: return nullptr;
  }
}

std::string why_not_supported(std::string_view given) {
  const std::string model_type = lower_case(given);
  for (const OtherType& other : kOthers)
    if (other.name == model_type)
      return fmt::format("{}; the nearest that can be read is {}", other.difference, other.nearest);
  const std::vector<std::string> known = supported();
  // "qwen2.5" and "llama3.1" are names of models, not of types.
  for (const std::string& name : known)
    if (model_type.starts_with(name) && model_type.find('_') == std::string::npos)
      return fmt::format("did you mean {}?", name);
  const std::string nearest = nearest_name(model_type, known);
  return fmt::format("{}known types are {}", nearest.empty() ? "" : fmt::format("did you mean {}? ", nearest),
                     fmt::join(known, ", "));
}

std::string type_of_architecture(std::string_view architecture) {
  constexpr std::string_view kEnd = "ForCausalLM";
  if (!architecture.ends_with(kEnd)) return "";
  const std::string_view name = architecture.substr(0, architecture.size() - kEnd.size());
  const std::vector<std::string> types = supported();
  // "Qwen3MoeForCausalLM" is "qwen3_moe".
  const auto type = std::find_if(types.begin(), types.end(), [&](std::string type_name) {
    std::erase(type_name, '_');
    return type_name == lower_case(name);
  });
  return type == types.end() ? "" : *type;
}

}  // namespace penstock
