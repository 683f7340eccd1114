// A model as the schedule sees it: a list of layers, each with its parameter tensors in one flat order.
//
// Layer 0 is the embedding, layers 1..n are decoder layers, layer n+1 is the head (final norm, output
// projection and loss). Embedding and head are layers like any other: they stream too.
//
// Flat order. hi, lo, m, v and gradient planes of a layer share one order of elements. Tensors that one
// matmul reads together (q, k, v; gate, up; the three biases) lie without a gap between them, so that they
// form one matrix; each such group starts at a multiple of kGroupAlignment elements. Elements between
// groups are padding: always zero, in states and in gradients, and never counted as parameters. Of a mixture of experts
// every expert's gate, up is such a group, then every expert's down, so that an expert's matrices lie at fixed distances.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

enum class ModelFamily { llama, qwen2, qwen3, mistral, mixtral, qwen3_moe, olmoe, ministral };
/// As config.json's model_type has them, in the order of the enum.
std::span<const std::string_view> model_family_names();

/// Frequency scalings of config.json (rotary_frequencies.h). `none`: llama3's, or none at all, as rope_factor says.
/// `longrope` and `proportional` are not computed (sequence_limits.h).
enum class RopeScaling { none, linear, dynamic, yarn, longrope, proportional };
/// As config.json has them, in the order of the enum.
std::span<const std::string_view> rope_scaling_names();

/// Of a model whose MLPs are mixtures of experts: a router, one matrix without bias, chooses `per_token` of `count` MLPs
/// for each token, and their outputs are added, each times its softmax probability.
struct Experts {
  std::int64_t count = 0;         // 0: every MLP is dense
  std::int64_t per_token = 0;     // "top k"
  std::int64_t intermediate = 0;  // width of one expert
  bool normalised = true;         // the chosen probabilities are divided by their sum
  double balance = 0;             // factor of the load-balancing loss; 0: there is none
  std::int64_t every = 1;         // which decoder layers have experts: of each so many the last one,
  std::vector<int> dense_layers;  // but for these, counted from 0, ascending

  bool operator==(const Experts&) const = default;
};

/// The figures of a Hugging Face config.json that decide shapes and mathematics.
struct ModelConfig {
  std::string name;  // the file's stem or folder, for people only
  ModelFamily family = ModelFamily::llama;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t decoder_layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // given apart or hidden / heads
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;
  bool tied_embeddings = false;
  bool qkv_bias = false;       // Qwen2, Qwen2.5
  bool qk_norm = false;        // Qwen3: RMSNorm of every q and k head before the rotary embedding
  bool qk_norm_whole = false;  // OLMoE: that of all heads of q, and of k, together
  double rms_epsilon = 1e-6;
  double rope_theta = 10000.0;
  // Scaled rotary frequencies. YaRN's beta_slow and beta_fast are low_freq_factor and high_freq_factor.
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1.0;  // 1 scales nothing
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;
  std::int64_t rope_original_positions = 8192;
  double rope_attention_factor = 1.0;  // of YaRN: of cosines and sines
  bool rope_truncate = true;           // of YaRN: its range of pairs is rounded outwards
  // Layers whose tokens attend to the last `sliding_window` ones only, themselves among them: decoder layers, counted
  // from 0, ascending. 0 if there are none.
  std::int64_t sliding_window = 0;
  std::vector<int> window_layers;
  Experts experts;
  // Not of config.json: the layers whose weights stay as they are, ascending (frozen_layers.h).
  std::vector<int> frozen_layers;

  bool operator==(const ModelConfig&) const = default;
};

/// `experts`: a decoder layer whose MLP is a mixture of experts. A model may have both kinds of decoder layers.
enum class LayerKind { embedding, decoder, head, experts };
inline constexpr std::array kLayerKinds{LayerKind::embedding, LayerKind::decoder, LayerKind::head, LayerKind::experts};
constexpr bool is_decoder(LayerKind kind) { return kind == LayerKind::decoder || kind == LayerKind::experts; }
/// Of a decoder layer, counted from 0.
LayerKind decoder_kind(const ModelConfig& config, std::int64_t decoder_layer);

/// One parameter tensor, row-major [rows, columns]; a vector has rows = 1.
struct ParameterTensor {
  std::string name;  // Hugging Face name, "model.layers.3.self_attn.q_proj.weight"
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t offset = 0;  // elements from the start of the layer's flat order

