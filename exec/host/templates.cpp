#include "exec/host/templates.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>

#include "exec/host/decoder.h"
#include "exec/host/embedding.h"
#include "exec/host/gradient_sink.h"
#include "exec/host/loss.h"
#include "exec/host/storage.h"
#include "exec/optimizer/denormals.h"

namespace penstock::exec {
namespace {

void require(std::initializer_list<const void*> operands, const char* op) {
  for (const void* operand : operands)
    if (operand == nullptr) throw std::logic_error(std::string("host template: an operand of ") + op + " is missing");
}

/// A region and the memory that it describes.
struct BoundRegion {
  Region region;
  std::byte* memory = nullptr;

  std::byte* find(Activation activation) const {
    const Field* const field = region.find(activation);
    if (field == nullptr) return nullptr;
    if (memory == nullptr) throw std::logic_error("host template: a region that has fields is missing");
    return memory + field->offset_bytes;
  }
};

/// The regions of one op: what is saved lies in `kept`, `recomputed` or, for this op only, in `workspace`.
class BoundRegions {
 public:
  explicit BoundRegions(const TemplateBinding& b)
      : kept_{kept_region(*b.model, b.kind, b.batch, b.layout), b.kept},
        recomputed_{b.pass == Pass::forward ? Region{} : recomputed_region(*b.model, b.kind, b.batch, b.layout),
                    b.recomputed},
        workspace_{workspace_region(*b.model, b.kind, b.pass, b.batch, b.layout), b.workspace} {}

  template <class T>
  T* find(Activation activation) const {
    std::byte* place = kept_.find(activation);
    if (place == nullptr) place = recomputed_.find(activation);
    if (place == nullptr) place = workspace_.find(activation);
    return reinterpret_cast<T*>(place);
  }
  bool kept(Activation activation) const { return kept_.region.find(activation) != nullptr; }
  bool recomputed(Activation activation) const { return recomputed_.region.find(activation) != nullptr; }

 private:
  BoundRegion kept_, recomputed_, workspace_;
};

BoundGradient bound_gradient(const TemplateBinding& b, int layer) {
  return {b.gradient, b.gradient_type, b.accumulates,
          b.model->layers.at(static_cast<std::size_t>(layer)).gradient_elements};
}

void run_embedding(const TemplateBinding& b) {
  if (b.pass == Pass::forward) {
    require({b.tokens, b.weights, b.output}, "embedding forward");
    embedding_forward<Bf16Storage>(*b.model, b.batch, b.tokens, b.weights, b.output);
  } else if (b.pass == Pass::backward) {
    require({b.tokens, b.output_gradient, b.gradient}, "embedding backward");
    BoundGradient gradient = bound_gradient(b, 0);
    embedding_backward<Bf16Storage>(*b.model, b.batch, b.tokens, b.output_gradient, gradient);
    gradient.finish();
  } else {
    throw std::logic_error("host template: the embedding has only forward and backward");
  }
}

DecoderOperands<Bf16Storage> decoder_operands(const TemplateBinding& b, const BoundRegions& regions) {
  const std::int64_t tokens = b.batch.tokens(), chunk = b.layout.chunking.mlp_tokens;
  const auto tensor = [&regions](Activation activation) { return regions.find<std::uint16_t>(activation); };
  DecoderOperands<Bf16Storage> op;
  op.mlp_rows = chunk > 0 ? std::min(chunk, tokens) : tokens;
  op.weights = b.weights;
  op.input = b.input;
  op.output = b.output;
  op.qk_raw = tensor(Activation::qk_raw);
  op.qkv = tensor(Activation::qkv);
  op.attention = tensor(Activation::attention);
  op.lse = regions.find<float>(Activation::lse);
  op.middle = tensor(Activation::middle);
  op.gate_up = tensor(Activation::gate_up);
  op.gate_up_is_chunk = !regions.kept(Activation::gate_up) && !regions.recomputed(Activation::gate_up);
  op.normed = tensor(Activation::normed);
  op.product = tensor(Activation::product);
  op.d_product = tensor(Activation::d_product);
  op.d_gate_up = tensor(Activation::d_gate_up);
  op.d_normed = tensor(Activation::d_normed);
  op.d_attention = tensor(Activation::d_attention);
  op.d_qkv = tensor(Activation::d_qkv);
  op.output_gradient = b.output_gradient;
  op.input_gradient = b.input_gradient;
  return op;
}

DecoderProducts decoder_products(const TemplateBinding& b, const BoundRegions& regions) {
  if (b.pass == Pass::forward) return {};
  DecoderProducts makes;
  makes.qkv = regions.recomputed(Activation::qkv);
  makes.attention = regions.recomputed(Activation::attention);
  makes.middle = regions.recomputed(Activation::middle);
  makes.output = b.output != nullptr;
  makes.gate_up = regions.recomputed(Activation::gate_up) || (makes.output && !regions.kept(Activation::gate_up));
  return makes;
}

void run_decoder(const TemplateBinding& b) {
  if (b.pass == Pass::loss) throw std::logic_error("host template: a decoder layer has no loss");
  require({b.weights, b.input, b.workspace}, "a decoder layer");
  const BoundRegions regions(b);
  DecoderOperands<Bf16Storage> op = decoder_operands(b, regions);
  if (b.pass == Pass::backward) {
    require({b.output_gradient, b.input_gradient, b.gradient}, "decoder backward");
    BoundGradient gradient = bound_gradient(b, 1);  // all decoder layers have one flat order
    op.gradient = &gradient;
    decoder_backward(*b.model, b.batch, op);
    gradient.finish();
    return;
  }
  if (b.pass == Pass::forward) require({b.output}, "decoder forward");
  decoder_forward(*b.model, b.batch, decoder_products(b, regions), op);
}

void run_head(const TemplateBinding& b) {
  if (b.pass != Pass::loss) throw std::logic_error("host template: the head has only the loss pass");
  const bool tied = b.model->config.tied_embeddings;
  require({b.weights, b.tokens, b.input, b.workspace, b.input_gradient, b.gradient, b.loss}, "the head");
  if (tied) require({b.tied_weights}, "a tied head");
  const BoundRegions regions(b);
  const std::int64_t chunk = b.layout.chunking.loss_tokens;
  BoundGradient gradient = bound_gradient(b, b.model->head_index());
  HeadOperands<Bf16Storage> head;
  head.chunk_rows = std::min(chunk > 0 ? chunk : kDefaultLossTokens, b.batch.tokens());
  head.final_norm = b.weights + b.model->head.final_norm;
  head.projection = tied ? b.tied_weights : b.weights + b.model->head.projection;
  head.tokens = b.tokens;
  head.input = b.input;
  head.normed = regions.find<std::uint16_t>(Activation::normed);
  head.logits = regions.find<std::uint16_t>(Activation::logits);
  head.d_normed = regions.find<std::uint16_t>(Activation::d_normed);
  head.input_gradient = b.input_gradient;
  head.gradient = &gradient;
  head.loss_scale = b.loss_scale;
  *b.loss = head_loss(*b.model, b.batch, head);
  gradient.finish();
}

}  // namespace

void run_template_host(const TemplateBinding& binding) {
  require({binding.model}, "a template");
  const KeepDenormals keep;
  switch (binding.kind) {
    case LayerKind::embedding: run_embedding(binding); break;
    case LayerKind::decoder: run_decoder(binding); break;
    case LayerKind::head: run_head(binding); break;
  }
}

}  // namespace penstock::exec
