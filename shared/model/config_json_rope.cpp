#include "shared/model/config_json_rope.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "shared/model/mistyped_keys.h"
#include "shared/model/model_families.h"
#include "shared/model/rotary_frequencies.h"
#include "shared/nearest_name.h"

namespace penstock {
namespace {

constexpr double kMaxFactor = 1e6;

/// Of the object: all that counts here for some type, or stands in published files.
constexpr std::string_view kKeys[] = {"rope_type",
                                      "type",
                                      "rope_theta",
                                      "factor",
                                      "original_max_position_embeddings",
                                      "partial_rotary_factor",
                                      "low_freq_factor",
                                      "high_freq_factor",
                                      "beta_fast",
                                      "beta_slow",
                                      "attention_factor",
                                      "mscale",
                                      "mscale_all_dim",
                                      "truncate",
                                      "short_factor",
                                      "long_factor",
                                      "mrope_section",
                                      "mrope_interleaved"};

bool given(JsonObject& object, const char* key) { return object.has(key) && !object.value(key).is_null(); }

std::int64_t positions(JsonObject& object, const char* key) { return object.integer(key, 1, largest_size(key)); }

/// One beside the scaling counts before one in it, as in transformers.
std::int64_t original_positions(JsonObject& object, JsonObject& rope, const ModelConfig& config) {
  constexpr const char* kKey = "original_max_position_embeddings";
  if (given(object, kKey)) return positions(object, kKey);
  return given(rope, kKey) ? positions(rope, kKey) : config.max_positions;
}

void read_llama3(JsonObject& object, JsonObject& rope, ModelConfig& config) {
  config.rope_factor = rope.number("factor", 1, kMaxFactor);
  config.rope_low_freq_factor = rope.number("low_freq_factor", 1e-6, kMaxFactor);
  config.rope_high_freq_factor = rope.number("high_freq_factor", 1e-6, kMaxFactor);
  config.rope_original_positions = original_positions(object, rope, config);
}

/// "default" if the object gives no type and nothing that scales.
std::string read_type(JsonObject& rope) {
  // Older files call the key "type"; some have both.
  const bool type = given(rope, "type"), rope_type = given(rope, "rope_type");
  if (type && rope_type && rope.value("type") != rope.value("rope_type"))
    rope.fail("type", fmt::format("{}, but rope_type is {}; keep one of the two", shown(rope.value("type")),
                                  shown(rope.value("rope_type"))));
  if (type || rope_type) return rope.text(rope_type ? "rope_type" : "type");
  if (given(rope, "factor")) rope.fail("rope_type", "is missing, but there is a factor; say what it scales");
  return "default";
}

RopeScaling scaling_of(JsonObject& rope, const std::string& type) {
  if (type == "su") return RopeScaling::longrope;  // its first name
  const auto names = rope_scaling_names();
  for (std::size_t i = 1; i < names.size(); ++i)
    if (names[i] == type) return static_cast<RopeScaling>(i);
  std::vector<std::string_view> known{"default", "llama3"};
  known.insert(known.end(), names.begin() + 1, names.end());
  rope.fail(given(rope, "rope_type") ? "rope_type" : "type",
            fmt::format("expected one of {}, found \"{}\"{}", fmt::join(known, ", "), type.substr(0, 60),
                        meant_choice(type, known)));
}

double factor(JsonObject& rope) { return rope.number("factor", 1e-6, kMaxFactor); }

void read_yarn(JsonObject& object, JsonObject& rope, ModelConfig& config) {
  // null, or 0 for both betas: what follows.
  const auto or_else = [&](const char* key, double otherwise) {
    const double value = given(rope, key) ? rope.number(key, 0, kMaxFactor) : 0;
    return value > 0 ? value : otherwise;
  };
  config.rope_original_positions = original_positions(object, rope, config);
  config.rope_factor =
      rope.has("factor") && rope.value("factor").is_null()
          ? static_cast<double>(config.max_positions) / static_cast<double>(config.rope_original_positions)
          : factor(rope);
  config.rope_low_freq_factor = or_else("beta_slow", 1);
  config.rope_high_freq_factor = or_else("beta_fast", 32);
  if (given(rope, "truncate")) config.rope_truncate = rope.boolean("truncate");
  config.rope_attention_factor =
      given(rope, "attention_factor")
          ? rope.number("attention_factor", 0, kMaxFactor)
          : yarn_attention_factor(config.rope_factor, or_else("mscale", 0), or_else("mscale_all_dim", 0));
}

/// Scalings by a factor of 1 are none, but for dynamic, which goes by the length.
void read_scaling(JsonObject& object, JsonObject& rope, RopeScaling scaling, ModelConfig& config) {
  ModelConfig scaled = config;
  scaled.rope_scaling = scaling;
  bool scales = true;
  if (scaling == RopeScaling::linear || scaling == RopeScaling::dynamic) {
    scaled.rope_factor = factor(rope);
    scales = scaling == RopeScaling::dynamic || scaled.rope_factor != 1;
  } else if (scaling == RopeScaling::yarn) {
    read_yarn(object, rope, scaled);
    scales = scaled.rope_factor != 1 || scaled.rope_attention_factor != 1;
  }
  if (scales) config = scaled;
}

/// `key`: under which of its two names the object stands. Returns its theta, if it has one.
std::optional<double> read_object(JsonObject& object, const char* key, ModelConfig& config) {
  const nlohmann::json& document = object.value(key);
  JsonObject rope = object.object(key);
  for (const auto& [name, value] : document.items())
    if (value.is_object())
      rope.fail(name.substr(0, 60).c_str(),
                "is a set of its own: sets that differ by the type of layer are not supported; expected one for all");
  refuse_mistyped(rope, document, kKeys);
  if (given(rope, "partial_rotary_factor") && rope.number("partial_rotary_factor", 0, 1) < 1)
    rope.fail("partial_rotary_factor", fmt::format("expected 1, found {}", shown(rope.value("partial_rotary_factor"))));
  const std::string type = read_type(rope);
  if (type == "llama3")
    read_llama3(object, rope, config);
  else if (type != "default")
    read_scaling(object, rope, scaling_of(rope, type), config);
  return given(rope, "rope_theta") ? std::optional(rope.number("rope_theta", 1, 1e15)) : std::nullopt;
}

}  // namespace

void read_rope(JsonObject& object, ModelConfig& config) {
  std::optional<double> theta;
  if (given(object, "rope_theta")) theta = object.number("rope_theta", 1, 1e15);
  const bool scaling = given(object, "rope_scaling"), parameters = given(object, "rope_parameters");
  if (scaling && parameters) object.fail("rope_scaling", "stands beside rope_parameters; keep one of the two");
  if (scaling || parameters) {
    const char* const key = scaling ? "rope_scaling" : "rope_parameters";
    const std::optional<double> inner = read_object(object, key, config);
    if (theta && inner && *theta != *inner)
      object.fail("rope_theta", fmt::format("{} here, but {}.rope_theta is {}", *theta, key, *inner));
    if (inner) theta = inner;
  }
  config.rope_theta = theta.value_or(family_defaults(config.family).rope_theta);
}

}  // namespace penstock
