#include "shared/model/model.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "shared/error.h"

namespace penstock {
namespace {

struct TensorShape {
  std::string_view name;  // behind the layer's prefix
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

std::int64_t align_up(std::int64_t elements) {
  return (elements + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
}

/// Appends groups of tensors to a layer: no gap within a group, an aligned start for each.
class LayerBuilder {
 public:
  LayerBuilder(LayerKind kind, int index, std::string prefix) : prefix_(std::move(prefix)) {
    layer_.kind = kind;
    layer_.index = index;
  }

  /// Returns the group's offset in the flat order.
  std::int64_t add_group(std::initializer_list<TensorShape> group) {
    const std::int64_t start = end_;
    for (const TensorShape& shape : group) {
      const ParameterTensor tensor{prefix_ + std::string(shape.name), shape.rows, shape.columns, end_};
      end_ += tensor.elements();
      layer_.parameters += tensor.elements();
      layer_.tensors.push_back(tensor);
    }
    end_ = align_up(end_);
    return start;
  }

  Layer take() {
    layer_.state_elements = layer_.gradient_elements = end_;
    return std::move(layer_);
  }

 private:
  std::string prefix_;
  Layer layer_;
  std::int64_t end_ = 0;
};

Layer make_embedding(const ModelConfig& config) {
  LayerBuilder builder(LayerKind::embedding, 0, "model.");
  builder.add_group({{"embed_tokens.weight", config.vocabulary, config.hidden}});
  return builder.take();
}

Layer make_decoder(const ModelConfig& config, int index, DecoderOffsets& offsets) {
  // Hugging Face counts decoder layers from 0.
  LayerBuilder builder(LayerKind::decoder, index, fmt::format("model.layers.{}.", index - 1));
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = config.heads * config.head_dim;
  const std::int64_t key = config.kv_heads * config.head_dim;
  offsets.input_norm = builder.add_group({{"input_layernorm.weight", 1, hidden}});
  offsets.qkv = builder.add_group({{"self_attn.q_proj.weight", query, hidden},
                                   {"self_attn.k_proj.weight", key, hidden},
                                   {"self_attn.v_proj.weight", key, hidden}});
  if (config.qkv_bias)
    offsets.qkv_bias = builder.add_group(
        {{"self_attn.q_proj.bias", 1, query}, {"self_attn.k_proj.bias", 1, key}, {"self_attn.v_proj.bias", 1, key}});
  if (config.qk_norm) {
    offsets.q_norm = builder.add_group({{"self_attn.q_norm.weight", 1, config.head_dim}});
    offsets.k_norm = builder.add_group({{"self_attn.k_norm.weight", 1, config.head_dim}});
  }
  offsets.attention_output = builder.add_group({{"self_attn.o_proj.weight", hidden, query}});
  offsets.middle_norm = builder.add_group({{"post_attention_layernorm.weight", 1, hidden}});
  offsets.gate_up = builder.add_group(
      {{"mlp.gate_proj.weight", config.intermediate, hidden}, {"mlp.up_proj.weight", config.intermediate, hidden}});
  offsets.down = builder.add_group({{"mlp.down_proj.weight", hidden, config.intermediate}});
  return builder.take();
}

Layer make_head(const ModelConfig& config, int index, HeadOffsets& offsets) {
  LayerBuilder builder(LayerKind::head, index, "");
  offsets.final_norm = builder.add_group({{"model.norm.weight", 1, config.hidden}});
  offsets.projection = align_up(config.hidden);
  if (!config.tied_embeddings) builder.add_group({{"lm_head.weight", config.vocabulary, config.hidden}});
  Layer layer = builder.take();
  layer.gradient_elements = align_up(offsets.projection + config.vocabulary * config.hidden);
  return layer;
}

constexpr std::int64_t kMostPositions = 1 << 30;

struct SizeLimit {
  std::string_view key;
  std::int64_t largest = 0;
};
constexpr SizeLimit kSizeLimits[] = {{"hidden_size", 1 << 18},      {"intermediate_size", 1 << 20},
                                     {"num_hidden_layers", 4096},   {"num_attention_heads", 4096},
                                     {"num_key_value_heads", 4096}, {"head_dim", 1024},
                                     {"vocab_size", 1 << 24},       {"max_position_embeddings", kMostPositions}};

}  // namespace

std::span<const std::string_view> model_family_names() {
  static constexpr std::string_view kNames[] = {"llama", "qwen2", "qwen3", "mistral"};
  return kNames;
}

std::span<const std::string_view> rope_scaling_names() {
  static constexpr std::string_view kNames[] = {"none", "linear", "dynamic", "yarn", "longrope", "proportional"};
  return kNames;
}

Model make_model(const ModelConfig& config) {
  Model model;
  model.config = config;
  model.layers.reserve(static_cast<std::size_t>(config.decoder_layers) + 2);
  model.layers.push_back(make_embedding(config));
  for (int index = 1; index <= config.decoder_layers; ++index)
    model.layers.push_back(make_decoder(config, index, model.decoder));
  model.layers.push_back(make_head(config, static_cast<int>(config.decoder_layers) + 1, model.head));
  for (const int layer : config.frozen_layers) model.layers[static_cast<std::size_t>(layer)].trains = false;
  while (model.lowest_trained < model.head_index() &&
         !model.layers[static_cast<std::size_t>(model.lowest_trained)].trains)
    ++model.lowest_trained;
  for (const Layer& layer : model.layers) model.parameters += layer.parameters;
  return model;
}

std::int64_t largest_size(std::string_view key) {
  for (const SizeLimit& limit : kSizeLimits)
    if (limit.key == key) return limit.largest;
  return kMostPositions;
}

void check_model_config(const ModelConfig& config, const std::string& place) {
  const std::pair<std::string_view, std::int64_t> sizes[] = {
      {"hidden_size", config.hidden},
      {"intermediate_size", config.intermediate},
      {"num_hidden_layers", config.decoder_layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocabulary},
      {"max_position_embeddings", config.max_positions},
      {"rope original_max_position_embeddings", config.rope_original_positions}};
  const auto fail = [&](std::string_view key, const std::string& what) {
    throw InputError(fmt::format("{}: {}: {}", place, key, what));
  };
  if (config.sliding_window < 0 || config.sliding_window > kMostPositions)
    fail("sliding_window",
         fmt::format("expected a whole number from 1 to {}, found {}", kMostPositions, config.sliding_window));
  for (const auto& [key, value] : sizes)
    if (value < 1 || value > largest_size(key))
      fail(key, fmt::format("expected a whole number from 1 to {}, found {}", largest_size(key), value));
  if (config.heads % config.kv_heads != 0)
    fail("num_key_value_heads",
         fmt::format("{} does not divide num_attention_heads = {}", config.kv_heads, config.heads));
  if (config.head_dim % 2 != 0)
    fail("head_dim",
         fmt::format("expected an even number (the rotary embedding turns pairs), found {}", config.head_dim));
  const auto check_range = [&](std::string_view key, double value, double low, double high) {
    if (!(value >= low && value <= high))
      fail(key, fmt::format("expected a number from {} to {}, found {}", low, high, value));
  };
  check_range("rms_norm_eps", config.rms_epsilon, 1e-12, 1e-1);
  check_range("rope_theta", config.rope_theta, 1.0, 1e12);
  check_range("rope factor", config.rope_factor, 1.0, 1e4);
  check_range("rope low_freq_factor", config.rope_low_freq_factor, 1e-3, 1e3);
  check_range("rope high_freq_factor", config.rope_high_freq_factor, 1e-3, 1e3);
  // The frequencies between the two are interpolated by (x - low) / (high - low).
  if (config.rope_high_freq_factor <= config.rope_low_freq_factor)
    fail("rope high_freq_factor", fmt::format("expected more than low_freq_factor = {}, found {}",
                                              config.rope_low_freq_factor, config.rope_high_freq_factor));
}

}  // namespace penstock