  std::int64_t elements() const { return rows * columns; }
  bool is_norm() const { return name.ends_with("norm.weight"); }
  bool is_bias() const { return name.ends_with(".bias"); }
};

/// Elements to which the start of each group of tensors is rounded up.
inline constexpr std::int64_t kGroupAlignment = 64;

struct Layer {
  LayerKind kind = LayerKind::decoder;
  int index = 0;
  std::vector<ParameterTensor> tensors;  // those whose state this layer owns
  std::int64_t parameters = 0;           // exact count of `tensors`, without padding
  std::int64_t state_elements = 0;       // length of the flat order of states, with padding
  // Length of the flat order of gradients. Equal to state_elements but for the head of a tied model, whose
  // gradient has the output projection behind its own tensors (the state of that matrix is layer 0's).
  std::int64_t gradient_elements = 0;
  bool trains = true;       // false: frozen; weights alone, no gradient and no other state
  std::int64_t window = 0;  // tokens to which one attends, itself among them; 0: all before it
};

/// A decoder layer's tensor groups by offset in the flat order (elements); -1 where the kind has none.
/// q, k, v form one matrix [(heads + 2 kv_heads) head_dim, hidden]; gate, up one matrix [2 intermediate, hidden]. Of
/// experts `gate_up` and `down` are the first one's, and each next one's lie a stride behind.
struct DecoderOffsets {
  std::int64_t input_norm = -1, qkv = -1, qkv_bias = -1, q_norm = -1, k_norm = -1, attention_output = -1,
               middle_norm = -1, router = -1, gate_up = -1, down = -1;
  std::int64_t gate_up_stride = 0, down_stride = 0;
};
/// The head's groups. `projection` is an offset in the gradient's flat order always, and in the state's unless tied.
struct HeadOffsets {
  std::int64_t final_norm = 0, projection = 0;
};

struct Model {
  ModelConfig config;
  std::vector<Layer> layers;    // decoder_layers + 2
  std::int64_t parameters = 0;  // exact, tied matrix counted once
  int lowest_trained = 0;       // the first layer that trains: backward ends with it
  DecoderOffsets decoder;       // of LayerKind::decoder
  DecoderOffsets experts;       // of LayerKind::experts
  HeadOffsets head;

  int layer_count() const { return static_cast<int>(layers.size()); }
  int head_index() const { return layer_count() - 1; }
  const DecoderOffsets& offsets(LayerKind kind) const { return kind == LayerKind::experts ? experts : decoder; }
  bool has(LayerKind kind) const;
  /// The first layer of its kind: they have one flat order. REQUIRES: has(kind).
  const Layer& first_of(LayerKind kind) const;
  /// Of the decoder layers, by elements of states.
  const Layer& largest_decoder() const;
  const Layer& smallest_decoder() const;
  /// Parameters that one token meets: of a mixture of experts only those of the experts that are chosen for it.
  std::int64_t active_parameters() const;
  /// Elements of the MLP's inner width that one token makes, in the widest layer.
  std::int64_t widest_mlp() const;
  /// Columns of the fused qkv output: (heads + 2 kv_heads) * head_dim.
  std::int64_t qkv_columns() const { return (config.heads + 2 * config.kv_heads) * config.head_dim; }
  std::int64_t query_columns() const { return config.heads * config.head_dim; }
  std::int64_t key_columns() const { return config.kv_heads * config.head_dim; }
};

/// Expert MLPs of a model, each of which is three tensors with a name, at most.
inline constexpr std::int64_t kMostExperts = 1 << 18;
/// Empty unless the model has more; else that it has.
std::string too_many_experts(const ModelConfig& config);

/// Lays out all tensors. REQUIRES: a config that `check_model_config` accepts.
Model make_model(const ModelConfig& config);

/// The largest size that a key of config.json may have: far above every model that exists, low enough that no product
/// of sizes leaves 64 bits. Keys that are no size are numbers of positions.
std::int64_t largest_size(std::string_view key);

/// Throws InputError naming the key at fault: non-positive or absurd sizes, heads not a multiple of kv_heads,
/// odd head_dim, and so on. `place` starts the message ("models/x.json").
void check_model_config(const ModelConfig& config, const std::string& place);

}  // namespace penstock
