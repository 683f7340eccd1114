#include "shared/model/config_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "shared/error.h"
#include "shared/json_reader.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxConfigBytes = 1 << 20;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;  // check_model_config has the real limits

constexpr std::array<std::string_view, 4> kFamilies = {"llama", "qwen2", "qwen3", "mistral"};  // as ModelFamily

/// config.json writes null where a key is meant to be absent.
bool given(JsonObject& object, const char* key) { return object.has(key) && !object.value(key).is_null(); }

std::int64_t size(JsonObject& object, const char* key) { return object.integer(key, 1, kMaxSize); }

void refuse_if_true(JsonObject& object, const char* key, const char* why) {
  if (given(object, key) && object.boolean(key)) object.fail(key, fmt::format("true is not supported: {}", why));
}

/// Keys that change the mathematics. Everything else that config.json may hold (dtype, token ids, initializer_range,
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
    refuse_if_true(object, "attention_bias", "it adds biases to q, k, v and the output projection");
  refuse_if_true(object, "mlp_bias", "the MLP has no biases here");
  refuse_if_true(object, "use_sliding_window", "attention is over the whole sequence");
  if (config.family == ModelFamily::mistral && given(object, "sliding_window") &&
      object.integer("sliding_window", 1, kMaxSize) < config.max_positions)
    object.fail("sliding_window",
                fmt::format("{} is shorter than max_position_embeddings = {}; attention is over the whole sequence",
                            shown(object.value("sliding_window")), config.max_positions));
  if (given(object, "layer_types"))
    for (const json& type : object.array("layer_types"))
      if (type != "full_attention")
        object.fail("layer_types", fmt::format("expected only \"full_attention\", found {}", shown(type)));
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

void read_llama3_scaling(JsonObject& rope, ModelConfig& config) {
  config.rope_factor = rope.number("factor", 1, 1e6);
  config.rope_low_freq_factor = rope.number("low_freq_factor", 1e-6, 1e6);
  config.rope_high_freq_factor = rope.number("high_freq_factor", 1e-6, 1e6);
  config.rope_original_positions = size(rope, "original_max_position_embeddings");
}

/// "rope_scaling" (transformers 4: may be null) or "rope_parameters" (transformers 5: holds rope_theta too).
void read_rope_object(JsonObject rope, ModelConfig& config) {
  // Older files call the key "type".
  const char* key = given(rope, "rope_type") ? "rope_type" : "type";
  if (given(rope, "partial_rotary_factor") && rope.number("partial_rotary_factor", 0, 1) < 1)
    rope.fail("partial_rotary_factor", fmt::format("expected 1, found {}", shown(rope.value("partial_rotary_factor"))));
  const std::string type = rope.text(key);
  if (type == "llama3") return read_llama3_scaling(rope, config);
  if (type != "default")
    rope.fail(
        key, fmt::format("expected \"default\" or \"llama3\", found \"{}\"; other frequency scalings are not supported",
                         type.substr(0, 60)));
}

void read_rope(JsonObject& object, ModelConfig& config) {
  std::optional<double> theta;
  if (given(object, "rope_theta")) theta = object.number("rope_theta", 1, 1e15);
  const bool scaling = given(object, "rope_scaling");
  if (given(object, "rope_parameters")) {
    if (scaling) object.fail("rope_scaling", "stands beside rope_parameters; keep one of the two");
    JsonObject parameters = object.object("rope_parameters");
    if (given(parameters, "rope_theta")) {
      const double inner = parameters.number("rope_theta", 1, 1e15);
      if (theta && *theta != inner)
        object.fail("rope_theta", fmt::format("{} here, but rope_parameters.rope_theta is {}", *theta, inner));
      theta = inner;
    }
    read_rope_object(parameters, config);
  } else if (scaling) {
    read_rope_object(object.object("rope_scaling"), config);
  }
  config.rope_theta = theta.value_or(10000.0);
}

void read_sizes(JsonObject& object, ModelConfig& config) {
  config.hidden = size(object, "hidden_size");
  config.intermediate = size(object, "intermediate_size");
  config.decoder_layers = size(object, "num_hidden_layers");
  config.heads = size(object, "num_attention_heads");
  // Hugging Face fills in as many as query heads for Llama and a constant for the others: ask there rather than guess.
  const bool may_lack_kv_heads = config.family == ModelFamily::llama;
  config.kv_heads =
      may_lack_kv_heads && !given(object, "num_key_value_heads") ? config.heads : size(object, "num_key_value_heads");
  config.vocabulary = size(object, "vocab_size");
  config.max_positions = size(object, "max_position_embeddings");
  if (given(object, "head_dim")) {
    config.head_dim = size(object, "head_dim");
  } else {
    // Qwen3's default is 128 whatever hidden / heads is.
    if (config.family == ModelFamily::qwen3) object.fail("head_dim", "is missing; Qwen3 models give it");
    if (config.hidden % config.heads != 0)
      object.fail("num_attention_heads", fmt::format("{} does not divide hidden_size = {}, and there is no head_dim",
                                                     config.heads, config.hidden));
    config.head_dim = config.hidden / config.heads;
  }
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
  config.name = model_name(path);
  config.family = static_cast<ModelFamily>(object.choice("model_type", kFamilies));
  config.qkv_bias = config.family == ModelFamily::qwen2;
  config.qk_norm = config.family == ModelFamily::qwen3;
  read_sizes(object, config);
  if (given(object, "tie_word_embeddings")) config.tied_embeddings = object.boolean("tie_word_embeddings");
  if (given(object, "rms_norm_eps")) config.rms_epsilon = object.number("rms_norm_eps", 0, 1);
  read_rope(object, config);
  refuse_unsupported(object, config);
  check_model_config(config, path.string());
  return config;
}

}  // namespace penstock
