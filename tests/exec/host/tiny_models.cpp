#include "tests/exec/host/tiny_models.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "exec/host/decoder.h"
#include "exec/host/embedding.h"
#include "exec/host/loss.h"
#include "exec/host/storage.h"
#include "exec/host/templates.h"

namespace penstock::exec {
namespace {

ModelConfig tiny_config() {
  ModelConfig config;
  config.name = "tiny";
  config.hidden = 18;
  config.intermediate = 21;
  config.decoder_layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 6;
  config.vocabulary = 19;
  config.max_positions = 64;
  config.rms_epsilon = 1e-5;
  config.rope_theta = 100.0;
  return config;
}

class DoubleSink final : public GradientSink<double> {
 public:
  explicit DoubleSink(std::vector<double>& sums) : sums_(sums) {}
  void add(std::int64_t offset, const double* part, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) sums_.at(static_cast<std::size_t>(offset + i)) += part[i];
  }

 private:
  std::vector<double>& sums_;
};

using Doubles = std::vector<double>;
Doubles doubles(std::int64_t count) { return Doubles(static_cast<std::size_t>(count), std::nan("")); }

/// Room for the fields of a region in double.
class DoubleRegion {
 public:
  void add(const Region& region) {
    for (const Field& field : region.fields) memory_[field.activation] = doubles(field.bytes / 2);
  }
  void add(Activation activation, std::int64_t bytes) { memory_[activation] = doubles(bytes / 2); }
  void set(OpMemory<DoubleStorage>& op) {
    for (auto& [activation, memory] : memory_) op.set(activation, memory.data());
  }

 private:
  std::map<Activation, Doubles> memory_;
};

/// Keys and values of a sequence that is cut, and their gradient, by layer.
struct ChunkedKeys {
  std::vector<Doubles> kv, gradient;

  ChunkedKeys(const Model& model, BatchShape sequence) {
    for (std::size_t layer = 0; sequence.is_cut() && layer < model.layers.size(); ++layer) {
      kv.push_back(doubles(kv_elements(model, sequence.sequence_length)));
      gradient.push_back(kv.back());
    }
  }
};

/// A micro-batch in double, from embedding to embedding.
class DoublePass {
 public:
  DoublePass(const Model& model, BatchShape batch, const Chunking& chunking, const std::vector<Doubles>& weights,
             const TinyRows& rows, ChunkedKeys& keys, bool is_last_chunk)
      : keys_(keys),
        is_last_chunk_(is_last_chunk),
        model_(model),
        batch_(batch),
        mlp_rows_(chunking.mlp_tokens > 0 ? std::min(chunking.mlp_tokens, batch.tokens()) : batch.tokens()),
        loss_rows_(chunking.loss_tokens > 0 ? std::min(chunking.loss_tokens, batch.tokens()) : batch.tokens()),
        weights_(weights),
        rows_(rows),
        saved_(model.layers.size()),
        boundary_(model.layers.size() + 1) {
    for (const LayerKind kind : {LayerKind::decoder, LayerKind::experts}) {
      const auto at = static_cast<std::size_t>(kind);
      for (const Pass pass : {Pass::forward, Pass::backward})
        scratch_[at].add(workspace_region(model, kind, pass, batch, {Keep::everything, {}, 0}));
      for (const SavedActivation& saved : kSavedActivations)
        if (saved.by_mlp) made_again_[at].add(saved.activation, saved.bytes(model, kind, batch, batch.tokens()));
    }
    normed_ = doubles(batch.tokens() * model.config.hidden);
    d_normed_ = normed_;
    logits_ = doubles(loss_rows_ * model.config.vocabulary);
  }

  /// Adds to the head's gradient of `result`, and to its loss.
  void run_forward(double loss_scale, WholeRun& result) {
    const auto head = static_cast<std::size_t>(model_.head_index());
    boundary_[1] = boundary();
    OpMemory<DoubleStorage> embedding;
    embedding.set(TemplateOperand::tokens, rows_.tokens.data() + batch_.past);
    embedding.set(TemplateOperand::weights, weights_[0].data());
    embedding.set(TemplateOperand::output, boundary_[1].data());
    embedding_forward(model_, batch_, embedding);
    for (std::size_t layer = 1; layer < head; ++layer) forward(layer);
    DoubleSink head_sink(result.gradients[head]);
    const HeadLoss made = loss(head_sink, loss_scale);
    result.loss += made.tokens;
    result.balance += made.balance;
  }

