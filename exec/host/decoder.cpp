#include "exec/host/decoder.h"

#include <algorithm>

#include "exec/host/attention.h"
#include "exec/host/balance.h"
#include "exec/host/experts.h"
#include "exec/host/matmul.h"
#include "exec/host/rmsnorm.h"
#include "exec/host/rotary.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"
#include "exec/host/swiglu.h"
#include "exec/host/widened.h"

namespace penstock::exec {
namespace {

/// One decoder op: the shapes, and the steps that forward and backward are made of.
template <class Storage>
class DecoderOp {
 public:
  DecoderOp(const Model& model, BatchShape batch, const OpMemory<Storage>& op)
      : model_(model),
        offsets_(model.offsets(op.kind)),
        batch_(batch),
        spec_(attention_spec(model.config, batch, op.window)),
        op_(op),
        tokens_(batch.tokens()),
        hidden_(model.config.hidden),
        intermediate_(model.config.intermediate) {}

  void forward(const DecoderProducts& makes) const;
  void backward() const;

 private:
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;

  const Element* weights(std::int64_t offset) const {
    return offset < 0 ? nullptr : at(TemplateOperand::weights) + offset;
  }
  Element* at(TemplateOperand operand) const { return op_.at(operand); }
  Element* at(Activation activation) const { return op_.at(activation); }
  Real* lse() const { return op_.template at<Real>(Activation::lse); }
  bool packed() const { return batch_.kind == BatchKind::packed; }
  const std::int32_t* document_starts() const {
    return packed() ? op_.template at<std::int32_t>(TemplateOperand::document_starts) : nullptr;
  }
  KernelId rotary_kernel(bool backward) const {
    if (model_.config.qk_norm) return backward ? KernelId::qk_norm_and_rotary_backward : KernelId::qk_norm_and_rotary;
    return backward ? KernelId::rotary_backward : KernelId::rotary;
  }
  void mark(KernelId kernel) const { after(op_.clock, kernel); }
  Element* gate_up_rows(std::int64_t begin) const {
    return at(Activation::gate_up) + (op_.gate_up_is_chunk ? 0 : begin * 2 * intermediate_);
  }
  void norm(const Element* x, std::int64_t offset) const {
    rmsnorm<Storage>(x, weights(offset), at(Activation::normed), tokens_, hidden_, model_.config.rms_epsilon);
  }
  KernelId attention_kernel(bool backward) const {
    if (spec_.is_chunk) return backward ? KernelId::chunk_attention_backward : KernelId::chunk_attention;
    if (packed()) return backward ? KernelId::packed_attention_backward : KernelId::packed_attention;
    return backward ? KernelId::attention_backward : KernelId::attention;
  }
  ChunkKeys<Storage> keys() const {
    return {at(TemplateOperand::kv), op_.template at<Real>(TemplateOperand::kv_gradient), op_.adds_keys,
            at(Activation::queries)};
  }
  bool is_experts() const { return op_.kind == LayerKind::experts; }
  /// middle -> normed
  void middle_norm() const {
    norm(at(Activation::middle), offsets_.middle_norm);
    mark(KernelId::middle_norm);
  }
  void make_qkv() const;
  void hand_on_keys() const;
  void copy_columns(std::int64_t begin, std::int64_t columns, Element* to) const;
  void make_middle() const;
  void make_mlp(const DecoderProducts& makes) const;
  void make_gate_up(Matrix<Real> gate_up_weights, std::int64_t begin, std::int64_t rows) const;
  /// Unless the layer is frozen: `part`, all of which is the op's own.
  void add_gradient(std::int64_t offset, const Real* part, std::int64_t count) const {
    if (makes_gradients()) op_.gradient->add(offset, part, count);
  }
  bool makes_gradients() const { return op_.gradient != nullptr; }
  /// A sum that begins with 0; empty if the layer is frozen.
  Matrix<Real> gradient_part(ScratchScope& scratch, std::int64_t rows, std::int64_t columns) const {
    return makes_gradients() ? zeros<Real>(scratch, rows, columns) : Matrix<Real>(nullptr, 0, 0);
  }
  void backward_mlp() const;
  void backward_middle_norm() const;
  void backward_attention_output() const;
  void backward_rotary() const;
  void backward_qkv() const;

