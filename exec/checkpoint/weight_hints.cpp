#include "exec/checkpoint/weight_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "exec/checkpoint/state_source.h"
#include "shared/ir/schedule_names.h"

namespace penstock::exec {
namespace {

/// One more than the largest number behind `part`; 0: there is none.
std::int64_t one_more_than_largest(std::span<const std::string> names, std::string_view part) {
  std::int64_t count = 0;
  for (const std::string& name : names) {
    const std::size_t at = name.find(part);
    std::int64_t index = -1;
    if (at != std::string::npos) std::from_chars(name.data() + at + part.size(), name.data() + name.size(), index);
    if (index < INT64_MAX) count = std::max(count, index + 1);
  }
  return count;
}

/// A part of a tensor's name and what it says.
struct Mark {
  std::string_view part;
  std::string_view says;
};

constexpr std::string_view kQuantised =
    "these are quantised weights, which cannot be trained; take the model's bf16, fp16 or fp32 weights";
constexpr std::string_view kAdapter =
    "this is an adapter (LoRA), not a model; merge it into its base model (peft: merge_and_unload) and save that";
constexpr std::string_view kExperts =
    "this is a mixture of experts, which the scenario's model is not; take the config.json that belongs to the weights";
constexpr std::string_view kMultimodal =
    "this is a model of more than text; save its language model alone, with its own config.json";
constexpr std::string_view kArchitecture =
    "these are names of another architecture; llama, qwen2, qwen3, mistral, mixtral, qwen3_moe and olmoe are supported";
constexpr std::string_view kPublisher =
    "these are the publisher's own names, whose rows of q and k stand in another order; take the model as "
    "transformers stores it";
constexpr std::string_view kFused = "q, k, v or gate, up are stored as one (as Phi-3 does), which is not supported";
constexpr std::string_view kOtherNorms = "norms stand in other places (as in Gemma 2, OLMo 2), which is not supported";
constexpr std::string_view kOtherHead = "this is a classifier or a reward model; take the language model";
constexpr std::string_view kAhead = "layers that predict several tokens ahead are not supported";

// How other programs store a model, whatever the model. Names as AutoGPTQ and AutoAWQ, compressed-tensors, fp8 models
// of DeepSeek and Qwen, bitsandbytes, AQLM, MLX and peft write them.
constexpr Mark kStorage[] = {{".lora_", kAdapter},
                             {".qweight", kQuantised},
                             {".qzeros", kQuantised},
                             {".g_idx", kQuantised},
                             {".scales", kQuantised},
                             {".SCB", kQuantised},
                             {".weight_scale", kQuantised},
                             {".input_scale", kQuantised},
                             {".weight_packed", kQuantised},
                             {".absmax", kQuantised},
                             {".quant_map", kQuantised},
                             {".quant_state", kQuantised},
                             {".weight_zero_point", kQuantised},
                             {".codebooks", kQuantised},
                             {".k_scale", kQuantised},
                             {".v_scale", kQuantised}};

// What a model has that the supported ones have not.
constexpr Mark kModels[] = {{".experts.", kExperts},
                            {".block_sparse_moe.", kExperts},
                            {".shared_expert", kExperts},
                            {".mlp.gate.", kExperts},
                            {".mlp.router.", kExperts},
                            {"vision_", kMultimodal},
                            {"visual.", kMultimodal},
                            {"image_newline", kMultimodal},
                            {"multi_modal_projector", kMultimodal},
                            {"mm_projector", kMultimodal},
                            {"audio_", kMultimodal},
                            {"tok_embeddings.", kPublisher},
                            {".attention.wq.", kPublisher},
                            {".feed_forward.w1.", kPublisher},
                            {".qkv_proj.", kFused},
                            {".gate_up_proj.", kFused},
                            {".W_pack.", kFused},
                            {"_feedforward_layernorm.", kOtherNorms},
                            {"transformer.", kArchitecture},
                            {"gpt_neox.", kArchitecture},
                            {"decoder.layers.", kArchitecture},
                            {"encoder.layer", kArchitecture},
                            {"backbone.", kArchitecture},
                            {"embed_positions.", kArchitecture},
                            {"wpe.weight", kArchitecture},
                            {".self_attn.sinks", kArchitecture},
                            {"mtp.", kAhead},
                            {".eh_proj.", kAhead},
                            {"score.", kOtherHead},
                            {"classifier.", kOtherHead},
                            {"v_head.", kOtherHead}};

bool any_has(std::span<const std::string> names, std::string_view part) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

/// "" if no name has a mark.
std::string marked(std::span<const std::string> names, std::span<const Mark> marks) {
  for (const Mark& mark : marks)
    if (any_has(names, mark.part)) return std::string(mark.says);
  return "";
}

/// What a model has by these names that this one has not.
std::string marked_model(std::span<const std::string> names, const ModelConfig& config) {
  if (config.experts.count == 0) return marked(names, kModels);
  if (any_has(names, ".shared_expert")) return "experts that every token has are not supported";
  for (const Mark& mark : kModels)
    if (mark.says != kExperts && any_has(names, mark.part)) return std::string(mark.says);
  return "";
}

/// Experts that the names speak of: one more than the largest number behind "experts.".
std::int64_t experts_of(std::span<const std::string> names) { return one_more_than_largest(names, "experts."); }

std::string_view family_name(const ModelConfig& config) {
  return model_family_names()[static_cast<std::size_t>(config.family)];
}

/// Sides of the model's matrices are one key of config.json times a number.
struct Side {
  std::string_view key;
  std::int64_t unit = 1;  // head_dim, where the key counts heads
};

std::optional<Side> side_of(std::string_view name, bool rows, const ModelConfig& config) {
  const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  const bool input_side = !rows && !name.ends_with("bias") && !name.ends_with("norm.weight");
  if ((is("q_norm") || is("k_norm")) && !config.qk_norm_whole) return Side{"head_dim"};
  if (is(".gate.weight")) return Side{rows ? "num_experts" : "hidden_size"};
  if (is(".experts.")) {
    const bool outer = rows != (is("down_proj") || is(".w2."));
    const bool own_width = config.family == ModelFamily::qwen3_moe;
    return Side{!outer ? "hidden_size" : own_width ? "moe_intermediate_size" : "intermediate_size"};
  }
  if (is("norm.weight")) return Side{"hidden_size"};
  if (is("embed_tokens") || is("lm_head")) return Side{rows ? "vocab_size" : "hidden_size"};
  if (is("q_proj")) return input_side ? Side{"hidden_size"} : Side{"num_attention_heads", config.head_dim};
  if (is("k_proj") || is("v_proj"))
    return input_side ? Side{"hidden_size"} : Side{"num_key_value_heads", config.head_dim};
  if (is("o_proj")) return rows ? Side{"hidden_size"} : Side{"num_attention_heads", config.head_dim};
  if (is("gate_proj") || is("up_proj")) return Side{rows ? "intermediate_size" : "hidden_size"};
  if (is("down_proj")) return Side{rows ? "hidden_size" : "intermediate_size"};
  return std::nullopt;
}

std::string fitting_key(const Side& side, std::int64_t found, std::int64_t needed) {
  if (found % side.unit != 0)
    return fmt::format("{} x head_dim of config.json would have to be {}, not {}", side.key, found, needed);
  return fmt::format("{} = {} in config.json would fit, not {}{}", side.key, found / side.unit, needed / side.unit,
                     side.unit > 1 ? fmt::format(" (with head_dim = {})", side.unit) : "");
}

constexpr std::string_view kFirstLayerNames[] = {"layers.0.input_layernorm.weight", "layers.0.self_attn.q_proj.weight",
                                                 "embed_tokens.weight"};

/// What stands before "layers.0..." in other names where the model's own is missing; "" if there are none.
std::string prefix_of(std::span<const std::string> missing, std::span<const std::string> others) {
  for (const std::string_view known : kFirstLayerNames) {
    if (std::none_of(missing.begin(), missing.end(), [&](const std::string& name) { return name.ends_with(known); }))
      continue;
    for (const std::string& name : others)
      if (name.ends_with(known) && name.size() > known.size() && name[name.size() - known.size() - 1] == '.')
        return name.substr(0, name.size() - known.size());
  }
  return "";
}

std::string about_prefix(const std::string& prefix) {
  std::string_view cure = "save the model under the names of transformers";
  const auto has = [&](std::string_view part) { return prefix.find(part) != std::string::npos; };
  if (has("base_model."))
    cure = "they were saved from within peft: merge (merge_and_unload) and save what that returns";
  else if (has("module.") || has("_orig_mod."))
    cure = "they were saved from within a wrapper (DDP, FSDP, torch.compile): save the model inside it";
  else if (has("language_model") || has("text_model"))
    cure = "they are of a model of more than text: save its language model alone, with its own config.json";
  return fmt::format("the names begin with \"{}\" where \"model.\" is expected; {}", shown_name(prefix), cure);
}

std::string about_layers(std::int64_t found, const ModelConfig& config) {
  return fmt::format(
      "decoder layers: {} in the weights, {} in the scenario's model (num_hidden_layers in config.json, or layers in "
      "[model])",
      found, config.decoder_layers);
}

std::string about_experts(std::int64_t found, const ModelConfig& config) {
  return fmt::format("experts of a layer: {} in the weights, {} by config.json (num_experts)", found,
                     config.experts.count);
}

/// All experts of a layer as one tensor, where the layer has experts: then each of them stands there by itself too.
bool are_twice(std::string_view name, const ModelConfig& config) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  std::int64_t layer = -1;
  if (at != std::string_view::npos)
    std::from_chars(name.data() + at + kLayers.size(), name.data() + name.size(), layer);
  const bool is_packed = name.ends_with(".experts.gate_up_proj") || name.ends_with(".experts.down_proj");
  return is_packed && layer >= 0 && decoder_kind(config, layer) == LayerKind::experts;
}

}  // namespace