  /// Behind run_forward.
  void run_backward(bool gate_up_in_chunks, WholeRun& result) {
    const auto head = static_cast<std::size_t>(model_.head_index());
    for (std::size_t layer = head - 1; layer >= 1; --layer) {
      DoubleSink sink(result.gradients[layer]);
      OpMemory<DoubleStorage> op = operands(layer);
      if (gate_up_in_chunks) {
        made_again_[static_cast<std::size_t>(op.kind)].set(op);
        op.gate_up_is_chunk = true;
      }
      op.set(TemplateOperand::output_gradient, gradient_.data());
      op.set(TemplateOperand::input_gradient, gradient_.data());  // in place
      op.gradient = &sink;
      decoder_backward(model_, batch_, op);
    }
    DoubleSink sink(result.gradients[0]);
    OpMemory<DoubleStorage> op;
    op.set(TemplateOperand::tokens, rows_.tokens.data() + batch_.past);
    op.set(TemplateOperand::output_gradient, gradient_.data());
    op.gradient = &sink;
    embedding_backward(model_, batch_, op, true);
  }

 private:
  /// Rows of doubles, and what balances experts.
  Doubles boundary() const {
    const ModelConfig& config = model_.config;
    if (!balances(config)) return doubles(batch_.tokens() * config.hidden);
    return doubles(balance_offset_bytes(config, batch_, 8) / 8 + balance_elements(config));
  }

  OpMemory<DoubleStorage> operands(std::size_t layer) {
    OpMemory<DoubleStorage> op;
    op.kind = model_.layers[layer].kind;
    op.chunk_rows = mlp_rows_;
    op.window = model_.layers[layer].window;
    op.set(TemplateOperand::weights, weights_[layer].data());
    op.set(TemplateOperand::input, boundary_[layer].data());
    scratch_[static_cast<std::size_t>(op.kind)].set(op);
    saved_[layer].set(op);
    op.set(TemplateOperand::document_starts, rows_.document_starts.data());
    if (batch_.kind == BatchKind::packed) op.set(TemplateOperand::labels, rows_.labels.data() + batch_.past);
    if (!batch_.is_cut()) return op;
    op.set(TemplateOperand::kv, keys_.kv[layer].data());
    op.set(TemplateOperand::kv_gradient, keys_.gradient[layer].data());
    op.adds_keys = !is_last_chunk_;
    return op;
  }

  void forward(std::size_t layer) {
    saved_[layer].add(kept_region(model_, model_.layers[layer].kind, batch_, {Keep::everything, {}, 0}));
    boundary_[layer + 1] = boundary();
    OpMemory<DoubleStorage> op = operands(layer);
    op.set(TemplateOperand::output, boundary_[layer + 1].data());
    DecoderProducts makes;
    makes.kv = batch_.is_cut();
    decoder_forward(model_, batch_, makes, op);
  }

  HeadLoss loss(GradientSink<double>& sink, double loss_scale) {
    const auto head = static_cast<std::size_t>(model_.head_index());
    gradient_ = boundary();
    OpMemory<DoubleStorage> op;
    op.chunk_rows = loss_rows_;
    op.set(TemplateOperand::weights, weights_[head].data());
    op.set(TemplateOperand::tied_weights, weights_[0].data());
    op.set(TemplateOperand::tokens, rows_.tokens.data() + batch_.past);
    op.set(TemplateOperand::labels, rows_.labels.data() + batch_.past);
    op.set(TemplateOperand::input, boundary_[head].data());
    op.set(Activation::normed, normed_.data());
    op.set(Activation::logits, logits_.data());
    op.set(Activation::d_normed, d_normed_.data());
    op.set(TemplateOperand::input_gradient, gradient_.data());
    op.gradient = &sink;
    op.loss_scale = loss_scale;
    return head_loss(model_, batch_, op);
  }

