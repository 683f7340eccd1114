#include "exec/host/decoder.h"

#include <algorithm>

#include "exec/host/attention.h"
#include "exec/host/matmul.h"
#include "exec/host/rmsnorm.h"
#include "exec/host/rotary.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"
#include "exec/host/swiglu.h"

namespace penstock::exec {
namespace {

template <class Storage>
Matrix<typename Storage::Real> widened(ScratchScope& scratch, const typename Storage::Element* from, std::int64_t rows,
                                       std::int64_t columns) {
  using Real = typename Storage::Real;
  const Matrix<Real> copy(scratch.take<Real>(rows * columns), rows, columns);
  widen<Storage>(from, rows * columns, copy.data);
  return copy;
}

template <class Real>
Matrix<Real> zeros(ScratchScope& scratch, std::int64_t rows, std::int64_t columns) {
  const Matrix<Real> matrix(scratch.take<Real>(rows * columns), rows, columns);
  std::fill_n(matrix.data, rows * columns, Real{0});
  return matrix;
}

/// One decoder op: the shapes, and the steps that forward and backward are made of.
template <class Storage>
class DecoderOp {
 public:
  DecoderOp(const Model& model, BatchShape batch, const DecoderOperands<Storage>& op)
      : model_(model),
        batch_(batch),
        op_(op),
        tokens_(batch.tokens()),
        hidden_(model.config.hidden),
        intermediate_(model.config.intermediate) {}

  void forward(const DecoderProducts& makes) const;
  void backward() const;

 private:
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;

  const Element* weights(std::int64_t offset) const { return offset < 0 ? nullptr : op_.weights + offset; }
  Element* gate_up_rows(std::int64_t begin) const {
    return op_.gate_up + (op_.gate_up_is_chunk ? 0 : begin * 2 * intermediate_);
  }
  void norm(const Element* x, std::int64_t offset) const {
    rmsnorm<Storage>(x, weights(offset), op_.normed, tokens_, hidden_, model_.config.rms_epsilon);
  }
  void make_qkv() const;
  void make_middle() const;
  void make_mlp(const DecoderProducts& makes) const;
  void make_gate_up(Matrix<Real> gate_up_weights, std::int64_t begin, std::int64_t rows) const;
  void backward_mlp() const;
  void backward_attention_output() const;
  void backward_rotary() const;
  void backward_qkv() const;

