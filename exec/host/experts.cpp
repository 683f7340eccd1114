#include "exec/host/experts.h"

#include <algorithm>
#include <cmath>

#include "exec/host/balance.h"
#include "exec/host/matmul.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"
#include "exec/host/swiglu.h"
#include "exec/host/widened.h"

namespace penstock::exec {
namespace {

template <class Real>
bool is_better(Real a, Real b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

}  // namespace

template <class Real>
void router_probabilities(const Real* logits, std::int64_t count, Real* probabilities) {
  const Real largest = *std::max_element(logits, logits + count);
  for (std::int64_t i = 0; i < count; ++i) probabilities[i] = logits[i] - largest;
  std::fill(probabilities + count, probabilities + pad_to_lanes(count), Real{0});
  exponentials(probabilities, count);
  Real sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += probabilities[i];
  for (std::int64_t i = 0; i < count; ++i) probabilities[i] /= sum;
}

template <class Real>
void choose_experts(const Experts& experts, const Real* logits, std::int64_t tokens, std::int32_t* choice,
                    Real* weights) {
  const std::int64_t count = experts.count, per_token = experts.per_token;
  ScratchScope scratch;
  Real* const probabilities = scratch.take<Real>(count);
  auto* const taken = scratch.take<std::int32_t>(count);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const Real* const row = logits + token * count;
    router_probabilities(row, count, probabilities);
    std::fill_n(taken, count, 0);
    Real sum = 0;
    for (std::int64_t j = 0; j < per_token; ++j) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < count; ++e)
        if (taken[e] == 0 && (best < 0 || is_better(row[e], row[best]))) best = e;
      taken[best] = 1;
      choice[token * per_token + j] = static_cast<std::int32_t>(best);
      weights[token * per_token + j] = probabilities[best];
      sum += probabilities[best];
    }
    if (experts.normalised)
      for (std::int64_t j = 0; j < per_token; ++j) weights[token * per_token + j] /= sum;
  }
}

template <class Real>
void choose_experts_backward(const Experts& experts, const Real* logits, std::int64_t tokens,
                             const std::int32_t* choice, const Real* weights, const Real* d_weights, Real* d_logits) {
  const std::int64_t count = experts.count, per_token = experts.per_token;
  ScratchScope scratch;
  Real* const probabilities = scratch.take<Real>(count);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t first = token * per_token;
    Real* const out = d_logits + token * count;
    Real dot = 0;
    for (std::int64_t j = 0; j < per_token; ++j) dot += weights[first + j] * d_weights[first + j];
    // Normalised weights are the softmax of the chosen logits alone.
    if (experts.normalised) {
      std::fill_n(out, count, Real{0});
    } else {
      router_probabilities(logits + token * count, count, probabilities);
      for (std::int64_t e = 0; e < count; ++e) out[e] = -probabilities[e] * dot;
    }
    for (std::int64_t j = 0; j < per_token; ++j) {
      const Real weight = weights[first + j];
      out[choice[first + j]] += weight * (experts.normalised ? d_weights[first + j] - dot : d_weights[first + j]);
    }
  }
}

void order_rows(const Experts& experts, const std::int32_t* choice, std::int64_t tokens, const ExpertOrder& order) {
  const std::int64_t rows = tokens * experts.per_token;
  std::fill_n(order.first, experts.count + 1, 0);
  for (std::int64_t i = 0; i < rows; ++i) ++order.first[choice[i] + 1];
  for (std::int64_t e = 0; e < experts.count; ++e) order.first[e + 1] += order.first[e];
  ScratchScope scratch;
  auto* const next = scratch.take<std::int32_t>(experts.count);
  std::copy_n(order.first, experts.count, next);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int32_t row = next[choice[i]]++;
    order.row[i] = row;
    order.choice_of[row] = static_cast<std::int32_t>(i);
  }
}

