#include "shared/model/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "shared/error.h"
#include "shared/harmless_text.h"
#include "shared/json_reader.h"
#include "shared/model/config_json_experts.h"
#include "shared/model/config_json_rope.h"
#include "shared/model/foreign_keys.h"
#include "shared/model/mistyped_keys.h"
#include "shared/model/model_families.h"
#include "shared/nearest_name.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxConfigBytes = 1 << 20;

/// config.json writes null where a key is meant to be absent.
bool given(JsonObject& object, const char* key) { return object.has(key) && !object.value(key).is_null(); }

std::int64_t size(JsonObject& object, const char* key) { return object.integer(key, 1, largest_size(key)); }

void refuse_if_true(JsonObject& object, const char* key, const char* why) {
  if (given(object, key) && object.boolean(key)) object.fail(key, fmt::format("true is not supported: {}", why));
}

/// Keys that decide shapes or mathematics and may be absent. Other keys are ignored, so that a slip in one of these
/// would silently be its default.
constexpr std::string_view kOptional[] = {"num_key_value_heads", "head_dim",        "max_position_embeddings",
                                          "tie_word_embeddings", "rms_norm_eps",    "rope_theta",
                                          "rope_scaling",        "rope_parameters", "original_max_position_embeddings",
                                          "hidden_act",          "attention_bias",  "mlp_bias",
                                          "attention_dropout",   "sliding_window",  "use_sliding_window",
                                          "max_window_layers",   "layer_types",     "partial_rotary_factor",
                                          "quantization_config"};

/// Whether the family has experts decides which keys count.
void refuse_mistyped_keys(const JsonObject& object, const json& document, bool experts) {
  std::vector<std::string_view> optional(std::begin(kOptional), std::end(kOptional));
  if (experts) optional.insert(optional.end(), std::begin(kOptionalExpertKeys), std::end(kOptionalExpertKeys));
  refuse_mistyped(object, document, optional);
}

/// Where a model of pictures and words has its language model.
void refuse_nested(const JsonObject& object, const json& document) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    if (!document.contains(key) || !document[key].is_object() || document.contains("hidden_size")) continue;
    const json& inner = document[key];
    const std::string type = inner.contains("model_type") && inner["model_type"].is_string()
                                 ? inner["model_type"].get<std::string>().substr(0, 60)
                                 : "";
    object.fail(key,
                fmt::format("is the language model of a larger model{}; write it to a config.json of its own and give "
                            "that",
                            type.empty() ? "" : fmt::format(" (model_type \"{}\")", type)));
  }
}

/// model_type is missing: what the file seems to be.
[[noreturn]] void refuse_untyped(const JsonObject& object, const json& document) {
  std::string hint = "is this the config.json of a model?";
  if (document.contains("architectures") && document["architectures"].is_array())
    for (const json& name : document["architectures"])
      if (name.is_string())
        if (const std::string type = type_of_architecture(name.get<std::string>()); !type.empty())
          hint = fmt::format("architectures has {}, which is \"model_type\": \"{}\": add it", shown(name), type);
  if (document.contains("n_layers") && document.contains("dim"))
    hint = "this is the params.json of a model's first release; take the config.json of its Hugging Face version";
  if (document.contains("tokenizer_class") && !document.contains("hidden_size"))
    hint = "this is the configuration of a tokenizer; take the model's config.json beside it";
  object.fail("model_type",
              fmt::format("is missing; expected one of {}; {}", fmt::join(model_family_names(), ", "), hint));
}

ModelFamily read_family(JsonObject& object, const json& document) {
  refuse_nested(object, document);
  if (!given(object, "model_type")) {
    std::vector<std::string> keys;
    for (const auto& [key, unused] : document.items())
      if (key != "model_type") keys.push_back(key);  // it may be null
    if (const std::string there = mistyped("model_type", keys); !there.empty())
      object.fail("model_type", fmt::format("is missing; there is {}: did you mean model_type?", there.substr(0, 60)));
    refuse_untyped(object, document);
  }
  const std::string type = object.text("model_type");
  for (std::size_t i = 0; i < model_family_names().size(); ++i)
    if (model_family_names()[i] == type) return static_cast<ModelFamily>(i);
  object.fail("model_type", fmt::format("\"{}\" cannot be read: {}", type.substr(0, 60), why_not_supported(type)));
}