  ChunkedKeys& keys_;
  const bool is_last_chunk_;
  const Model& model_;
  const BatchShape batch_;
  const std::int64_t mlp_rows_, loss_rows_;
  const std::vector<Doubles>& weights_;
  const TinyRows& rows_;
  std::vector<DoubleRegion> saved_;
  std::array<DoubleRegion, kLayerKinds.size()> scratch_, made_again_;  // by LayerKind
  std::vector<Doubles> boundary_;
  Doubles normed_, d_normed_, logits_;
  Doubles gradient_;
};

/// Bytes at a chosen distance behind an aligned address.
class ShiftedBytes {
 public:
  ShiftedBytes(std::int64_t bytes, std::size_t shift, int fill)
      : storage_(static_cast<std::size_t>(bytes) + shift + 256), bytes_(static_cast<std::size_t>(bytes)) {
    void* start = storage_.data();
    std::size_t space = storage_.size();
    std::align(64, storage_.size() - 192, start, space);
    start_ = static_cast<std::byte*>(start) + shift;
    std::memset(start_, fill, bytes_);
  }
  std::byte* get() { return bytes_ == 0 ? nullptr : start_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(get());
  }
  template <class T>
  std::vector<T> copy() {
    std::vector<T> values(bytes_ / sizeof(T));
    std::memcpy(values.data(), start_, values.size() * sizeof(T));
    return values;
  }

 private:
  std::vector<std::byte> storage_;
  std::size_t bytes_;
  std::byte* start_ = nullptr;
};

/// Buffers of one run through run_template_host, bound as the executor binds them.
class TemplatePass {
 public:
  TemplatePass(const Model& model, BatchShape batch, const std::vector<Doubles>& weights, const TemplateRun& options)
      : model_(model), batch_(batch), options_(options), layout_{options.keep, options.chunking, 0} {
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
      weights_.push_back(buffer(static_cast<std::int64_t>(weights[layer].size()) * 2));
      for (std::size_t i = 0; i < weights[layer].size(); ++i)
        weights_.back().as<std::uint16_t>()[i] = round_to_bf16(static_cast<float>(weights[layer][i]));
      gradients_.push_back(buffer(model.layers[layer].gradient_elements * element_bytes(options.gradient_type)));
      boundary_.push_back(buffer(boundary_bytes(model, batch)));
      kept_.push_back(buffer(kept_region(model, model.layers[layer].kind, batch, layout_).bytes));
    }
    for (const LayerKind kind : kLayerKinds)
      recomputed_.push_back(buffer(recomputed_region(model, kind, batch, layout_).bytes));
    gradient_.push_back(buffer(boundary_bytes(model, batch)));
    loss_.push_back({8 * loss_numbers(model.config), 0, 0xFF});
  }

  void run(const TinyRows& rows, bool accumulates, TemplateResult& result) {
    const int head = model_.head_index();
    rows_ = &rows;
    TemplateBinding b = binding(0, Pass::forward);
    b.set(TemplateOperand::tokens, rows.tokens.data());
    b.set(TemplateOperand::output, boundary(1));
    run_template_host(b);
    for (int layer = 1; layer < head; ++layer) {
      b = binding(layer, Pass::forward);
      b.set(TemplateOperand::input, boundary(layer));
      b.set(TemplateOperand::output, boundary(layer + 1));
      run_bound(b);
    }
    b = binding(head, Pass::loss);
    b.set(TemplateOperand::tokens, rows.tokens.data());
    b.set(TemplateOperand::input, boundary(head));
    b.set(TemplateOperand::input_gradient, gradient_[0].as<std::uint16_t>());
    b.accumulates = accumulates;
    b.set(TemplateOperand::loss, loss_[0].as<double>());
    run_bound(b);
    result.losses.push_back(*b.get<TemplateOperand::loss>());
    if (balances(model_.config)) result.balances.push_back(b.get<TemplateOperand::loss>()[1]);
    for (int layer = head - 1; layer >= 1; --layer) backward(layer, accumulates);
    result.input_gradient = gradient_[0].copy<std::uint16_t>();
    b = binding(0, Pass::backward);
    b.set(TemplateOperand::tokens, rows.tokens.data());
    b.set(TemplateOperand::output_gradient, gradient_[0].as<std::uint16_t>());
    b.accumulates = accumulates;
    run_bound(b);
  }

  void finish(TemplateResult& result) {
    for (ShiftedBytes& gradient : gradients_) result.gradients.push_back(gradient.copy<std::byte>());
    result.boundary.emplace_back();
    for (std::size_t layer = 1; layer < boundary_.size(); ++layer)
      result.boundary.push_back(boundary_[layer].copy<std::uint16_t>());
  }

 private:
  ShiftedBytes buffer(std::int64_t bytes) const { return {bytes, options_.shift_bytes, 0xFF}; }  // 0xFFFF is a NaN
  std::uint16_t* boundary(int layer) { return boundary_[static_cast<std::size_t>(layer)].as<std::uint16_t>(); }

