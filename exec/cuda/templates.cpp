#include "exec/cuda/templates.h"

#include <algorithm>
#include <stdexcept>

#include "exec/cuda/decoder.h"
#include "exec/cuda/experts.h"
#include "exec/cuda/experts_mlp.h"

namespace penstock::exec {
namespace {

void embedding(const Libraries& libraries, const TemplateBinding& op, Stream stream) {
  const ModelConfig& config = op.model->config;
  if (op.pass == Pass::forward) {
    embedding_forward(op.get<TemplateOperand::tokens>(), op.get<TemplateOperand::weights>(),
                      op.get<TemplateOperand::output>(), op.batch, config.hidden, config.vocabulary, stream);
    if (balances(config))
      balance_begin(balance_at(op, op.get<TemplateOperand::output>()), balance_elements(config), stream);
    libraries.mark(KernelId::embedding, stream);
    return;
  }
  clear_gradient_padding(op, stream);
  const GradientTarget gradient = gradient_at(op, 0);
  if (!gradient.accumulates) {
    embedding_gradient_zero(gradient, config.hidden, config.vocabulary, stream);
    libraries.mark(KernelId::embedding_gradient_zero, stream);
  }
  const BoundRegions regions(op);
  embedding_backward(op.get<TemplateOperand::tokens>(), op.get<TemplateOperand::output_gradient>(), gradient,
                     regions.at<std::int32_t>(Activation::token_order), regions.at<float>(Activation::reduction),
                     op.batch, config.hidden, config.vocabulary, stream);
  libraries.mark(KernelId::embedding_backward, stream);
}

/// Final norm, then chunk by chunk logits, loss, their gradient, and the gradients of projection and norm, as far as the
/// pass makes them.
void head_loss(Libraries& libraries, const TemplateBinding& op, Stream stream) {
  const ModelConfig& config = op.model->config;
  const std::uint16_t* const projection = config.tied_embeddings
                                              ? op.get<TemplateOperand::tied_weights>()
                                              : op.get<TemplateOperand::weights>() + op.model->head.projection;

  const BoundRegions regions(op);
  const LibraryWorkspace library = library_workspace(regions);
  const std::int64_t tokens = op.batch.tokens(), hidden = config.hidden, vocabulary = config.vocabulary;
  const std::int64_t chunk = regions.workspace_bytes(Activation::logits) / (2 * vocabulary);
  const auto epsilon = static_cast<float>(config.rms_epsilon);
  const std::uint16_t* const norm_weight = op.get<TemplateOperand::weights>() + op.model->head.final_norm;
  std::uint16_t* const normed = regions.at<std::uint16_t>(Activation::normed);
  std::uint16_t* const d_normed = regions.at<std::uint16_t>(Activation::d_normed);
  std::uint16_t* const logits = regions.at<std::uint16_t>(Activation::logits);
  float* const row_stats = regions.at<float>(Activation::row_stats);

  const bool packed = op.batch.kind == BatchKind::packed;
  const Targets targets = packed ? Targets::of_labels(op.get<TemplateOperand::labels>(), op.batch.sequence_length)
                                 : Targets::of_windows(op.get<TemplateOperand::tokens>(), op.batch.sequence_length);
  const LossScale scale{static_cast<float>(op.loss_scale), op.get<TemplateOperand::trained_tokens>()};

  clear_gradient_padding(op, stream);
  rms_norm_forward(op.get<TemplateOperand::input>(), norm_weight, normed, tokens, hidden, epsilon, stream);
  libraries.mark(KernelId::final_norm, stream);
  GradientTarget d_projection = gradient_at(op, op.model->head.projection);
  for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
    const std::int64_t rows = std::min(chunk, tokens - begin);
    const std::uint16_t* const normed_rows = normed + begin * hidden;
    libraries.matmul.forward(normed_rows, projection, nullptr, nullptr, logits, rows, vocabulary, hidden, library,
                             stream);
    libraries.mark(KernelId::logits, stream);
    loss_rows(logits, targets, row_stats, begin, rows, vocabulary, scale, stream);
    libraries.mark(KernelId::cross_entropy, stream);
    if (contributes(op.pass)) {
      libraries.matmul.weight_gradient(logits, normed_rows, d_projection, rows, vocabulary, hidden, library, stream);
      libraries.mark(KernelId::projection_weight_gradient, stream);
    }
    if (op.pass == Pass::evaluate) continue;
    libraries.matmul.input_gradient(logits, projection, d_normed + begin * hidden, rows, vocabulary, hidden, library,
                                    stream);
    libraries.mark(KernelId::projection_input_gradient, stream);
    d_projection.accumulates = true;
  }
  if (op.pass != Pass::evaluate) {
    rms_norm_backward(op.get<TemplateOperand::input>(), norm_weight, d_normed, nullptr,
                      op.get<TemplateOperand::input_gradient>(), gradient_at(op, op.model->head.final_norm),
                      regions.at<float>(Activation::reduction), tokens, hidden, epsilon, stream);
    libraries.mark(KernelId::final_norm_backward, stream);
  }
  loss_sum(row_stats, tokens, op.get<TemplateOperand::loss>(), stream);
  if (balances(config)) {
    std::uint16_t* const gradient = op.get<TemplateOperand::input_gradient>();
    expert_balance_loss(config.experts, balance_at(op, op.get<TemplateOperand::input>()),
                        config.experts.balance * op.balance_share, op.get<TemplateOperand::loss>() + 1,
                        gradient == nullptr ? nullptr : balance_at(op, gradient), stream);
  }
  libraries.mark(KernelId::loss_sum, stream);
}

}  // namespace

CudaTemplates::CudaTemplates(bool deterministic_attention) : libraries_(std::make_unique<Libraries>()) {
  libraries_->deterministic_attention = deterministic_attention;
}
CudaTemplates::~CudaTemplates() = default;

void CudaTemplates::run(const TemplateBinding& binding, Stream stream) {
  binding.require_operands();
  switch (binding.kind) {
    case LayerKind::embedding: return embedding(*libraries_, binding, stream);
    case LayerKind::head: return head_loss(*libraries_, binding, stream);
    case LayerKind::decoder:
    case LayerKind::experts: break;
  }
  if (is_backward(binding.pass)) return decoder_backward_cuda(*libraries_, binding, stream);
  decoder_forward_cuda(*libraries_, binding, stream);
}

void CudaTemplates::listen(KernelMarks* marks) { libraries_->marks = marks; }

std::vector<MatmulChoice> CudaTemplates::matmul_choices() const { return libraries_->matmul.choices(); }

}  // namespace penstock::exec