namespace {

template <class Storage>
class ExpertsOp {
 public:
  ExpertsOp(const Model& model, BatchShape batch, const OpMemory<Storage>& op)
      : config_(model.config),
        experts_(model.config.experts),
        offsets_(model.experts),
        batch_(batch),
        op_(op),
        tokens_(batch.tokens()),
        hidden_(model.config.hidden),
        width_(experts_.intermediate),
        per_token_(experts_.per_token),
        choice_(op.template at<std::int32_t>(Activation::expert_choice)),
        weights_(op.template at<Real>(Activation::expert_weights)) {
    const std::int64_t rows = std::min(op.chunk_rows, tokens_) * per_token_;
    order_.first = op.template at<std::int32_t>(Activation::expert_order);
    order_.row = order_.first + expert_order_elements(experts_.count + 1);
    order_.choice_of = order_.row + expert_order_elements(rows);
  }

  void forward(const ExpertsProducts& makes) {
    if (makes.gate_up) route();
    for (std::int64_t begin = 0; begin < tokens_; begin += op_.chunk_rows) {
      enter(begin);
      if (makes.gate_up) {
        gather(at(Activation::normed), at(Activation::expert_input), KernelId::expert_rows);
        make_gate_up();
      }
      if (makes.output) make_output();
    }
    if (makes.output && balances(config_)) add_to_balance();
  }

  void backward();

 private:
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;

  Element* at(TemplateOperand operand) const { return op_.at(operand); }
  Element* at(Activation activation) const { return op_.at(activation); }
  Real* reals(Activation activation) const { return op_.template at<Real>(activation); }
  const Element* matrix(std::int64_t offset) const { return at(TemplateOperand::weights) + offset; }
  void mark(KernelId kernel) const { after(op_.clock, kernel); }
  bool makes_gradients() const { return op_.gradient != nullptr; }

  /// A chunk of tokens, and where its rows lie.
  void enter(std::int64_t begin) {
    begin_ = begin;
    chunk_ = std::min(op_.chunk_rows, tokens_ - begin);
    order_rows(experts_, choice_ + begin * per_token_, chunk_, order_);
    mark(KernelId::expert_order);
  }
  std::int64_t chunk_rows() const { return chunk_ * per_token_; }
  std::int64_t token_of(std::int64_t row) const { return begin_ + order_.choice_of[row] / per_token_; }
  Element* gate_up() const {
    return at(Activation::gate_up) + (op_.gate_up_is_chunk ? 0 : begin_ * per_token_ * 2 * width_);
  }
  std::int64_t gate_up_at(std::int64_t expert) const { return offsets_.gate_up + expert * offsets_.gate_up_stride; }
  std::int64_t down_at(std::int64_t expert) const { return offsets_.down + expert * offsets_.down_stride; }

  /// body(expert, first row, rows) of each expert that has some.
  template <class Body>
  void for_each_expert(const Body& body) const {
    for (std::int64_t e = 0; e < experts_.count; ++e)
      if (const std::int64_t rows = order_.first[e + 1] - order_.first[e]; rows > 0) body(e, order_.first[e], rows);
  }

  void route() const {
    ScratchScope scratch;
    const auto normed = widened<Storage>(scratch, at(Activation::normed), tokens_, hidden_);
    const auto router = widened<Storage>(scratch, matrix(offsets_.router), experts_.count, hidden_);
    const Matrix<Real> logits(scratch.take<Real>(tokens_ * experts_.count), tokens_, experts_.count);
    multiply_transposed(normed, router, logits);
    std::copy_n(logits.data, tokens_ * experts_.count, reals(Activation::router_logits));
    mark(KernelId::router);
    choose_experts(experts_, reals(Activation::router_logits), tokens_, choice_, weights_);
    mark(KernelId::expert_choice);
  }

  RealTokens real_tokens() const {
    const bool packed = batch_.kind == BatchKind::packed;
    return {batch_, packed ? op_.template at<std::int32_t>(TemplateOperand::labels) : nullptr,
            packed ? op_.template at<std::int32_t>(TemplateOperand::document_starts) : nullptr};
  }
  double* balance(TemplateOperand boundary) const { return balance_at(config_, batch_, at(boundary)); }
  void add_to_balance() const {
    add_balance(experts_, reals(Activation::router_logits), choice_, real_tokens(), balance(TemplateOperand::input),
                balance(TemplateOperand::output));
    mark(KernelId::expert_balance);
  }