  TemplateBinding binding(int layer, Pass pass) {
    const auto index = static_cast<std::size_t>(layer);
    TemplateBinding b;
    b.model = &model_;
    b.kind = model_.layers[index].kind;
    b.pass = pass;
    b.batch = batch_;
    b.layout = layout_;
    b.window = model_.layers[index].window;
    b.set(TemplateOperand::weights, weights_[index].as<std::uint16_t>());
    if (layer == model_.head_index() && model_.config.tied_embeddings)
      b.set(TemplateOperand::tied_weights, weights_[0].as<std::uint16_t>());
    b.set(TemplateOperand::kept, kept_[index].get());
    b.set(TemplateOperand::gradient, gradients_[index].get());
    if (batch_.kind == BatchKind::packed) {
      b.set(TemplateOperand::labels, rows_->labels.data());
      b.set(TemplateOperand::document_starts, rows_->document_starts.data());
      b.set(TemplateOperand::trained_tokens, &options_.trained_tokens);
    }
    b.gradient_type = options_.gradient_type;
    b.loss_scale = options_.loss_scale;
    return b;
  }

  /// With a workspace of exactly the size that the layout names.
  void run_bound(TemplateBinding b) {
    ShiftedBytes workspace = buffer(workspace_region(model_, b.kind, b.pass, batch_, layout_).bytes);
    b.set(TemplateOperand::workspace, workspace.get());
    run_template_host(b);
  }

  void backward(int layer, bool accumulates) {
    std::byte* const recomputed =
        recomputed_[static_cast<std::size_t>(model_.layers[static_cast<std::size_t>(layer)].kind)].get();
    const bool recomputes = recomputed != nullptr || options_.block_recompute;
    if (recomputes) {
      TemplateBinding b = binding(layer, Pass::recompute);
      b.set(TemplateOperand::input, boundary(layer));
      b.set(TemplateOperand::recomputed, recomputed);
      ShiftedBytes again = buffer(boundary_bytes(model_, batch_));
      if (options_.block_recompute) b.set(TemplateOperand::output, again.as<std::uint16_t>());
      run_bound(b);
      if (options_.block_recompute &&
          again.copy<std::byte>() != boundary_[static_cast<std::size_t>(layer) + 1].copy<std::byte>())
        throw std::runtime_error("layer " + std::to_string(layer) + ": recompute made another output than forward");
    }
    TemplateBinding b = binding(layer, Pass::backward);
    b.set(TemplateOperand::input, boundary(layer));
    b.set(TemplateOperand::recomputed, recomputed);
    b.set(TemplateOperand::output_gradient, gradient_[0].as<std::uint16_t>());
    b.set(TemplateOperand::input_gradient, gradient_[0].as<std::uint16_t>());
    b.accumulates = accumulates;
    run_bound(b);
  }

  const Model& model_;
  const BatchShape batch_;
  const TemplateRun& options_;
  const LayoutOptions layout_;
  const TinyRows* rows_ = nullptr;  // of the micro-batch that is run
  std::vector<ShiftedBytes> weights_, gradients_, boundary_, kept_, recomputed_, gradient_, loss_;
};

}  // namespace

ModelConfig tiny_llama() {
  ModelConfig config = tiny_config();
  config.rope_factor = 4.0;
  config.rope_low_freq_factor = 1.0;
  config.rope_high_freq_factor = 4.0;
  config.rope_original_positions = 32;
  return config;
}

ModelConfig tiny_qwen2() {
  ModelConfig config = tiny_config();
  config.family = ModelFamily::qwen2;
  config.tied_embeddings = true;
  config.qkv_bias = true;
  return config;
}

ModelConfig tiny_qwen3() {
  ModelConfig config = tiny_config();
  config.family = ModelFamily::qwen3;
  config.qk_norm = true;
  config.head_dim = 10;
  config.heads = 3;
  config.kv_heads = 1;
  return config;
}

ModelConfig tiny_qwen3_moe() {
  ModelConfig config = tiny_qwen3();
  config.family = ModelFamily::qwen3_moe;
  config.decoder_layers = 3;
  config.experts = {.count = 6, .per_token = 2, .intermediate = 5, .dense_layers = {1}};
  return config;
}

ModelConfig tiny_mixtral() {
  ModelConfig config = tiny_config();
  config.family = ModelFamily::mixtral;
  config.experts = {.count = 4, .per_token = 2, .intermediate = 5, .dense_layers = {}};
  return config;
}

