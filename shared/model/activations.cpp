#include "shared/model/activations.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace penstock {
namespace {

constexpr std::int64_t kBf16 = 2;
constexpr std::int64_t kFp32 = 4;
constexpr std::int64_t kFp64 = 8;
constexpr std::int64_t kInt32 = 4;

std::int64_t align_up(std::int64_t bytes) { return (bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment; }

class RegionBuilder {
 public:
  void add(Activation activation, std::int64_t bytes) {
    region_.fields.push_back({activation, end_, bytes});
    end_ += align_up(bytes);
    region_.bytes = std::max(region_.bytes, end_);
  }
  /// Where the next field begins.
  std::int64_t end() const { return end_; }
  /// Fields from here on share bytes with those that lie behind `offset_bytes`.
  void go_back(std::int64_t offset_bytes) { end_ = align_up(offset_bytes); }
  Region take() { return std::move(region_); }

 private:
  Region region_;
  std::int64_t end_ = 0;
};

bool is_kept(const SavedActivation& saved, Keep keep) { return keep >= saved.kept_from; }

/// Keys and values of a chunk wait for its later chunks anyhow, so that of qkv its queries are left to be kept.
bool keeps_queries_alone(const SavedActivation& saved, BatchShape batch) {
  return saved.activation == Activation::qkv && batch.is_cut();
}

void add_saved(RegionBuilder& builder, const Model& model, LayerKind kind, const SavedActivation& saved,
               BatchShape batch, std::int64_t mlp_tokens) {
  if (const std::int64_t bytes = saved.bytes(model, kind, batch, mlp_tokens); bytes > 0)
    builder.add(saved.activation, bytes);
}

constexpr const SavedActivation& kGateUp =
    *std::find_if(std::begin(kSavedActivations), std::end(kSavedActivations),
                  [](const SavedActivation& saved) { return saved.activation == Activation::gate_up; });

/// What experts need to find their rows, and these rows.
void add_expert_rows(RegionBuilder& builder, const ModelConfig& config, Pass pass, std::int64_t tokens,
                     std::int64_t chunk_rows) {
  const Experts& experts = config.experts;
  builder.add(Activation::expert_order,
              (expert_order_elements(experts.count + 1) + 2 * expert_order_elements(chunk_rows)) * kInt32);
  builder.add(Activation::expert_input, chunk_rows * config.hidden * kBf16);
  builder.add(Activation::expert_output, chunk_rows * config.hidden * kBf16);
  if (!is_backward(pass)) return;
  builder.add(Activation::d_expert_weights, tokens * experts.per_token * kFp32);
  builder.add(Activation::d_router_logits, tokens * experts.count * kFp32);
}

/// Norms and MLP are dead while attention runs, and only attention reads its output's gradient and more of the
/// libraries' workspace than matmuls get: the former lie over the latter.
void add_decoder_fields(RegionBuilder& builder, const Model& model, LayerKind kind, Pass pass, BatchShape batch,
                        const LayoutOptions& options) {
  const std::int64_t tokens = batch.tokens(), chunk_tokens = mlp_rows(batch, options.chunking);
  const std::int64_t hidden = model.config.hidden;
  const auto [chunk, intermediate] = mlp_shape(model.config, kind, chunk_tokens);
  const auto add_unkept = [&](bool by_attention) {
    for (const SavedActivation& saved : kSavedActivations)
      if ((!is_kept(saved, options.keep) || keeps_queries_alone(saved, batch)) && saved.by_attention == by_attention)
        add_saved(builder, model, kind, saved, batch, chunk_tokens);
  };
  if (pass == Pass::forward) add_unkept(true);
  if (is_backward(pass)) builder.add(Activation::d_qkv, tokens * model.qkv_columns() * kBf16);
  const std::int64_t library = builder.end();
  if (options.library_bytes > 0) builder.add(Activation::library, options.library_bytes);
  if (is_backward(pass)) builder.add(Activation::d_attention, tokens * model.query_columns() * kBf16);

  builder.go_back(library + std::min(options.library_bytes, kLibraryWorkspaceBytes));
  builder.add(Activation::normed, tokens * hidden * kBf16);
  if (pass == Pass::forward) add_unkept(false);
  // A recompute needs both only where it also makes the next layer's input (block recompute).
  builder.add(Activation::product, chunk * intermediate * kBf16);
  if (pass != Pass::forward && mlp_recomputed_in_backward(batch, options))
    for (const SavedActivation& saved : kSavedActivations)
      if (saved.by_mlp) add_saved(builder, model, kind, saved, batch, chunk_tokens);
  if (kind == LayerKind::experts) add_expert_rows(builder, model.config, pass, tokens, chunk);
  if (!is_backward(pass)) return;
  builder.add(Activation::d_product, chunk * intermediate * kBf16);
  builder.add(Activation::d_gate_up, chunk * 2 * intermediate * kBf16);
  builder.add(Activation::d_normed, tokens * hidden * kBf16);
}

}  // namespace

const Field* Region::find(Activation activation) const {
  for (const Field& field : fields)
    if (field.activation == activation) return &field;
  return nullptr;
}

std::int64_t mlp_rows(BatchShape batch, const Chunking& chunking) {
  return chunking.mlp_tokens > 0 ? std::min(chunking.mlp_tokens, batch.tokens()) : batch.tokens();
}

std::int64_t loss_rows(BatchShape batch, const Chunking& chunking) {
  return std::min(chunking.loss_tokens > 0 ? chunking.loss_tokens : kDefaultLossTokens, batch.tokens());
}

int chunk_count(BatchShape sequence) {
  if (!sequence.is_cut()) return 1;
  return static_cast<int>((sequence.sequence_length + sequence.chunk_tokens - 1) / sequence.chunk_tokens);
}

BatchShape chunk_of(BatchShape sequence, int chunk) {
  if (!sequence.is_cut()) return sequence;
  BatchShape shape = sequence;
  shape.row = sequence.sequence_length;
  shape.past = chunk * sequence.chunk_tokens;
  shape.sequence_length = std::min(sequence.chunk_tokens, sequence.sequence_length - shape.past);
  if (sequence.squared_lengths <= 0) return shape;
  // Twice the integral of min(place, most seen) over a stretch of places; over the whole row it is squared_lengths.
  const auto length = static_cast<double>(sequence.sequence_length);
  const double seen = length - std::sqrt(std::max(0.0, length * length - sequence.squared_lengths));
  const auto until = [&](double place) {
    return place <= seen ? place * place : seen * seen + 2 * seen * (place - seen);
  };
  const auto begin = static_cast<double>(shape.past);
  shape.squared_lengths = until(begin + static_cast<double>(shape.sequence_length)) - until(begin);
  return shape;
}

std::int64_t kv_elements(const Model& model, std::int64_t tokens) { return tokens * 2 * model.key_columns(); }

std::int64_t boundary_bytes(const Model& model, BatchShape batch) {
  const ModelConfig& config = model.config;
  if (!balances(config)) return batch.tokens() * config.hidden * kBf16;
  return balance_offset_bytes(config, batch) + align_up(balance_elements(config) * kFp64);
}

bool mlp_recomputed_in_backward(BatchShape batch, const LayoutOptions& options) {
  return mlp_rows(batch, options.chunking) < batch.tokens() && !is_kept(kGateUp, options.keep);
}

Region kept_region(const Model& model, LayerKind kind, BatchShape batch, const LayoutOptions& options) {
  RegionBuilder builder;
  if (is_decoder(kind))
    for (const SavedActivation& saved : kSavedActivations) {
      if (!is_kept(saved, options.keep)) continue;
      if (keeps_queries_alone(saved, batch))
        builder.add(Activation::queries, batch.tokens() * model.query_columns() * kBf16);
      else
        add_saved(builder, model, kind, saved, batch, batch.tokens());
    }
  return builder.take();
}

Region recomputed_region(const Model& model, LayerKind kind, BatchShape batch, const LayoutOptions& options) {
  RegionBuilder builder;
  if (is_decoder(kind))
    for (const SavedActivation& saved : kSavedActivations) {
      if (is_kept(saved, options.keep)) continue;
      if (saved.by_mlp && mlp_recomputed_in_backward(batch, options)) continue;
      add_saved(builder, model, kind, saved, batch, batch.tokens());
    }
  return builder.take();
}

Region workspace_region(const Model& model, LayerKind kind, Pass pass, BatchShape batch, const LayoutOptions& options) {
  const ModelConfig& config = model.config;
  const std::int64_t tokens = batch.tokens();
  RegionBuilder builder;
  if (is_backward(pass) || is_loss(pass)) {
    const std::int64_t widest = std::max(config.hidden, model.qkv_columns());
    builder.add(Activation::reduction, kReductionRows * widest * kFp32);
  }
  if (is_decoder(kind)) {
    add_decoder_fields(builder, model, kind, pass, batch, options);
  } else if (kind == LayerKind::head) {
    builder.add(Activation::normed, tokens * config.hidden * kBf16);
    builder.add(Activation::d_normed, tokens * config.hidden * kBf16);
    builder.add(Activation::logits, loss_rows(batch, options.chunking) * config.vocabulary * kBf16);
    builder.add(Activation::row_stats, tokens * 4 * kFp32);
    if (options.library_bytes > 0)
      builder.add(Activation::library, std::min(options.library_bytes, kLibraryWorkspaceBytes));
  } else if (is_backward(pass)) {
    builder.add(Activation::token_order, 2 * tokens * kInt32);
  }
  return builder.take();
}

}  // namespace penstock