std::int64_t decoder_layers_of(std::span<const std::string> names) { return one_more_than_largest(names, "layers."); }

std::string why_unused(std::span<const std::string> unused, const ModelConfig& config) {
  if (const std::string says = marked(unused, kStorage); !says.empty()) return says;
  if (const std::string says = marked_model(unused, config); !says.empty()) return says;
  if (const std::int64_t layers = decoder_layers_of(unused); layers > config.decoder_layers)
    return about_layers(layers, config);
  if (const std::int64_t experts = experts_of(unused); experts > config.experts.count && config.experts.count > 0)
    return about_experts(experts, config);
  if (std::any_of(unused.begin(), unused.end(), [&](const std::string& name) { return are_twice(name, config); }))
    return "the experts of a layer stand there twice, as one tensor and one by one; keep one of the two";
  if (config.experts.count > 0 && any_has(unused, ".experts."))
    return "these layers are dense by config.json (mlp_only_layers, decoder_sparse_step); take the config.json that "
           "belongs to the weights";
  const auto is_type = [&](std::string_view type, std::string_view has) {
    return fmt::format(
        "models of model_type \"{}\" have {}, the scenario's is \"{}\"; take the config.json that belongs "
        "to the weights",
        type, has, family_name(config));
  };
  if (any_has(unused, ".o_proj.bias"))
    return "biases of the output projection (attention_bias = true) are not supported";
  if (any_has(unused, ".mlp.") && any_has(unused, "_proj.bias") && !any_has(unused, ".self_attn."))
    return "biases of the MLP (mlp_bias = true) are not supported";
  if (any_has(unused, ".q_proj.bias") || any_has(unused, ".k_proj.bias") || any_has(unused, ".v_proj.bias"))
    return is_type("qwen2", "q, k, v biases");
  if (any_has(unused, ".q_norm.") || any_has(unused, ".k_norm.")) return is_type("qwen3", "QK norms");
  return "they are of another model; take the config.json that belongs to the weights";
}