ModelConfig tiny_olmoe() {
  ModelConfig config = tiny_config();
  config.family = ModelFamily::olmoe;
  config.heads = config.kv_heads = 3;
  config.qk_norm = config.qk_norm_whole = true;
  config.experts = {.count = 7, .per_token = 3, .intermediate = 5, .normalised = false, .dense_layers = {}};
  return config;
}

std::vector<std::vector<double>> tiny_weights(const Model& model) {
  std::mt19937 random(1);
  std::vector<std::vector<double>> weights;
  for (const Layer& layer : model.layers) {
    weights.emplace_back(static_cast<std::size_t>(layer.state_elements), 0.0);
    for (const ParameterTensor& tensor : layer.tensors) {
      const bool norm = tensor.name.find("norm") != std::string::npos;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const double uniform = static_cast<double>(random()) / 4294967296.0 - 0.5;
        const double value = norm ? 1.0 + 0.5 * uniform : 0.6 * uniform;
        weights.back()[static_cast<std::size_t>(tensor.offset + i)] =
            static_cast<double>(widen_bf16(round_to_bf16(static_cast<float>(value))));
      }
    }
  }
  return weights;
}

std::vector<std::int32_t> tiny_tokens(const Model& model, BatchShape batch) {
  std::mt19937 random(2);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < batch.sequences * (batch.sequence_length + 1); ++i)
    tokens.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(model.config.vocabulary)));
  return tokens;
}

namespace {

/// A pass for each chunk, all of which have run forward.
std::vector<std::unique_ptr<DoublePass>> forward_in_double(const Model& model, BatchShape batch,
                                                           const Chunking& chunking,
                                                           const std::vector<std::vector<double>>& weights,
                                                           const TinyRows& rows, double loss_scale, ChunkedKeys& keys,
                                                           WholeRun& result) {
  for (const Layer& layer : model.layers)
    result.gradients.emplace_back(static_cast<std::size_t>(layer.gradient_elements));
  std::vector<std::unique_ptr<DoublePass>> passes;
  for (int chunk = 0, chunks = chunk_count(batch); chunk < chunks; ++chunk) {
    passes.push_back(std::make_unique<DoublePass>(model, chunk_of(batch, chunk), chunking, weights, rows, keys,
                                                  chunk + 1 == chunks));
    passes.back()->run_forward(loss_scale, result);
  }
  return passes;
}

}  // namespace

WholeRun run_in_double(const Model& model, BatchShape batch, const Chunking& chunking,
                       const std::vector<std::vector<double>>& weights, const TinyRows& rows, double loss_scale,
                       bool gate_up_in_chunks) {
  WholeRun result;
  ChunkedKeys keys(model, batch);
  const auto passes = forward_in_double(model, batch, chunking, weights, rows, loss_scale, keys, result);
  for (auto pass = passes.rbegin(); pass != passes.rend(); ++pass) (*pass)->run_backward(gate_up_in_chunks, result);
  return result;
}

double loss_in_double(const Model& model, BatchShape batch, const Chunking& chunking,
                      const std::vector<std::vector<double>>& weights, const TinyRows& rows, double loss_scale) {
  WholeRun result;
  ChunkedKeys keys(model, batch);
  forward_in_double(model, batch, chunking, weights, rows, 1.0, keys, result);
  return loss_scale * result.loss + model.config.experts.balance * result.balance;
}

TemplateResult run_templates(const Model& model, BatchShape batch, const std::vector<std::vector<double>>& weights,
                             const std::vector<TinyRows>& micro_batches, const TemplateRun& options) {
  TemplatePass pass(model, batch, weights, options);
  TemplateResult result;
  for (std::size_t m = 0; m < micro_batches.size(); ++m) pass.run(micro_batches[m], m > 0, result);
  pass.finish(result);
  return result;
}

std::vector<double> widened_gradient(const std::vector<std::byte>& gradient, ElementType type) {
  std::vector<double> values(gradient.size() / static_cast<std::size_t>(element_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::bf16) {
      std::uint16_t half = 0;
      std::memcpy(&half, gradient.data() + 2 * i, 2);
      values[i] = static_cast<double>(widen_bf16(half));
    } else {
      float value = 0;
      std::memcpy(&value, gradient.data() + 4 * i, 4);
      values[i] = static_cast<double>(value);
    }
  }
  return values;
}

}  // namespace penstock::exec