  const Model& model_;
  const DecoderOffsets& offsets_;
  const BatchShape batch_;
  const AttentionSpec spec_;
  const OpMemory<Storage>& op_;
  const std::int64_t tokens_, hidden_, intermediate_;
};

template <class Storage>
void DecoderOp<Storage>::forward(const DecoderProducts& makes) const {
  if (makes.qkv) make_qkv();
  if (makes.kv) hand_on_keys();
  if (makes.attention) {
    attention_forward<Storage>(spec_, document_starts(), at(Activation::qkv), keys(), at(Activation::attention), lse());
    mark(attention_kernel(false));
  }
  if (makes.middle) make_middle();
  if (!makes.gate_up && !makes.output) return;
  if (makes.gate_up) middle_norm();
  if (is_experts())
    experts_forward(model_, batch_, {makes.gate_up, makes.output}, op_);
  else
    make_mlp(makes);
}

template <class Storage>
void DecoderOp<Storage>::make_qkv() const {
  const std::int64_t columns = model_.qkv_columns();
  norm(at(TemplateOperand::input), offsets_.input_norm);
  mark(KernelId::input_norm);
  ScratchScope scratch;
  const auto normed = widened<Storage>(scratch, at(Activation::normed), tokens_, hidden_);
  const auto matrix = widened<Storage>(scratch, weights(offsets_.qkv), columns, hidden_);
  const Matrix<Real> qkv(scratch.take<Real>(tokens_ * columns), tokens_, columns);
  multiply_transposed(normed, matrix, qkv);
  if (const Element* const bias = weights(offsets_.qkv_bias); bias != nullptr) {
    const auto widened_bias = widened<Storage>(scratch, bias, 1, columns);
    for (std::int64_t token = 0; token < tokens_; ++token)
      for (std::int64_t i = 0; i < columns; ++i) qkv.row(token)[i] += widened_bias.data[i];
  }
  narrow<Storage>(qkv.data, tokens_ * columns, at(Activation::qkv));
  mark(KernelId::qkv);
  rotate_queries_and_keys<Storage>(model_, batch_, document_starts(), weights(offsets_.q_norm),
                                   weights(offsets_.k_norm), at(Activation::qkv), at(Activation::qk_raw));
  mark(rotary_kernel(false));
}

/// Keys and values of the chunk, behind those of the chunks before it; and its queries, where those alone are kept.
template <class Storage>
void DecoderOp<Storage>::hand_on_keys() const {
  const std::int64_t columns = 2 * model_.key_columns();
  copy_columns(model_.query_columns(), columns, at(TemplateOperand::kv) + batch_.past * columns);
  mark(KernelId::keys_and_values);
  if (at(Activation::queries) == nullptr) return;
  copy_columns(0, model_.query_columns(), at(Activation::queries));
  mark(KernelId::queries);
}

/// Of all rows of qkv, to where they lie dense.
template <class Storage>
void DecoderOp<Storage>::copy_columns(std::int64_t begin, std::int64_t columns, Element* to) const {
  for (std::int64_t token = 0; token < tokens_; ++token)
    std::copy_n(at(Activation::qkv) + token * model_.qkv_columns() + begin, columns, to + token * columns);
}

template <class Storage>
void DecoderOp<Storage>::make_middle() const {
  const std::int64_t columns = model_.query_columns();
  ScratchScope scratch;
  const auto attention = widened<Storage>(scratch, at(Activation::attention), tokens_, columns);
  const auto matrix = widened<Storage>(scratch, weights(offsets_.attention_output), hidden_, columns);
  const Matrix<Real> middle(scratch.take<Real>(tokens_ * hidden_), tokens_, hidden_);
  multiply_transposed(attention, matrix, middle);
  const Element* const input = at(TemplateOperand::input);
  Element* const out = at(Activation::middle);
  for (std::int64_t i = 0; i < tokens_ * hidden_; ++i)
    out[i] = Storage::store(middle.data[i] + Storage::load(input[i]));
  mark(KernelId::attention_output);
}

template <class Storage>
void DecoderOp<Storage>::make_gate_up(Matrix<Real> gate_up_weights, std::int64_t begin, std::int64_t rows) const {
  ScratchScope scratch;
  const auto normed = widened<Storage>(scratch, at(Activation::normed) + begin * hidden_, rows, hidden_);
  const Matrix<Real> gate_up(scratch.take<Real>(rows * 2 * intermediate_), rows, 2 * intermediate_);
  multiply_transposed(normed, gate_up_weights, gate_up);
  narrow<Storage>(gate_up.data, rows * 2 * intermediate_, gate_up_rows(begin));
  mark(KernelId::gate_up);
}

template <class Storage>
void DecoderOp<Storage>::make_mlp(const DecoderProducts& makes) const {
  ScratchScope scratch;
  Matrix<Real> gate_up_weights(nullptr, 0, 0), down(nullptr, 0, 0);
  if (makes.gate_up) gate_up_weights = widened<Storage>(scratch, weights(offsets_.gate_up), 2 * intermediate_, hidden_);
  for (std::int64_t begin = 0; begin < tokens_; begin += op_.chunk_rows) {
    const std::int64_t rows = std::min(op_.chunk_rows, tokens_ - begin);
    if (makes.gate_up) make_gate_up(gate_up_weights, begin, rows);
    if (!makes.output) continue;
    swiglu<Storage>(gate_up_rows(begin), at(Activation::product), rows, intermediate_);
    mark(KernelId::swiglu);
    if (begin == 0) down = widened<Storage>(scratch, weights(offsets_.down), hidden_, intermediate_);
    ScratchScope chunk;
    const auto product = widened<Storage>(chunk, at(Activation::product), rows, intermediate_);
    const Matrix<Real> sum(chunk.take<Real>(rows * hidden_), rows, hidden_);
    multiply_transposed(product, down, sum);
    const Element* const middle = at(Activation::middle) + begin * hidden_;
    Element* const output = at(TemplateOperand::output) + begin * hidden_;
    for (std::int64_t i = 0; i < rows * hidden_; ++i)
      output[i] = Storage::store(sum.data[i] + Storage::load(middle[i]));
    mark(KernelId::down);
  }
  if (makes.output) pass_balance_on(model_.config, batch_, at(TemplateOperand::input), at(TemplateOperand::output));
}

template <class Storage>
void DecoderOp<Storage>::backward() const {
  middle_norm();
  if (is_experts())
    experts_backward(model_, batch_, op_);
  else
    backward_mlp();
  backward_middle_norm();
  backward_attention_output();
  attention_backward<Storage>(spec_, document_starts(), at(Activation::qkv), keys(), at(Activation::attention), lse(),
                              at(Activation::d_attention), at(Activation::d_qkv));
  mark(attention_kernel(true));
  backward_rotary();
  backward_qkv();
  pass_balance_on(model_.config, batch_, at(TemplateOperand::output_gradient), at(TemplateOperand::input_gradient));
}

/// output_gradient -> d_normed, with the gradients of down and gate_up.
template <class Storage>
void DecoderOp<Storage>::backward_mlp() const {
  ScratchScope scratch;
  const std::int64_t wide = 2 * intermediate_;
  const auto gate_up_weights = widened<Storage>(scratch, weights(offsets_.gate_up), wide, hidden_);
  before(op_.clock, op_.gate_up_is_chunk ? KernelId::gate_up : KernelId::gate_up_input_gradient);
  const auto down = widened<Storage>(scratch, weights(offsets_.down), hidden_, intermediate_);
  before(op_.clock, KernelId::down_input_gradient);
  const auto part_gate_up = gradient_part(scratch, wide, hidden_);
  if (makes_gradients()) before(op_.clock, KernelId::gate_up_weight_gradient);
  const auto part_down = gradient_part(scratch, hidden_, intermediate_);
  if (makes_gradients()) before(op_.clock, KernelId::down_weight_gradient);
  for (std::int64_t begin = 0; begin < tokens_; begin += op_.chunk_rows) {
    const std::int64_t rows = std::min(op_.chunk_rows, tokens_ - begin);
    if (op_.gate_up_is_chunk) make_gate_up(gate_up_weights, begin, rows);
    ScratchScope chunk;
    swiglu<Storage>(gate_up_rows(begin), at(Activation::product), rows, intermediate_);
    before(op_.clock, KernelId::swiglu_backward);
    const auto d_output =
        widened<Storage>(chunk, at(TemplateOperand::output_gradient) + begin * hidden_, rows, hidden_);
    const auto product = widened<Storage>(chunk, at(Activation::product), rows, intermediate_);
    if (makes_gradients()) {
      add_transposed_product(d_output, product, part_down);
      mark(KernelId::down_weight_gradient);
    }
    multiply(d_output, down, product);
    narrow<Storage>(product.data, rows * intermediate_, at(Activation::d_product));
    mark(KernelId::down_input_gradient);
    swiglu_backward<Storage>(gate_up_rows(begin), at(Activation::d_product), at(Activation::d_gate_up), rows,
                             intermediate_);
    mark(KernelId::swiglu_backward);
    const auto d_gate_up = widened<Storage>(chunk, at(Activation::d_gate_up), rows, wide);
    const auto normed = widened<Storage>(chunk, at(Activation::normed) + begin * hidden_, rows, hidden_);
    if (makes_gradients()) {
      add_transposed_product(d_gate_up, normed, part_gate_up);
      mark(KernelId::gate_up_weight_gradient);
    }
    multiply(d_gate_up, gate_up_weights, normed);
    narrow<Storage>(normed.data, rows * hidden_, at(Activation::d_normed) + begin * hidden_);
    mark(KernelId::gate_up_input_gradient);
  }
  if (makes_gradients()) {
    op_.gradient->add(offsets_.down, part_down.data, hidden_ * intermediate_);
    also(op_.clock, KernelId::down_weight_gradient);
    op_.gradient->add(offsets_.gate_up, part_gate_up.data, wide * hidden_);
    also(op_.clock, KernelId::gate_up_weight_gradient);
  }
}

/// d_normed, output_gradient -> gradient of middle, at input_gradient, with that of the middle norm.
template <class Storage>
void DecoderOp<Storage>::backward_middle_norm() const {
  ScratchScope scratch;
  Real* const d_norm = scratch.take<Real>(hidden_);
  rmsnorm_backward<Storage>(at(Activation::middle), weights(offsets_.middle_norm), at(Activation::d_normed),
                            at(TemplateOperand::output_gradient), at(TemplateOperand::input_gradient), d_norm, tokens_,
                            hidden_, model_.config.rms_epsilon);
  add_gradient(offsets_.middle_norm, d_norm, hidden_);
  mark(KernelId::middle_norm_backward);
}

/// Gradient of middle, at input_gradient -> d_attention.
template <class Storage>
void DecoderOp<Storage>::backward_attention_output() const {
  const std::int64_t columns = model_.query_columns();
  ScratchScope scratch;
  const auto d_middle = widened<Storage>(scratch, at(TemplateOperand::input_gradient), tokens_, hidden_);
  const auto attention = widened<Storage>(scratch, at(Activation::attention), tokens_, columns);
  const auto matrix = widened<Storage>(scratch, weights(offsets_.attention_output), hidden_, columns);
  if (makes_gradients()) {
    const auto part = zeros<Real>(scratch, hidden_, columns);
    add_transposed_product(d_middle, attention, part);
    op_.gradient->add(offsets_.attention_output, part.data, hidden_ * columns);
    mark(KernelId::attention_output_weight_gradient);
  }
  multiply(d_middle, matrix, attention);
  narrow<Storage>(attention.data, tokens_ * columns, at(Activation::d_attention));
  mark(KernelId::attention_output_input_gradient);
}

/// d_qkv of the rotated q, k -> d_qkv of the projection's output.
template <class Storage>
void DecoderOp<Storage>::backward_rotary() const {
  ScratchScope scratch;
  const auto [q_width, k_width] = qk_norm_widths(model_);
  Real* const d_q_norm = scratch.take<Real>(q_width);
  Real* const d_k_norm = scratch.take<Real>(k_width);
  rotate_queries_and_keys_backward<Storage>(model_, batch_, document_starts(), weights(offsets_.q_norm),
                                            weights(offsets_.k_norm), at(Activation::qk_raw), at(Activation::d_qkv),
                                            d_q_norm, d_k_norm);
  if (offsets_.q_norm >= 0) {
    add_gradient(offsets_.q_norm, d_q_norm, q_width);
    add_gradient(offsets_.k_norm, d_k_norm, k_width);
  }
  mark(rotary_kernel(true));
}

/// d_qkv -> input_gradient, with the gradients of qkv, its bias and the input norm.
template <class Storage>
void DecoderOp<Storage>::backward_qkv() const {
  const std::int64_t columns = model_.qkv_columns();
  norm(at(TemplateOperand::input), offsets_.input_norm);
  mark(KernelId::input_norm);
  ScratchScope scratch;
  const auto d_qkv = widened<Storage>(scratch, at(Activation::d_qkv), tokens_, columns);
  before(op_.clock, makes_gradients() ? KernelId::qkv_weight_gradient : KernelId::qkv_input_gradient);
  if (offsets_.qkv_bias >= 0 && makes_gradients()) {
    double* const sums = scratch.take<double>(columns);  // over all tokens, so in fp64
    Real* const part = scratch.take<Real>(columns);
    std::fill_n(sums, columns, 0.0);
    for (std::int64_t token = 0; token < tokens_; ++token)
      for (std::int64_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(d_qkv.row(token)[i]);
    for (std::int64_t i = 0; i < columns; ++i) part[i] = static_cast<Real>(sums[i]);
    op_.gradient->add(offsets_.qkv_bias, part, columns);
    mark(KernelId::qkv_bias_gradient);
  }
  const auto normed = widened<Storage>(scratch, at(Activation::normed), tokens_, hidden_);
  const auto matrix = widened<Storage>(scratch, weights(offsets_.qkv), columns, hidden_);
  if (makes_gradients()) {
    const auto part = zeros<Real>(scratch, columns, hidden_);
    add_transposed_product(d_qkv, normed, part);
    op_.gradient->add(offsets_.qkv, part.data, columns * hidden_);
    mark(KernelId::qkv_weight_gradient);
  }
  multiply(d_qkv, matrix, normed);
  narrow<Storage>(normed.data, tokens_ * hidden_, at(Activation::d_normed));
  mark(KernelId::qkv_input_gradient);
  Real* const d_norm = scratch.take<Real>(hidden_);
  rmsnorm_backward<Storage>(at(TemplateOperand::input), weights(offsets_.input_norm), at(Activation::d_normed),
                            at(TemplateOperand::input_gradient), at(TemplateOperand::input_gradient), d_norm, tokens_,
                            hidden_, model_.config.rms_epsilon);
  add_gradient(offsets_.input_norm, d_norm, hidden_);
  mark(KernelId::input_norm_backward);
}

}  // namespace

template <class Storage>
void decoder_forward(const Model& model, BatchShape batch, const DecoderProducts& makes, const OpMemory<Storage>& op) {
  DecoderOp<Storage>(model, batch, op).forward(makes);
}

template <class Storage>
void decoder_backward(const Model& model, BatchShape batch, const OpMemory<Storage>& op) {
  DecoderOp<Storage>(model, batch, op).backward();
}

template void decoder_forward<Bf16Storage>(const Model&, BatchShape, const DecoderProducts&,
                                           const OpMemory<Bf16Storage>&);
template void decoder_forward<DoubleStorage>(const Model&, BatchShape, const DecoderProducts&,
                                             const OpMemory<DoubleStorage>&);
template void decoder_backward<Bf16Storage>(const Model&, BatchShape, const OpMemory<Bf16Storage>&);
template void decoder_backward<DoubleStorage>(const Model&, BatchShape, const OpMemory<DoubleStorage>&);

}  // namespace penstock::exec
