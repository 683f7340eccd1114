#include "exec/cuda/decoder.h"

#include <algorithm>
#include <string>

#include "exec/cuda/chunk_keys.h"
#include "exec/cuda/experts_mlp.h"
#include "shared/error.h"
#include "shared/model/library_workspace.h"
#include "shared/model/rotary_frequencies.h"

namespace penstock::exec {
namespace {

/// One decoder op: shapes, places, and the steps that the passes are made of.
class DecoderOp {
 public:
  DecoderOp(Libraries& libraries, const TemplateBinding& binding, Stream stream)
      : libraries_(libraries),
        op_(binding),
        model_(*binding.model),
        offsets_(model_.offsets(binding.kind)),
        regions_(binding),
        library_(library_workspace(regions_)),
        stream_(stream),
        rotary_(make_rotary(model_, binding.batch)),
        tokens_(binding.batch.tokens()),
        hidden_(model_.config.hidden),
        intermediate_(model_.config.intermediate),
        chunk_rows_(mlp_rows(binding.batch, binding.layout.chunking)),
        epsilon_(static_cast<float>(model_.config.rms_epsilon)) {
    rotary_.q_norm = weights(offsets_.q_norm);
    rotary_.k_norm = weights(offsets_.k_norm);
    rotary_.document_starts = document_starts();
  }

  void forward();
  void backward();

 private:
  const std::uint16_t* weights(std::int64_t offset) const {
    return offset < 0 ? nullptr : op_.get<TemplateOperand::weights>() + offset;
  }
  GradientTarget gradient(std::int64_t offset) const { return gradient_at(op_, offset); }
  bool makes_gradients() const { return contributes(op_.pass); }
  /// Unless the layer is frozen.
  void weight_gradient(KernelId kernel, const std::uint16_t* d_y, const std::uint16_t* x, const GradientTarget& target,
                       std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
    if (!makes_gradients()) return;
    libraries_.matmul.weight_gradient(d_y, x, target, rows, outputs, inputs, library_, stream_);
    mark(kernel);
  }
  std::uint16_t* at(Activation activation) const { return regions_.at<std::uint16_t>(activation); }
  std::uint16_t* qk_raw() const { return model_.config.qk_norm ? at(Activation::qk_raw) : nullptr; }
  /// Rows of one chunk only, unless gate_up is saved whole.
  std::uint16_t* gate_up(std::int64_t begin) const {
    return at(Activation::gate_up) + (regions_.in_workspace(Activation::gate_up) ? 0 : begin * 2 * intermediate_);
  }
  /// Forward makes everything; a recompute makes what was not kept.
  bool makes(Activation activation) const { return op_.pass == Pass::forward || regions_.in_recomputed(activation); }

  bool is_experts() const { return op_.kind == LayerKind::experts; }
  bool packed() const { return op_.batch.kind == BatchKind::packed; }
  const std::int32_t* document_starts() const {
    return packed() ? op_.get<TemplateOperand::document_starts>() : nullptr;
  }
  void mark(KernelId kernel) const { libraries_.mark(kernel, stream_); }
  void norm(KernelId kernel, const std::uint16_t* x, std::int64_t weight_offset);
  /// nullptr unless kept without the rest of qkv.
  std::uint16_t* queries() const { return reinterpret_cast<std::uint16_t*>(regions_.find(Activation::queries)); }
  ChunkKeys keys() const {
    return {op_.get<TemplateOperand::kv>(), reinterpret_cast<float*>(op_.get<TemplateOperand::kv_gradient>()),
            op_.adds_keys, queries()};
  }
  void make_qkv();
  void hand_on_keys();
  void make_middle();
  void make_mlp();
  void make_gate_up(std::int64_t begin, std::int64_t rows);
  void backward_mlp();
  void backward_middle_norm();
  void backward_attention();
  void backward_qkv();