  /// The row of each choice of the chunk's tokens.
  void gather(const Element* of_tokens, Element* rows, KernelId kernel) const {
    for (std::int64_t row = 0; row < chunk_rows(); ++row)
      std::copy_n(of_tokens + token_of(row) * hidden_, hidden_, rows + row * hidden_);
    mark(kernel);
  }

  /// [rows, columns_out] = [rows, columns_in] with the experts' matrices, each [columns_out, columns_in].
  template <class At>
  void multiply_experts(const Element* in, std::int64_t columns_in, const At& matrix_at, Element* out,
                        std::int64_t columns_out) const {
    each_product(in, columns_in, matrix_at, columns_out, columns_in, out, columns_out,
                 [](const auto& a, const auto& b, const auto& c) { multiply_transposed(a, b, c); });
  }
  /// The same with matrices [columns_in, columns_out]: the gradient of what they multiplied.
  template <class At>
  void multiply_experts_back(const Element* in, std::int64_t columns_in, const At& matrix_at, Element* out,
                             std::int64_t columns_out) const {
    each_product(in, columns_in, matrix_at, columns_in, columns_out, out, columns_out,
                 [](const auto& a, const auto& b, const auto& c) { multiply(a, b, c); });
  }
  /// Each expert's rows with its matrix of this shape.
  template <class At, class Product>
  void each_product(const Element* in, std::int64_t columns_in, const At& matrix_at, std::int64_t matrix_rows,
                    std::int64_t matrix_columns, Element* out, std::int64_t columns_out, const Product& product) const {
    for_each_expert([&](std::int64_t e, std::int64_t first, std::int64_t rows) {
      ScratchScope scratch;
      const auto a = widened<Storage>(scratch, in + first * columns_in, rows, columns_in);
      const auto b = widened<Storage>(scratch, matrix(matrix_at(e)), matrix_rows, matrix_columns);
      const Matrix<Real> c(scratch.take<Real>(rows * columns_out), rows, columns_out);
      product(a, b, c);
      narrow<Storage>(c.data, rows * columns_out, out + first * columns_out);
    });
  }
  /// sums [experts, left, right] += left rows^T right rows of each expert.
  void add_expert_gradients(const Element* left, std::int64_t left_columns, const Element* right,
                            std::int64_t right_columns, Real* sums) const {
    for_each_expert([&](std::int64_t e, std::int64_t first, std::int64_t rows) {
      ScratchScope scratch;
      const auto a = widened<Storage>(scratch, left + first * left_columns, rows, left_columns);
      const auto b = widened<Storage>(scratch, right + first * right_columns, rows, right_columns);
      add_transposed_product(a, b, {sums + e * left_columns * right_columns, left_columns, right_columns});
    });
  }

  void make_gate_up() const {
    multiply_experts(
        at(Activation::expert_input), hidden_, [this](std::int64_t e) { return gate_up_at(e); }, gate_up(), 2 * width_);
    mark(KernelId::experts_gate_up);
  }

  void make_output() const {
    swiglu<Storage>(gate_up(), at(Activation::product), chunk_rows(), width_);
    mark(KernelId::experts_swiglu);
    multiply_experts(
        at(Activation::product), width_, [this](std::int64_t e) { return down_at(e); }, at(Activation::expert_output),
        hidden_);
    mark(KernelId::experts_down);
    ScratchScope scratch;
    Real* const sum = scratch.take<Real>(hidden_);
    for (std::int64_t token = 0; token < chunk_; ++token) {
      std::fill_n(sum, hidden_, Real{0});
      for (std::int64_t j = 0; j < per_token_; ++j) {
        const Real weight = weights_[(begin_ + token) * per_token_ + j];
        const Element* const y = at(Activation::expert_output) + order_.row[token * per_token_ + j] * hidden_;
        for (std::int64_t i = 0; i < hidden_; ++i) sum[i] += weight * Storage::load(y[i]);
      }
      const std::int64_t at_token = (begin_ + token) * hidden_;
      const Element* const middle = at(Activation::middle) + at_token;
      Element* const output = at(TemplateOperand::output) + at_token;
      for (std::int64_t i = 0; i < hidden_; ++i) output[i] = Storage::store(sum[i] + Storage::load(middle[i]));
    }
    mark(KernelId::expert_sum);
  }