  const Model& model_;
  const BatchShape batch_;
  const DecoderOperands<Storage>& op_;
  const std::int64_t tokens_, hidden_, intermediate_;
};

template <class Storage>
void DecoderOp<Storage>::forward(const DecoderProducts& makes) const {
  if (makes.qkv) make_qkv();
  if (makes.attention) attention_forward<Storage>(model_, batch_, op_.qkv, op_.attention, op_.lse);
  if (makes.middle) make_middle();
  if (makes.gate_up || makes.output) make_mlp(makes);
}

template <class Storage>
void DecoderOp<Storage>::make_qkv() const {
  const std::int64_t columns = model_.qkv_columns();
  norm(op_.input, model_.decoder.input_norm);
  ScratchScope scratch;
  const auto normed = widened<Storage>(scratch, op_.normed, tokens_, hidden_);
  const auto matrix = widened<Storage>(scratch, weights(model_.decoder.qkv), columns, hidden_);
  const Matrix<Real> qkv(scratch.take<Real>(tokens_ * columns), tokens_, columns);
  multiply_transposed(normed, matrix, qkv);
  if (const Element* const bias = weights(model_.decoder.qkv_bias); bias != nullptr) {
    const auto widened_bias = widened<Storage>(scratch, bias, 1, columns);
    for (std::int64_t token = 0; token < tokens_; ++token)
      for (std::int64_t i = 0; i < columns; ++i) qkv.row(token)[i] += widened_bias.data[i];
  }
  narrow<Storage>(qkv.data, tokens_ * columns, op_.qkv);
  rotate_queries_and_keys<Storage>(model_, batch_, weights(model_.decoder.q_norm), weights(model_.decoder.k_norm),
                                   op_.qkv, op_.qk_raw);
}

template <class Storage>
void DecoderOp<Storage>::make_middle() const {
  const std::int64_t columns = model_.query_columns();
  ScratchScope scratch;
  const auto attention = widened<Storage>(scratch, op_.attention, tokens_, columns);
  const auto matrix = widened<Storage>(scratch, weights(model_.decoder.attention_output), hidden_, columns);
  const Matrix<Real> middle(scratch.take<Real>(tokens_ * hidden_), tokens_, hidden_);
  multiply_transposed(attention, matrix, middle);
  for (std::int64_t i = 0; i < tokens_ * hidden_; ++i)
    op_.middle[i] = Storage::store(middle.data[i] + Storage::load(op_.input[i]));
}

template <class Storage>
void DecoderOp<Storage>::make_gate_up(Matrix<Real> gate_up_weights, std::int64_t begin, std::int64_t rows) const {
  ScratchScope scratch;
  const auto normed = widened<Storage>(scratch, op_.normed + begin * hidden_, rows, hidden_);
  const Matrix<Real> gate_up(scratch.take<Real>(rows * 2 * intermediate_), rows, 2 * intermediate_);
  multiply_transposed(normed, gate_up_weights, gate_up);
  narrow<Storage>(gate_up.data, rows * 2 * intermediate_, gate_up_rows(begin));
}

template <class Storage>
void DecoderOp<Storage>::make_mlp(const DecoderProducts& makes) const {
  ScratchScope scratch;
  Matrix<Real> gate_up_weights(nullptr, 0, 0), down(nullptr, 0, 0);
  if (makes.gate_up) {
    norm(op_.middle, model_.decoder.middle_norm);
    gate_up_weights = widened<Storage>(scratch, weights(model_.decoder.gate_up), 2 * intermediate_, hidden_);
  }
  if (makes.output) down = widened<Storage>(scratch, weights(model_.decoder.down), hidden_, intermediate_);
  for (std::int64_t begin = 0; begin < tokens_; begin += op_.mlp_rows) {
    const std::int64_t rows = std::min(op_.mlp_rows, tokens_ - begin);
    if (makes.gate_up) make_gate_up(gate_up_weights, begin, rows);
    if (!makes.output) continue;
    ScratchScope chunk;
    swiglu<Storage>(gate_up_rows(begin), op_.product, rows, intermediate_);
    const auto product = widened<Storage>(chunk, op_.product, rows, intermediate_);
    const Matrix<Real> sum(chunk.take<Real>(rows * hidden_), rows, hidden_);
    multiply_transposed(product, down, sum);
    const Element* const middle = op_.middle + begin * hidden_;
    Element* const output = op_.output + begin * hidden_;
    for (std::int64_t i = 0; i < rows * hidden_; ++i)
      output[i] = Storage::store(sum.data[i] + Storage::load(middle[i]));
  }
}

template <class Storage>
void DecoderOp<Storage>::backward() const {
  backward_mlp();
  backward_attention_output();
  attention_backward<Storage>(model_, batch_, op_.qkv, op_.attention, op_.lse, op_.d_attention, op_.d_qkv);
  backward_rotary();
  backward_qkv();
}

/// output_gradient -> gradient of middle, at input_gradient, with those of down, gate_up and the middle norm.
template <class Storage>
void DecoderOp<Storage>::backward_mlp() const {
  norm(op_.middle, model_.decoder.middle_norm);
  ScratchScope scratch;
  const std::int64_t wide = 2 * intermediate_;
  const auto gate_up_weights = widened<Storage>(scratch, weights(model_.decoder.gate_up), wide, hidden_);
  const auto down = widened<Storage>(scratch, weights(model_.decoder.down), hidden_, intermediate_);
  const auto part_gate_up = zeros<Real>(scratch, wide, hidden_);
  const auto part_down = zeros<Real>(scratch, hidden_, intermediate_);
  for (std::int64_t begin = 0; begin < tokens_; begin += op_.mlp_rows) {
    const std::int64_t rows = std::min(op_.mlp_rows, tokens_ - begin);
    if (op_.gate_up_is_chunk) make_gate_up(gate_up_weights, begin, rows);
    ScratchScope chunk;
    swiglu<Storage>(gate_up_rows(begin), op_.product, rows, intermediate_);
    const auto d_output = widened<Storage>(chunk, op_.output_gradient + begin * hidden_, rows, hidden_);
    const auto product = widened<Storage>(chunk, op_.product, rows, intermediate_);
    add_transposed_product(d_output, product, part_down);
    multiply(d_output, down, product);
    narrow<Storage>(product.data, rows * intermediate_, op_.d_product);
    swiglu_backward<Storage>(gate_up_rows(begin), op_.d_product, op_.d_gate_up, rows, intermediate_);
    const auto d_gate_up = widened<Storage>(chunk, op_.d_gate_up, rows, wide);
    const auto normed = widened<Storage>(chunk, op_.normed + begin * hidden_, rows, hidden_);
    add_transposed_product(d_gate_up, normed, part_gate_up);
    multiply(d_gate_up, gate_up_weights, normed);
    narrow<Storage>(normed.data, rows * hidden_, op_.d_normed + begin * hidden_);
  }
  op_.gradient->add(model_.decoder.down, part_down.data, hidden_ * intermediate_);
  op_.gradient->add(model_.decoder.gate_up, part_gate_up.data, wide * hidden_);
  Real* const d_norm = scratch.take<Real>(hidden_);
  rmsnorm_backward<Storage>(op_.middle, weights(model_.decoder.middle_norm), op_.d_normed, op_.output_gradient,
                            op_.input_gradient, d_norm, tokens_, hidden_, model_.config.rms_epsilon);
  op_.gradient->add(model_.decoder.middle_norm, d_norm, hidden_);
}

/// Gradient of middle, at input_gradient -> d_attention.
template <class Storage>
void DecoderOp<Storage>::backward_attention_output() const {
  const std::int64_t columns = model_.query_columns();
  ScratchScope scratch;
  const auto d_middle = widened<Storage>(scratch, op_.input_gradient, tokens_, hidden_);
  const auto attention = widened<Storage>(scratch, op_.attention, tokens_, columns);
  const auto matrix = widened<Storage>(scratch, weights(model_.decoder.attention_output), hidden_, columns);
  const auto part = zeros<Real>(scratch, hidden_, columns);
  add_transposed_product(d_middle, attention, part);
  op_.gradient->add(model_.decoder.attention_output, part.data, hidden_ * columns);
  multiply(d_middle, matrix, attention);
  narrow<Storage>(attention.data, tokens_ * columns, op_.d_attention);
}

/// d_qkv of the rotated q, k -> d_qkv of the projection's output.
template <class Storage>
void DecoderOp<Storage>::backward_rotary() const {
  const DecoderOffsets& offsets = model_.decoder;
  ScratchScope scratch;
  Real* const d_q_norm = scratch.take<Real>(model_.config.head_dim);
  Real* const d_k_norm = scratch.take<Real>(model_.config.head_dim);
  rotate_queries_and_keys_backward<Storage>(model_, batch_, weights(offsets.q_norm), weights(offsets.k_norm),
                                            op_.qk_raw, op_.d_qkv, d_q_norm, d_k_norm);
  if (offsets.q_norm < 0) return;
  op_.gradient->add(offsets.q_norm, d_q_norm, model_.config.head_dim);
  op_.gradient->add(offsets.k_norm, d_k_norm, model_.config.head_dim);
}

/// d_qkv -> input_gradient, with the gradients of qkv, its bias and the input norm.
template <class Storage>
void DecoderOp<Storage>::backward_qkv() const {
  const std::int64_t columns = model_.qkv_columns();
  norm(op_.input, model_.decoder.input_norm);
  ScratchScope scratch;
  const auto d_qkv = widened<Storage>(scratch, op_.d_qkv, tokens_, columns);
  if (model_.decoder.qkv_bias >= 0) {
    double* const sums = scratch.take<double>(columns);  // over all tokens, so in fp64
    Real* const part = scratch.take<Real>(columns);
    std::fill_n(sums, columns, 0.0);
    for (std::int64_t token = 0; token < tokens_; ++token)
      for (std::int64_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(d_qkv.row(token)[i]);
    for (std::int64_t i = 0; i < columns; ++i) part[i] = static_cast<Real>(sums[i]);
    op_.gradient->add(model_.decoder.qkv_bias, part, columns);
  }
  const auto normed = widened<Storage>(scratch, op_.normed, tokens_, hidden_);
  const auto matrix = widened<Storage>(scratch, weights(model_.decoder.qkv), columns, hidden_);
  const auto part = zeros<Real>(scratch, columns, hidden_);
  add_transposed_product(d_qkv, normed, part);
  op_.gradient->add(model_.decoder.qkv, part.data, columns * hidden_);
  multiply(d_qkv, matrix, normed);
  narrow<Storage>(normed.data, tokens_ * hidden_, op_.d_normed);
  Real* const d_norm = scratch.take<Real>(hidden_);
  rmsnorm_backward<Storage>(op_.input, weights(model_.decoder.input_norm), op_.d_normed, op_.input_gradient,
                            op_.input_gradient, d_norm, tokens_, hidden_, model_.config.rms_epsilon);
  op_.gradient->add(model_.decoder.input_norm, d_norm, hidden_);
}

}  // namespace

template <class Storage>
void decoder_forward(const Model& model, BatchShape batch, const DecoderProducts& makes,
                     const DecoderOperands<Storage>& op) {
  DecoderOp<Storage>(model, batch, op).forward(makes);
}

template <class Storage>
void decoder_backward(const Model& model, BatchShape batch, const DecoderOperands<Storage>& op) {
  DecoderOp<Storage>(model, batch, op).backward();
}

template void decoder_forward<Bf16Storage>(const Model&, BatchShape, const DecoderProducts&,
                                           const DecoderOperands<Bf16Storage>&);
template void decoder_forward<DoubleStorage>(const Model&, BatchShape, const DecoderProducts&,
                                             const DecoderOperands<DoubleStorage>&);
template void decoder_backward<Bf16Storage>(const Model&, BatchShape, const DecoderOperands<Bf16Storage>&);
template void decoder_backward<DoubleStorage>(const Model&, BatchShape, const DecoderOperands<DoubleStorage>&);

}  // namespace penstock::exec