  Libraries& libraries_;
  const TemplateBinding& op_;
  const Model& model_;
  const DecoderOffsets& offsets_;
  const BoundRegions regions_;
  const LibraryWorkspace library_;
  const Stream stream_;
  Rotary rotary_;
  const std::int64_t tokens_, hidden_, intermediate_, chunk_rows_;
  const float epsilon_;
};

void DecoderOp::forward() {
  if (makes(Activation::qkv)) make_qkv();
  if (op_.pass == Pass::forward && op_.batch.is_cut()) hand_on_keys();
  if (makes(Activation::attention)) {
    libraries_.attention.forward(attention_spec(model_.config, op_.batch, op_.window), document_starts(),
                                 at(Activation::qkv), keys(), at(Activation::attention),
                                 regions_.at<float>(Activation::lse), library_, stream_);
    mark(op_.batch.is_cut() ? KernelId::chunk_attention : packed() ? KernelId::packed_attention : KernelId::attention);
  }
  if (makes(Activation::middle)) make_middle();
  make_mlp();
}

void DecoderOp::norm(KernelId kernel, const std::uint16_t* x, std::int64_t weight_offset) {
  rms_norm_forward(x, weights(weight_offset), at(Activation::normed), tokens_, hidden_, epsilon_, stream_);
  mark(kernel);
}

void DecoderOp::make_qkv() {
  norm(KernelId::input_norm, op_.get<TemplateOperand::input>(), offsets_.input_norm);
  libraries_.matmul.forward(at(Activation::normed), weights(offsets_.qkv), weights(offsets_.qkv_bias), nullptr,
                            at(Activation::qkv), tokens_, model_.qkv_columns(), hidden_, library_, stream_);
  mark(KernelId::qkv);
  rotary_forward(rotary_, at(Activation::qkv), qk_raw(), stream_);
  mark(model_.config.qk_norm ? KernelId::qk_norm_and_rotary : KernelId::rotary);
}

/// Keys and values of the chunk, behind those of the chunks before it; and its queries, where those alone are kept.
void DecoderOp::hand_on_keys() {
  copy_columns(at(Activation::qkv) + model_.query_columns(), model_.qkv_columns(),
               op_.get<TemplateOperand::kv>() + kv_elements(model_, op_.batch.past), kv_elements(model_, 1), tokens_,
               stream_);
  mark(KernelId::keys_and_values);
  if (queries() == nullptr) return;
  copy_columns(at(Activation::qkv), model_.qkv_columns(), queries(), model_.query_columns(), tokens_, stream_);
  mark(KernelId::queries);
}

void DecoderOp::make_middle() {
  libraries_.matmul.forward(at(Activation::attention), weights(offsets_.attention_output), nullptr,
                            op_.get<TemplateOperand::input>(), at(Activation::middle), tokens_, hidden_,
                            model_.query_columns(), library_, stream_);
  mark(KernelId::attention_output);
}

void DecoderOp::make_gate_up(std::int64_t begin, std::int64_t rows) {
  libraries_.matmul.forward(at(Activation::normed) + begin * hidden_, weights(offsets_.gate_up), nullptr, nullptr,
                            gate_up(begin), rows, 2 * intermediate_, hidden_, library_, stream_);
  mark(KernelId::gate_up);
}

void DecoderOp::make_mlp() {
  const bool output = op_.get<TemplateOperand::output>() != nullptr;
  const bool makes_gate_up = makes(Activation::gate_up) || (output && regions_.in_workspace(Activation::gate_up));
  if (!makes_gate_up && !output) return;
  if (makes_gate_up) norm(KernelId::middle_norm, at(Activation::middle), offsets_.middle_norm);
  if (is_experts()) return experts_forward_cuda(libraries_, op_, makes_gate_up, output, stream_);
  for (std::int64_t begin = 0; begin < tokens_; begin += chunk_rows_) {
    const std::int64_t rows = std::min(chunk_rows_, tokens_ - begin);
    if (makes_gate_up) make_gate_up(begin, rows);
    if (!output) continue;
    swiglu_forward(gate_up(begin), at(Activation::product), rows, intermediate_, stream_);
    mark(KernelId::swiglu);
    libraries_.matmul.forward(
        at(Activation::product), weights(offsets_.down), nullptr, at(Activation::middle) + begin * hidden_,
        op_.get<TemplateOperand::output>() + begin * hidden_, rows, hidden_, intermediate_, library_, stream_);
    mark(KernelId::down);
  }
  if (output) pass_balance_on(op_, op_.get<TemplateOperand::input>(), op_.get<TemplateOperand::output>(), stream_);
}

void DecoderOp::backward() {
  clear_gradient_padding(op_, stream_);
  norm(KernelId::middle_norm, at(Activation::middle), offsets_.middle_norm);
  if (is_experts())
    experts_backward_cuda(libraries_, op_, stream_);
  else
    backward_mlp();
  backward_middle_norm();
  backward_attention();
  backward_qkv();
  pass_balance_on(op_, op_.get<TemplateOperand::output_gradient>(), op_.get<TemplateOperand::input_gradient>(),
                  stream_);
}

/// output_gradient -> d_normed, with the gradients of down and gate_up.
void DecoderOp::backward_mlp() {
  Matmul& matmul = libraries_.matmul;
  GradientTarget d_down = gradient(offsets_.down), d_gate_up_weights = gradient(offsets_.gate_up);
  std::uint16_t* const product = at(Activation::product);
  std::uint16_t* const d_gate_up = at(Activation::d_gate_up);
  for (std::int64_t begin = 0; begin < tokens_; begin += chunk_rows_) {
    const std::int64_t rows = std::min(chunk_rows_, tokens_ - begin);
    const std::uint16_t* const d_output = op_.get<TemplateOperand::output_gradient>() + begin * hidden_;
    if (regions_.in_workspace(Activation::gate_up)) make_gate_up(begin, rows);
    matmul.input_gradient(d_output, weights(offsets_.down), at(Activation::d_product), rows, hidden_, intermediate_,
                          library_, stream_);
    mark(KernelId::down_input_gradient);
    swiglu_backward(gate_up(begin), at(Activation::d_product), product, d_gate_up, rows, intermediate_, stream_);
    mark(KernelId::swiglu_backward);
    weight_gradient(KernelId::down_weight_gradient, d_output, product, d_down, rows, hidden_, intermediate_);
    weight_gradient(KernelId::gate_up_weight_gradient, d_gate_up, at(Activation::normed) + begin * hidden_,
                    d_gate_up_weights, rows, 2 * intermediate_, hidden_);
    matmul.input_gradient(d_gate_up, weights(offsets_.gate_up), at(Activation::d_normed) + begin * hidden_, rows,
                          2 * intermediate_, hidden_, library_, stream_);
    mark(KernelId::gate_up_input_gradient);
    d_down.accumulates = d_gate_up_weights.accumulates = true;
  }
}

/// d_normed and output_gradient -> gradient of middle, at input_gradient, with that of the middle norm.
void DecoderOp::backward_middle_norm() {
  rms_norm_backward(at(Activation::middle), weights(offsets_.middle_norm), at(Activation::d_normed),
                    op_.get<TemplateOperand::output_gradient>(), op_.get<TemplateOperand::input_gradient>(),
                    gradient(offsets_.middle_norm), regions_.at<float>(Activation::reduction), tokens_, hidden_,
                    epsilon_, stream_);
  mark(KernelId::middle_norm_backward);
}

/// Gradient of middle, at input_gradient -> d_qkv of the projection's output.
void DecoderOp::backward_attention() {
  Matmul& matmul = libraries_.matmul;
  const std::int64_t columns = model_.query_columns();
  weight_gradient(KernelId::attention_output_weight_gradient, op_.get<TemplateOperand::input_gradient>(),
                  at(Activation::attention), gradient(offsets_.attention_output), tokens_, hidden_, columns);
  matmul.input_gradient(op_.get<TemplateOperand::input_gradient>(), weights(offsets_.attention_output),
                        at(Activation::d_attention), tokens_, hidden_, columns, library_, stream_);
  mark(KernelId::attention_output_input_gradient);
  const AttentionBackward tensors{document_starts(),
                                  queries() == nullptr ? at(Activation::qkv) : nullptr,
                                  at(Activation::attention),
                                  regions_.at<float>(Activation::lse),
                                  at(Activation::d_attention),
                                  at(Activation::d_qkv),
                                  keys()};
  const bool deterministic = libraries_.deterministic_attention;
  libraries_.attention.backward(attention_spec(model_.config, op_.batch, op_.window), tensors,
                                attention_backward_piece(model_, op_.batch, deterministic), deterministic, library_,
                                stream_);
  mark(op_.batch.is_cut() ? KernelId::chunk_attention_backward
       : packed()         ? KernelId::packed_attention_backward
                          : KernelId::attention_backward);
  GradientTarget d_q_norm, d_k_norm;
  if (model_.config.qk_norm) {
    d_q_norm = gradient(offsets_.q_norm);
    d_k_norm = gradient(offsets_.k_norm);
  }
  rotary_backward(rotary_, at(Activation::d_qkv), qk_raw(), d_q_norm, d_k_norm,
                  regions_.at<float>(Activation::reduction), stream_);
  mark(model_.config.qk_norm ? KernelId::qk_norm_and_rotary_backward : KernelId::rotary_backward);
}

/// d_qkv -> input_gradient, with the gradients of qkv, its bias and the input norm.
void DecoderOp::backward_qkv() {
  Matmul& matmul = libraries_.matmul;
  const std::int64_t columns = model_.qkv_columns();
  float* const partials = regions_.at<float>(Activation::reduction);
  if (offsets_.qkv_bias >= 0 && makes_gradients()) {
    column_sum(at(Activation::d_qkv), tokens_, columns, gradient(offsets_.qkv_bias), partials, stream_);
    mark(KernelId::qkv_bias_gradient);
  }
  norm(KernelId::input_norm, op_.get<TemplateOperand::input>(), offsets_.input_norm);
  weight_gradient(KernelId::qkv_weight_gradient, at(Activation::d_qkv), at(Activation::normed), gradient(offsets_.qkv),
                  tokens_, columns, hidden_);
  matmul.input_gradient(at(Activation::d_qkv), weights(offsets_.qkv), at(Activation::d_normed), tokens_, columns,
                        hidden_, library_, stream_);
  mark(KernelId::qkv_input_gradient);
  rms_norm_backward(op_.get<TemplateOperand::input>(), weights(offsets_.input_norm), at(Activation::d_normed),
                    op_.get<TemplateOperand::input_gradient>(), op_.get<TemplateOperand::input_gradient>(),
                    gradient(offsets_.input_norm), partials, tokens_, hidden_, epsilon_, stream_);
  mark(KernelId::input_norm_backward);
}

}  // namespace

Rotary make_rotary(const Model& model, BatchShape batch) {
  const ModelConfig& config = model.config;
  const std::vector<double> frequencies = rotary_frequencies(config, batch.row_tokens());
  if (frequencies.size() > kMostRotaryPairs)
    throw InputError("rotary embedding: head_dim " + std::to_string(config.head_dim) +
                     " is more than the GPU kernels take (" + std::to_string(2 * kMostRotaryPairs) + ")");
  Rotary rotary;
  rotary.tokens = batch.tokens();
  rotary.length = batch.sequence_length;
  rotary.past = batch.past;
  rotary.heads = config.heads;
  rotary.kv_heads = config.kv_heads;
  rotary.head_dim = config.head_dim;
  rotary.factor = static_cast<float>(config.rope_attention_factor);
  rotary.norm_is_whole = config.qk_norm_whole;
  rotary.epsilon = static_cast<float>(config.rms_epsilon);
  std::copy(frequencies.begin(), frequencies.end(), rotary.frequencies);
  return rotary;
}

void decoder_forward_cuda(Libraries& libraries, const TemplateBinding& binding, Stream stream) {
  DecoderOp(libraries, binding, stream).forward();
}

void decoder_backward_cuda(Libraries& libraries, const TemplateBinding& binding, Stream stream) {
  DecoderOp(libraries, binding, stream).backward();
}

}  // namespace penstock::exec