  void backward_rows() const;
  void add_input_gradients() const;
  void backward_router() const;

  const ModelConfig& config_;
  const Experts& experts_;
  const DecoderOffsets& offsets_;
  const BatchShape batch_;
  const OpMemory<Storage>& op_;
  const std::int64_t tokens_, hidden_, width_, per_token_;
  std::int32_t* const choice_;
  Real* const weights_;
  ExpertOrder order_;
  std::int64_t begin_ = 0, chunk_ = 0;  // tokens
};

/// gate_up, and z at d_product -> d_gate_up, product times weight, and the gradient of the weights.
template <class Storage>
void ExpertsOp<Storage>::backward_rows() const {
  ScratchScope scratch;
  Element* const scaled = at(Activation::product);
  swiglu<Storage>(gate_up(), scaled, chunk_rows(), width_);
  Real* const d_weights = reals(Activation::d_expert_weights);
  for (std::int64_t row = 0; row < chunk_rows(); ++row) {
    const std::int64_t choice = begin_ * per_token_ + order_.choice_of[row];
    const Real weight = weights_[choice];
    Element *const product = scaled + row * width_, *const z = at(Activation::d_product) + row * width_;
    double dot = 0;
    for (std::int64_t i = 0; i < width_; ++i) {
      const Real p = Storage::load(product[i]), gradient = Storage::load(z[i]);
      dot += static_cast<double>(p * gradient);
      product[i] = Storage::store(weight * p);
      z[i] = Storage::store(weight * gradient);
    }
    d_weights[choice] = static_cast<Real>(dot);
  }
  swiglu_backward<Storage>(gate_up(), at(Activation::d_product), at(Activation::d_gate_up), chunk_rows(), width_);
  mark(KernelId::experts_swiglu_backward);
}

/// The rows' gradients, at expert_output -> d_normed.
template <class Storage>
void ExpertsOp<Storage>::add_input_gradients() const {
  ScratchScope scratch;
  Real* const sum = scratch.take<Real>(hidden_);
  for (std::int64_t token = 0; token < chunk_; ++token) {
    std::fill_n(sum, hidden_, Real{0});
    for (std::int64_t j = 0; j < per_token_; ++j) {
      const Element* const d = at(Activation::expert_output) + order_.row[token * per_token_ + j] * hidden_;
      for (std::int64_t i = 0; i < hidden_; ++i) sum[i] += Storage::load(d[i]);
    }
    narrow<Storage>(sum, hidden_, at(Activation::d_normed) + (begin_ + token) * hidden_);
  }
  mark(KernelId::expert_gradient_sum);
}

template <class Storage>
void ExpertsOp<Storage>::backward_router() const {
  Real* const d_logits = reals(Activation::d_router_logits);
  choose_experts_backward(experts_, reals(Activation::router_logits), tokens_, choice_, weights_,
                          reals(Activation::d_expert_weights), d_logits);
  if (balances(config_))
    add_balance_gradient(experts_, reals(Activation::router_logits), real_tokens(),
                         balance(TemplateOperand::output_gradient), d_logits);
  mark(KernelId::expert_choice_backward);
  ScratchScope scratch;
  const Matrix<Real> d(scratch.take<Real>(tokens_ * experts_.count), tokens_, experts_.count);
  std::copy_n(d_logits, tokens_ * experts_.count, d.data);
  const auto normed = widened<Storage>(scratch, at(Activation::normed), tokens_, hidden_);
  if (makes_gradients()) {
    const auto part = zeros<Real>(scratch, experts_.count, hidden_);
    add_transposed_product(d, normed, part);
    op_.gradient->add(offsets_.router, part.data, experts_.count * hidden_);
    mark(KernelId::router_weight_gradient);
  }
  const auto router = widened<Storage>(scratch, matrix(offsets_.router), experts_.count, hidden_);
  multiply(d, router, normed);
  Element* const d_normed = at(Activation::d_normed);
  for (std::int64_t i = 0; i < tokens_ * hidden_; ++i)
    d_normed[i] = Storage::store(normed.data[i] + Storage::load(d_normed[i]));
  mark(KernelId::router_input_gradient);
}

template <class Storage>
void ExpertsOp<Storage>::backward() {
  if (op_.gate_up_is_chunk) route();
  ScratchScope scratch;
  const std::int64_t of_gate_up = 2 * width_ * hidden_, of_down = hidden_ * width_;
  Real *parts_gate_up = nullptr, *parts_down = nullptr;
  if (makes_gradients()) {
    parts_gate_up = zeros<Real>(scratch, experts_.count, of_gate_up).data;
    before(op_.clock, KernelId::experts_gate_up_weight_gradient);
    parts_down = zeros<Real>(scratch, experts_.count, of_down).data;
    before(op_.clock, KernelId::experts_down_weight_gradient);
  }
  for (std::int64_t begin = 0; begin < tokens_; begin += op_.chunk_rows) {
    enter(begin);
    gather(at(Activation::normed), at(Activation::expert_input), KernelId::expert_rows);
    if (op_.gate_up_is_chunk) make_gate_up();
    Element* const d_rows = at(Activation::expert_output);
    gather(at(TemplateOperand::output_gradient), d_rows, KernelId::expert_gradient_rows);
    multiply_experts_back(
        d_rows, hidden_, [this](std::int64_t e) { return down_at(e); }, at(Activation::d_product), width_);
    mark(KernelId::experts_down_input_gradient);
    backward_rows();
    if (makes_gradients()) {
      add_expert_gradients(d_rows, hidden_, at(Activation::product), width_, parts_down);
      mark(KernelId::experts_down_weight_gradient);
      add_expert_gradients(at(Activation::d_gate_up), 2 * width_, at(Activation::expert_input), hidden_, parts_gate_up);
      mark(KernelId::experts_gate_up_weight_gradient);
    }
    multiply_experts_back(
        at(Activation::d_gate_up), 2 * width_, [this](std::int64_t e) { return gate_up_at(e); }, d_rows, hidden_);
    mark(KernelId::experts_gate_up_input_gradient);
    add_input_gradients();
  }
  if (makes_gradients())
    for (std::int64_t e = 0; e < experts_.count; ++e) {
      op_.gradient->add(down_at(e), parts_down + e * of_down, of_down);
      also(op_.clock, KernelId::experts_down_weight_gradient);
      op_.gradient->add(gate_up_at(e), parts_gate_up + e * of_gate_up, of_gate_up);
      also(op_.clock, KernelId::experts_gate_up_weight_gradient);
    }
  backward_router();
}

}  // namespace

