#include "shared/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "shared/error.h"

namespace penstock {
namespace {

struct TensorShape {
  std::string name;  // behind the layer's prefix
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
      const ParameterTensor tensor{prefix_ + shape.name, shape.rows, shape.columns, end_};
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

/// What a family calls a mixture of experts' tensors, behind the layer's prefix.
struct ExpertNames {
  std::string_view block, gate, up, down;
};

ExpertNames expert_names(ModelFamily family) {
  if (family == ModelFamily::mixtral) return {"block_sparse_moe", "w1", "w3", "w2"};
  return {"mlp", "gate_proj", "up_proj", "down_proj"};
}

/// One group for each expert's gate, up, then one for each one's down.
void add_experts(LayerBuilder& builder, const ModelConfig& config, DecoderOffsets& offsets) {
  const auto [block, gate, up, down] = expert_names(config.family);
  const std::int64_t width = config.experts.intermediate, hidden = config.hidden;
  offsets.router = builder.add_group({{fmt::format("{}.gate.weight", block), config.experts.count, hidden}});
  const auto name = [block = block](std::int64_t expert, std::string_view part) {
    return fmt::format("{}.experts.{}.{}.weight", block, expert, part);
  };
  const auto add = [&](std::int64_t& first, std::int64_t& stride, std::int64_t expert, std::int64_t offset) {
    if (expert == 0) first = offset;
    if (expert == 1) stride = offset - first;
  };
  for (std::int64_t e = 0; e < config.experts.count; ++e)
    add(offsets.gate_up, offsets.gate_up_stride, e,
        builder.add_group({{name(e, gate), width, hidden}, {name(e, up), width, hidden}}));
  for (std::int64_t e = 0; e < config.experts.count; ++e)
    add(offsets.down, offsets.down_stride, e, builder.add_group({{name(e, down), hidden, width}}));
}

Layer make_decoder(const ModelConfig& config, int index, Model& model) {
  // Hugging Face counts decoder layers from 0.
  const LayerKind kind = decoder_kind(config, index - 1);
  DecoderOffsets& offsets = kind == LayerKind::experts ? model.experts : model.decoder;
  LayerBuilder builder(kind, index, fmt::format("model.layers.{}.", index - 1));
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
    const bool whole = config.qk_norm_whole;
    offsets.q_norm = builder.add_group({{"self_attn.q_norm.weight", 1, whole ? query : config.head_dim}});
    offsets.k_norm = builder.add_group({{"self_attn.k_norm.weight", 1, whole ? key : config.head_dim}});
  }
  offsets.attention_output = builder.add_group({{"self_attn.o_proj.weight", hidden, query}});
  offsets.middle_norm = builder.add_group({{"post_attention_layernorm.weight", 1, hidden}});
  if (kind == LayerKind::experts) {
    add_experts(builder, config, offsets);
    return builder.take();
  }
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
constexpr SizeLimit kSizeLimits[] = {{"hidden_size", 1 << 18},
                                     {"intermediate_size", 1 << 20},
                                     {"num_hidden_layers", 4096},
                                     {"num_attention_heads", 4096},
                                     {"num_key_value_heads", 4096},
                                     {"head_dim", 1024},
                                     {"vocab_size", 1 << 24},
                                     {"max_position_embeddings", kMostPositions},
                                     {"num_experts", 1024},
                                     {"num_experts_per_tok", 1024},
                                     {"moe_intermediate_size", 1 << 16},
                                     {"decoder_sparse_step", 4096}};

}  // namespace

std::span<const std::string_view> model_family_names() {
  static constexpr std::string_view kNames[] = {"llama",   "qwen2",     "qwen3", "mistral",
                                                "mixtral", "qwen3_moe", "olmoe", "ministral"};
  return kNames;
}

std::span<const std::string_view> rope_scaling_names() {
  static constexpr std::string_view kNames[] = {"none", "linear", "dynamic", "yarn", "longrope", "proportional"};
  return kNames;
}

std::string too_many_experts(const ModelConfig& config) {
  if (config.experts.count * config.decoder_layers <= kMostExperts) return "";
  return fmt::format("{} experts in each of {} layers are absurdly many; expected at most {} in all",
                     config.experts.count, config.decoder_layers, kMostExperts);
}

LayerKind decoder_kind(const ModelConfig& config, std::int64_t decoder_layer) {
  const Experts& experts = config.experts;
  const bool dense = experts.count == 0 || (decoder_layer + 1) % experts.every != 0 ||
                     std::binary_search(experts.dense_layers.begin(), experts.dense_layers.end(), decoder_layer);
  return dense ? LayerKind::decoder : LayerKind::experts;
}

bool Model::has(LayerKind kind) const {
  return std::any_of(layers.begin(), layers.end(), [kind](const Layer& layer) { return layer.kind == kind; });
}

const Layer& Model::first_of(LayerKind kind) const {
  return *std::find_if(layers.begin(), layers.end(), [kind](const Layer& layer) { return layer.kind == kind; });
}

namespace {
bool is_smaller(const Layer& a, const Layer& b) { return a.state_elements < b.state_elements; }
}  // namespace

const Layer& Model::largest_decoder() const {
  return *std::max_element(layers.begin() + 1, layers.end() - 1, is_smaller);
}

const Layer& Model::smallest_decoder() const {
  return *std::min_element(layers.begin() + 1, layers.end() - 1, is_smaller);
}

std::int64_t Model::active_parameters() const {
  const std::int64_t idle =
      3 * (config.experts.count - config.experts.per_token) * config.experts.intermediate * config.hidden;
  return parameters - idle * std::count_if(layers.begin(), layers.end(),
                                           [](const Layer& layer) { return layer.kind == LayerKind::experts; });
}

std::int64_t Model::widest_mlp() const {
  return std::max(has(LayerKind::decoder) ? config.intermediate : 0,
                  has(LayerKind::experts) ? config.experts.per_token * config.experts.intermediate : 0);
}

Model make_model(const ModelConfig& config) {
  Model model;
  model.config = config;
  model.layers.reserve(static_cast<std::size_t>(config.decoder_layers) + 2);
  model.layers.push_back(make_embedding(config));
  for (int index = 1; index <= config.decoder_layers; ++index)
    model.layers.push_back(make_decoder(config, index, model));
  model.layers.push_back(make_head(config, static_cast<int>(config.decoder_layers) + 1, model.head));
  for (const int layer : config.window_layers)
    model.layers[static_cast<std::size_t>(layer) + 1].window = config.sliding_window;
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

namespace {

/// Why a mixture of experts cannot be, beginning with the key at fault; empty if it can.
std::string wrong_experts(const ModelConfig& config) {
  const Experts& experts = config.experts;
  if (experts == Experts{}) return "";
  const std::pair<std::string_view, std::int64_t> sizes[] = {{"num_experts", experts.count},
                                                             {"num_experts_per_tok", experts.per_token},
                                                             {"moe_intermediate_size", experts.intermediate},
                                                             {"decoder_sparse_step", experts.every}};
  for (const auto& [key, value] : sizes)
    if (value < 1 || value > largest_size(key))
      return fmt::format("{}: expected a whole number from 1 to {}, found {}", key, largest_size(key), value);
  if (experts.per_token > experts.count)
    return fmt::format("num_experts_per_tok: {} experts are to be chosen of {}; expected at most {}", experts.per_token,
                       experts.count, experts.count);
  if (const std::string why = too_many_experts(config); !why.empty()) return "num_experts: " + why;
  if (!(experts.balance >= 0 && experts.balance <= 1e3))
    return fmt::format("router_aux_loss_coef: expected a number from 0 to 1000, found {}", experts.balance);
  for (std::size_t i = 0; i < experts.dense_layers.size(); ++i) {
    const int layer = experts.dense_layers[i];
    if (layer < 0 || layer >= config.decoder_layers)
      return fmt::format("mlp_only_layers: {} is no layer; the model has the layers 0 to {}", layer,
                         config.decoder_layers - 1);
    if (i > 0 && layer <= experts.dense_layers[i - 1])
      return fmt::format("mlp_only_layers: expected ascending layers, found {} behind {}", layer,
                         experts.dense_layers[i - 1]);
  }
  return "";
}

}  // namespace

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
  if ((config.sliding_window > 0) == config.window_layers.empty())
    fail("sliding_window",
         fmt::format("{} tokens, but {} layers have a window", config.sliding_window, config.window_layers.size()));
  for (int before = -1; const int layer : config.window_layers) {
    if (layer <= before || layer >= config.decoder_layers)
      fail("layers with a window",
           fmt::format("expected ascending ones below {}, found {} behind {}", config.decoder_layers, layer, before));
    before = layer;
  }
  for (const auto& [key, value] : sizes)
    if (value < 1 || value > largest_size(key))
      fail(key, fmt::format("expected a whole number from 1 to {}, found {}", largest_size(key), value));
  if (config.heads % config.kv_heads != 0)
    fail("num_key_value_heads",
         fmt::format("{} does not divide num_attention_heads = {}", config.kv_heads, config.heads));
  if (config.rope_scaling == RopeScaling::dynamic && config.head_dim == 2)
    fail("head_dim", "expected at least 4 with rope_type \"dynamic\", found 2");
  if (config.head_dim % 2 != 0)
    fail("head_dim",
         fmt::format("expected an even number (the rotary embedding turns pairs), found {}", config.head_dim));
  if (const std::string why = wrong_experts(config); !why.empty()) throw InputError(fmt::format("{}: {}", place, why));
  if (config.qk_norm_whole && !config.qk_norm) fail("qk_norm_whole", "true without qk_norm");
  const auto check_range = [&](std::string_view key, double value, double low, double high) {
    if (!(value >= low && value <= high))
      fail(key, fmt::format("expected a number from {} to {}, found {}", low, high, value));
  };
  check_range("rms_norm_eps", config.rms_epsilon, 1e-12, 1e-1);
  check_range("rope_theta", config.rope_theta, config.rope_scaling == RopeScaling::yarn ? 1.001 : 1.0, 1e12);
  check_range("rope factor", config.rope_factor, config.rope_scaling == RopeScaling::none ? 1.0 : 1e-6, 1e6);
  check_range("rope attention_factor", config.rope_attention_factor, 0.0, 1e6);
  check_range("rope low_freq_factor", config.rope_low_freq_factor, 1e-3, 1e3);
  check_range("rope high_freq_factor", config.rope_high_freq_factor, 1e-3, 1e3);
  // llama3 interpolates the frequencies between the two by (x - low) / (high - low).
  if (config.rope_scaling == RopeScaling::none && config.rope_high_freq_factor <= config.rope_low_freq_factor)
    fail("rope high_freq_factor", fmt::format("expected more than low_freq_factor = {}, found {}",
                                              config.rope_low_freq_factor, config.rope_high_freq_factor));
}

}  // namespace penstock