/// Keys that change the mathematics, besides those of other families. Everything else that config.json may hold (dtype, token ids, initializer_range,
/// use_cache, ...) changes neither shapes nor values.
void refuse_unsupported(JsonObject& object, const ModelConfig& config) {
  if (given(object, "hidden_act")) {
    const std::string act = object.text("hidden_act");
    // "swish" is another name of the same function.
    if (act != "silu" && act != "swish")
      object.fail("hidden_act", fmt::format("expected \"silu\", found \"{}\"", act.substr(0, 60)));
  }
  // Llama's and Qwen3's switch adds a bias to the output projection too, which no published model uses.
  if (config.family != ModelFamily::qwen2)
    refuse_if_true(object, "attention_bias",
                   "it adds biases to q, k, v and the output projection; the nearest that can be read is qwen2, with "
                   "biases on q, k and v");
  refuse_if_true(object, "mlp_bias", "the MLP has no biases here");
  if (given(object, "attention_dropout") && object.number("attention_dropout", 0, 1) > 0)
    object.fail("attention_dropout", fmt::format("expected 0, found {}", shown(object.value("attention_dropout"))));
  if (given(object, "partial_rotary_factor") && object.number("partial_rotary_factor", 0, 1) < 1)
    object.fail("partial_rotary_factor",
                fmt::format("expected 1, found {}", shown(object.value("partial_rotary_factor"))));
  if (given(object, "quantization_config"))
    object.fail("quantization_config", "quantised weights cannot be trained; give the config.json of the bf16 model");
  if (given(object, "architectures"))
    for (const json& name : object.array("architectures"))
      if (!name.is_string() || !name.get<std::string>().ends_with("ForCausalLM"))
        object.fail("architectures",
                    fmt::format("expected a ...ForCausalLM (a language model head), found {}", shown(name)));
}

/// The layers to which "layer_types" gives a window.
std::vector<int> listed_windows(JsonObject& object, const ModelConfig& config) {
  const json& types = object.array("layer_types");
  if (static_cast<std::int64_t>(types.size()) != config.decoder_layers)
    object.fail("layer_types",
                fmt::format("{} entries, but num_hidden_layers = {}", types.size(), config.decoder_layers));
  std::vector<int> layers;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention")
      object.fail("layer_types",
                  fmt::format("expected \"full_attention\" or \"sliding_attention\", found {}", shown(types[i])));
    if (types[i] == "sliding_attention") layers.push_back(static_cast<int>(i));
  }
  return layers;
}

std::vector<int> layers_from(std::int64_t first, const ModelConfig& config) {
  std::vector<int> layers;
  for (std::int64_t i = first; i < config.decoder_layers; ++i) layers.push_back(static_cast<int>(i));
  return layers;
}

/// The layers with a window, if there is one. Mistral's are all alike: transformers reads no list there.
std::vector<int> windowed_layers(JsonObject& object, const ModelConfig& config) {
  const bool asked_for = given(object, "use_sliding_window") && object.boolean("use_sliding_window");
  const bool listed = given(object, "layer_types");
  const std::vector<int> by_list = listed ? listed_windows(object, config) : std::vector<int>();
  if (config.family == ModelFamily::mistral) return layers_from(0, config);
  // Flash attention obeys it, the others look at a mask that has none.
  if (config.family == ModelFamily::olmoe && given(object, "sliding_window"))
    object.fail("sliding_window", fmt::format("{}: whether transformers' olmoe has one hangs on its implementation of "
                                              "attention, so that it is not known what is meant; expected null",
                                              shown(object.value("sliding_window"))));
  // Nor do Mixtral's layers differ, which have one where the key is given; nor Qwen3-MoE's.
  if (expert_defaults(config.family) != nullptr) {
    const bool has_one = config.family == ModelFamily::qwen3_moe ? asked_for : given(object, "sliding_window");
    return has_one ? layers_from(0, config) : std::vector<int>();
  }
  if (listed) {
    if (!by_list.empty() && given(object, "use_sliding_window") && !asked_for)
      object.fail("layer_types", "gives layers a sliding window, but use_sliding_window is false; keep one of the two");
    return by_list;
  }
  if (config.family == ModelFamily::ministral) return layers_from(0, config);
  if (!asked_for) return {};
  return layers_from(given(object, "max_window_layers")
                         ? object.integer("max_window_layers", 0, largest_size("num_hidden_layers"))
                         : family_defaults(config.family).max_window_layers,
                     config);
}

