#include "exec/cuda/templates.h"

#include <algorithm>
#include <stdexcept>

#include "exec/cuda/decoder.h"

namespace penstock::exec {
namespace {

void embedding(const Libraries& libraries, const TemplateBinding& op, Stream stream) {
  const ModelConfig& config = op.model->config;
  require_operand(op.tokens, "tokens");
  if (op.pass == Pass::forward) {
    require_operand(op.weights, "weights");
    require_operand(op.output, "output");
    embedding_forward(op.tokens, op.weights, op.output, op.batch, config.hidden, config.vocabulary, stream);
    libraries.mark("embedding", stream);
    return;
  }
  require_operand(op.output_gradient, "output gradient");
  require_operand(op.gradient, "gradient");
  clear_gradient_padding(op, stream);
  const GradientTarget gradient = gradient_at(op, 0);
  if (!gradient.accumulates) {
    embedding_gradient_zero(gradient, config.hidden, config.vocabulary, stream);
    libraries.mark("embedding gradient zero", stream);
  }
  const BoundRegions regions(op);
  embedding_backward(op.tokens, op.output_gradient, gradient, regions.int32(Activation::token_order),
                     regions.fp32(Activation::reduction), op.batch, config.hidden, config.vocabulary, stream);
  libraries.mark("embedding backward", stream);
}

/// Final norm, then chunk by chunk logits, loss, their gradient, and the gradients of projection and norm.
void head_loss(Libraries& libraries, const TemplateBinding& op, Stream stream) {
  const ModelConfig& config = op.model->config;
  const std::uint16_t* const projection =
      config.tied_embeddings ? op.tied_weights : op.weights + op.model->head.projection;
  require_operand(op.weights, "weights");
  require_operand(projection, "tied weights");
  require_operand(op.tokens, "tokens");
  require_operand(op.input, "input");
  require_operand(op.input_gradient, "input gradient");
  require_operand(op.gradient, "gradient");
  require_operand(op.loss, "loss");

  const BoundRegions regions(op);
  const LibraryWorkspace library = regions.library();
  const std::int64_t tokens = op.batch.tokens(), hidden = config.hidden, vocabulary = config.vocabulary;
  const std::int64_t chunk = regions.workspace_bytes(Activation::logits) / (2 * vocabulary);
  const auto epsilon = static_cast<float>(config.rms_epsilon);
  const std::uint16_t* const norm_weight = op.weights + op.model->head.final_norm;
  std::uint16_t* const normed = regions.bf16(Activation::normed);
  std::uint16_t* const d_normed = regions.bf16(Activation::d_normed);
  std::uint16_t* const logits = regions.bf16(Activation::logits);
  float* const row_stats = regions.fp32(Activation::row_stats);

  clear_gradient_padding(op, stream);
  rms_norm_forward(op.input, norm_weight, normed, tokens, hidden, epsilon, stream);
  libraries.mark("final norm", stream);
  GradientTarget d_projection = gradient_at(op, op.model->head.projection);
  for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
    const std::int64_t rows = std::min(chunk, tokens - begin);
    const std::uint16_t* const normed_rows = normed + begin * hidden;
    libraries.matmul.forward(normed_rows, projection, nullptr, nullptr, logits, rows, vocabulary, hidden, library,
                             stream);
    libraries.mark("logits", stream);
    loss_rows(logits, op.tokens, row_stats, begin, rows, op.batch.sequence_length, vocabulary,
              static_cast<float>(op.loss_scale), stream);
    libraries.mark("cross entropy", stream);
    libraries.matmul.weight_gradient(logits, normed_rows, d_projection, rows, vocabulary, hidden, library, stream);
    libraries.mark("projection weight gradient", stream);
    libraries.matmul.input_gradient(logits, projection, d_normed + begin * hidden, rows, vocabulary, hidden, library,
                                    stream);
    libraries.mark("projection input gradient", stream);
    d_projection.accumulates = true;
  }
  rms_norm_backward(op.input, norm_weight, d_normed, nullptr, op.input_gradient,
                    gradient_at(op, op.model->head.final_norm), regions.fp32(Activation::reduction), tokens, hidden,
                    epsilon, stream);
  libraries.mark("final norm backward", stream);
  loss_sum(row_stats, tokens, op.loss, stream);
  libraries.mark("loss sum", stream);
}

[[noreturn]] void no_such_pass(const char* kind) {
  throw std::logic_error(std::string("the ") + kind + " template has no such pass");
}

}  // namespace

CudaTemplates::CudaTemplates(bool deterministic_attention) : libraries_(std::make_unique<Libraries>()) {
  libraries_->deterministic_attention = deterministic_attention;
}
CudaTemplates::~CudaTemplates() = default;

void CudaTemplates::run(const TemplateBinding& binding, Stream stream) {
  require_operand(binding.model, "model");
  switch (binding.kind) {
    case LayerKind::embedding:
      if (binding.pass != Pass::forward && binding.pass != Pass::backward) no_such_pass("embedding");
      return embedding(*libraries_, binding, stream);
    case LayerKind::head:
      if (binding.pass != Pass::loss) no_such_pass("head");
      return head_loss(*libraries_, binding, stream);
    case LayerKind::decoder: break;
  }
  if (binding.pass == Pass::loss) no_such_pass("decoder");
  if (binding.pass == Pass::backward) return decoder_backward_cuda(*libraries_, binding, stream);
  decoder_forward_cuda(*libraries_, binding, stream);
}

void CudaTemplates::listen(KernelMarks* marks) { libraries_->marks = marks; }

std::vector<MatmulChoice> CudaTemplates::matmul_choices() const { return libraries_->matmul.choices(); }

}  // namespace penstock::exec