template <class Storage>
void experts_forward(const Model& model, BatchShape batch, const ExpertsProducts& makes, const OpMemory<Storage>& op) {
  ExpertsOp<Storage>(model, batch, op).forward(makes);
}

template <class Storage>
void experts_backward(const Model& model, BatchShape batch, const OpMemory<Storage>& op) {
  ExpertsOp<Storage>(model, batch, op).backward();
}

template void router_probabilities(const float*, std::int64_t, float*);
template void router_probabilities(const double*, std::int64_t, double*);
template void choose_experts<float>(const Experts&, const float*, std::int64_t, std::int32_t*, float*);
template void choose_experts<double>(const Experts&, const double*, std::int64_t, std::int32_t*, double*);
template void choose_experts_backward<float>(const Experts&, const float*, std::int64_t, const std::int32_t*,
                                             const float*, const float*, float*);
template void choose_experts_backward<double>(const Experts&, const double*, std::int64_t, const std::int32_t*,
                                              const double*, const double*, double*);
template void experts_forward(const Model&, BatchShape, const ExpertsProducts&, const OpMemory<Bf16Storage>&);
template void experts_forward(const Model&, BatchShape, const ExpertsProducts&, const OpMemory<DoubleStorage>&);
template void experts_backward(const Model&, BatchShape, const OpMemory<Bf16Storage>&);
template void experts_backward(const Model&, BatchShape, const OpMemory<DoubleStorage>&);

}  // namespace penstock::exec