std::string why_missing(std::span<const std::string> missing, std::span<const std::string> unused,
                        std::int64_t decoder_layers, const ModelConfig& config) {
  if (const std::string says = marked(unused, kStorage); !says.empty()) return says;
  if (const std::string prefix = prefix_of(missing, unused); !prefix.empty()) return about_prefix(prefix);
  if (const std::string says = marked_model(unused, config); !says.empty()) return says;
  const auto all_have = [&](std::string_view part) {
    return std::all_of(missing.begin(), missing.end(),
                       [&](const std::string& name) { return name.find(part) != std::string::npos; });
  };
  if (all_have("lm_head."))
    return "without it this is no language model's head: if the embedding serves as the head, tie_word_embeddings = "
           "true "
           "in config.json says so; else take the weights of the ...ForCausalLM";
  if (decoder_layers < config.decoder_layers && all_have("layers.")) return about_layers(decoder_layers, config);
  if (config.experts.count > 0 && config.family != ModelFamily::mixtral && any_has(unused, ".block_sparse_moe."))
    return fmt::format(
        "models of model_type \"mixtral\" have experts of these names, the scenario's is \"{}\"; take the config.json that "
        "belongs to the weights",
        family_name(config));
  if (config.experts.count > 0 && (all_have(".mlp.") || all_have(".block_sparse_moe.")))
    return "the weights lack experts that config.json speaks of (num_experts, mlp_only_layers, decoder_sparse_step), or "
           "were not downloaded whole";
  if (all_have("_proj.bias"))
    return fmt::format(
        "model_type \"{}\" has q, k, v biases, these weights have none; take the config.json that belongs "
        "to the weights",
        family_name(config));
  if (all_have("_norm.weight") && all_have(".self_attn."))
    return fmt::format(
        "model_type \"{}\" has QK norms, these weights have none; take the config.json that belongs to "
        "the weights",
        family_name(config));
  return "the weights are of another model, or were not downloaded whole";
}

std::string why_other_shape(const ParameterTensor& tensor, const Shape& found, const ModelConfig& config) {
  const Shape needed = stored_shape(tensor);
  if (found.size() != needed.size()) return "the number of dimensions is another; the weights are of another model";
  if (needed.size() == 2 && found[0] == needed[1] && found[1] == needed[0])
    return "rows and columns are exchanged, as in a transposed copy; take the weights as transformers stores them";
  std::string text;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const std::optional<Side> side = found[i] == needed[i] ? std::nullopt : side_of(tensor.name, i == 0, config);
    if (side) text += (text.empty() ? "" : "; ") + fitting_key(*side, found[i], needed[i]);
  }
  return text + "; take the config.json that belongs to the weights";
}

std::string what_about_dtype(std::string_view dtype) {
  if (dtype == "F64") return "save them in one of these: model.to(torch.float32).save_pretrained(FOLDER) in PyTorch";
  return "integers and 8 bits or fewer are quantised weights, which cannot be trained; take the model's bf16, fp16 or "
         "fp32 weights";
}

}  // namespace penstock::exec
