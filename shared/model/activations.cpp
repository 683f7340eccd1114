#include "shared/model/activations.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

constexpr std::int64_t kBf16 = 2;
constexpr std::int64_t kFp32 = 4;
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

std::int64_t mlp_chunk(BatchShape batch, const Chunking& chunking) {
  return chunking.mlp_tokens > 0 ? std::min(chunking.mlp_tokens, batch.tokens()) : batch.tokens();
}

std::int64_t loss_chunk(BatchShape batch, const Chunking& chunking) {
  return std::min(chunking.loss_tokens > 0 ? chunking.loss_tokens : kDefaultLossTokens, batch.tokens());
}

/// The tensors that backward reads, in the order in which forward makes them.
constexpr Activation kSaved[] = {Activation::qk_raw, Activation::qkv,    Activation::attention,
                                 Activation::lse,    Activation::middle, Activation::gate_up};

std::int64_t saved_bytes(const Model& model, Activation activation, BatchShape batch, std::int64_t mlp_rows) {
  const std::int64_t tokens = batch.tokens();
  switch (activation) {
    case Activation::qk_raw:
      return model.config.qk_norm ? tokens * (model.query_columns() + model.key_columns()) * kBf16 : 0;
    case Activation::qkv: return tokens * model.qkv_columns() * kBf16;
    case Activation::attention: return tokens * model.query_columns() * kBf16;
    case Activation::lse: return batch.sequences * model.config.heads * batch.sequence_length * kFp32;
    case Activation::middle: return tokens * model.config.hidden * kBf16;
    case Activation::gate_up: return mlp_rows * 2 * model.config.intermediate * kBf16;
    default: return 0;
  }
}

bool is_kept(Activation activation, Keep keep) {
  switch (keep) {
    case Keep::input: return false;
    // attention + lse spare the recompute the attention itself, middle its output projection.
    case Keep::input_attention:
      return activation == Activation::attention || activation == Activation::lse || activation == Activation::middle;
    case Keep::everything: return true;
  }
  return false;
}

void add_saved(RegionBuilder& builder, const Model& model, Activation activation, BatchShape batch,
               std::int64_t mlp_rows) {
  if (const std::int64_t bytes = saved_bytes(model, activation, batch, mlp_rows); bytes > 0)
    builder.add(activation, bytes);
}

/// True for what forward has made once attention has run; middle and the MLP come later.
bool is_made_by_attention(Activation activation) {
  return activation != Activation::middle && activation != Activation::gate_up;
}

/// Norms and MLP are dead while attention runs, and only attention reads its output's gradient and more of the
/// libraries' workspace than matmuls get: the former lie over the latter.
void add_decoder_fields(RegionBuilder& builder, const Model& model, Pass pass, BatchShape batch,
                        const LayoutOptions& options) {
  const std::int64_t tokens = batch.tokens(), chunk = mlp_chunk(batch, options.chunking);
  const std::int64_t hidden = model.config.hidden, intermediate = model.config.intermediate;
  const auto add_unkept = [&](bool by_attention) {
    for (const Activation activation : kSaved)
      if (!is_kept(activation, options.keep) && is_made_by_attention(activation) == by_attention)
        add_saved(builder, model, activation, batch, chunk);
  };
  if (pass == Pass::forward) add_unkept(true);
  if (pass == Pass::backward) builder.add(Activation::d_qkv, tokens * model.qkv_columns() * kBf16);
  const std::int64_t library = builder.end();
  if (options.library_bytes > 0) builder.add(Activation::library, options.library_bytes);
  if (pass == Pass::backward) builder.add(Activation::d_attention, tokens * model.query_columns() * kBf16);

  builder.go_back(library + std::min(options.library_bytes, kLibraryWorkspaceBytes));
  builder.add(Activation::normed, tokens * hidden * kBf16);
  if (pass == Pass::forward) add_unkept(false);
  // A recompute needs both only where it also makes the next layer's input (block recompute).
  builder.add(Activation::product, chunk * intermediate * kBf16);
  if (pass != Pass::forward && mlp_recomputed_in_backward(batch, options))
    add_saved(builder, model, Activation::gate_up, batch, chunk);
  if (pass != Pass::backward) return;
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

std::int64_t boundary_bytes(const Model& model, BatchShape batch) {
  return batch.tokens() * model.config.hidden * kBf16;
}

bool mlp_recomputed_in_backward(BatchShape batch, const LayoutOptions& options) {
  return mlp_chunk(batch, options.chunking) < batch.tokens() && !is_kept(Activation::gate_up, options.keep);
}

Region kept_region(const Model& model, LayerKind kind, BatchShape batch, const LayoutOptions& options) {
  RegionBuilder builder;
  if (kind == LayerKind::decoder)
    for (const Activation activation : kSaved)
      if (is_kept(activation, options.keep)) add_saved(builder, model, activation, batch, batch.tokens());
  return builder.take();
}

Region recomputed_region(const Model& model, LayerKind kind, BatchShape batch, const LayoutOptions& options) {
  RegionBuilder builder;
  if (kind == LayerKind::decoder)
    for (const Activation activation : kSaved) {
      if (is_kept(activation, options.keep)) continue;
      if (activation == Activation::gate_up && mlp_recomputed_in_backward(batch, options)) continue;
      add_saved(builder, model, activation, batch, batch.tokens());
    }
  return builder.take();
}

Region workspace_region(const Model& model, LayerKind kind, Pass pass, BatchShape batch, const LayoutOptions& options) {
  const ModelConfig& config = model.config;
  const std::int64_t tokens = batch.tokens();
  RegionBuilder builder;
  if (pass == Pass::backward || pass == Pass::loss) {
    const std::int64_t widest = std::max(config.hidden, model.qkv_columns());
    builder.add(Activation::reduction, kReductionRows * widest * kFp32);
  }
  if (kind == LayerKind::decoder) {
    add_decoder_fields(builder, model, pass, batch, options);
  } else if (kind == LayerKind::head) {
    builder.add(Activation::normed, tokens * config.hidden * kBf16);
    builder.add(Activation::d_normed, tokens * config.hidden * kBf16);
    builder.add(Activation::logits, loss_chunk(batch, options.chunking) * config.vocabulary * kBf16);
    builder.add(Activation::row_stats, tokens * 4 * kFp32);
    if (options.library_bytes > 0)
      builder.add(Activation::library, std::min(options.library_bytes, kLibraryWorkspaceBytes));
  } else if (pass == Pass::backward) {
    builder.add(Activation::token_order, 2 * tokens * kInt32);
  }
  return builder.take();
}

}  // namespace penstock