void read_window(JsonObject& object, ModelConfig& config) {
  const std::vector<int> layers = windowed_layers(object, config);
  if (layers.empty()) return;
  const bool absent = !object.has("sliding_window");
  if (given(object, "sliding_window")) config.sliding_window = size(object, "sliding_window");
  if (absent) config.sliding_window = family_defaults(config.family).sliding_window;
  if (absent && config.sliding_window == 0)
    object.fail("sliding_window", "is missing, but there are layers that have one; give its tokens, or null");
  if (config.sliding_window == 0) return;
  if (config.family == ModelFamily::llama)
    object.fail(
        "layer_types",
        "give layers a sliding window, which transformers' llama does not have, so that it is not known what is "
        "meant; expected \"full_attention\" alone, or another model_type");
  config.window_layers = layers;
}

void read_kv_heads(JsonObject& object, ModelConfig& config) {
  const std::int64_t usual = family_defaults(config.family).kv_heads;
  if (given(object, "num_key_value_heads")) {
    config.kv_heads = size(object, "num_key_value_heads");
  } else if (object.has("num_key_value_heads") || usual == 0) {
    config.kv_heads = config.heads;
  } else {
    config.kv_heads = usual;
    if (config.heads % usual != 0)
      object.fail("num_key_value_heads",
                  fmt::format("is missing, and {}'s default of {} does not divide num_attention_heads = {}; give it",
                              model_family_names()[static_cast<std::size_t>(config.family)], usual, config.heads));
  }
}

void read_sizes(JsonObject& object, ModelConfig& config) {
  config.hidden = size(object, "hidden_size");
  config.intermediate = size(object, "intermediate_size");
  config.decoder_layers = size(object, "num_hidden_layers");
  config.heads = size(object, "num_attention_heads");
  config.vocabulary = size(object, "vocab_size");
  read_kv_heads(object, config);
  const FamilyDefaults& defaults = family_defaults(config.family);
  config.max_positions =
      given(object, "max_position_embeddings") ? size(object, "max_position_embeddings") : defaults.max_positions;
  if (given(object, "head_dim")) {
    config.head_dim = size(object, "head_dim");
  } else if (defaults.head_dim > 0) {
    config.head_dim = defaults.head_dim;
  } else {
    if (config.hidden % config.heads != 0)
      object.fail("num_attention_heads", fmt::format("{} does not divide hidden_size = {}, and there is no head_dim",
                                                     config.heads, config.hidden));
    config.head_dim = config.hidden / config.heads;
  }
  if (config.qk_norm_whole && config.head_dim * config.heads != config.hidden)
    object.fail("head_dim", fmt::format("{} heads of {} are not hidden_size = {}, over which {} normalises queries",
                                        config.heads, config.head_dim, config.hidden,
                                        model_family_names()[static_cast<std::size_t>(config.family)]));
}

/// The file's stem; where it is called config.json, as in every published model, its folder's name.
std::string model_name(const std::filesystem::path& path) {
  if (path.filename() != "config.json") return path.stem().string();
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  // Hugging Face's cache: models--OWNER--NAME/snapshots/COMMIT/config.json.
  if (folder.parent_path().filename() == "snapshots") folder = folder.parent_path().parent_path();
  return folder.has_filename() ? folder.filename().string() : path.stem().string();
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& path) {
  const json document = read_json_file(path, kMaxConfigBytes);
  JsonObject object(document, path.string());
  ModelConfig config;
  config.name = harmless(model_name(path));
  config.family = read_family(object, document);
  refuse_mistyped_keys(object, document, expert_defaults(config.family) != nullptr);
  config.qkv_bias = config.family == ModelFamily::qwen2;
  config.qk_norm_whole = config.family == ModelFamily::olmoe;
  config.qk_norm =
      config.qk_norm_whole || config.family == ModelFamily::qwen3 || config.family == ModelFamily::qwen3_moe;
  read_sizes(object, config);
  read_experts(object, config);
  if (given(object, "tie_word_embeddings")) config.tied_embeddings = object.boolean("tie_word_embeddings");
  config.rms_epsilon =
      given(object, "rms_norm_eps") ? object.number("rms_norm_eps", 0, 1) : family_defaults(config.family).rms_epsilon;
  read_rope(object, config);
  read_window(object, config);
  refuse_unsupported(object, config);
  refuse_foreign_keys(object, config);
  check_model_config(config, path.string());
  return config;
}

}  // namespace penstock
