#include "exec/calibrate/host_kernels.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "exec/host/attention.h"
#include "exec/host/embedding.h"
#include "exec/host/gradient_sink.h"
#include "exec/host/loss.h"
#include "exec/host/matmul.h"
#include "exec/host/rmsnorm.h"
#include "exec/host/rotary.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"
#include "exec/host/swiglu.h"
#include "exec/runtime/bf16.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

using Half = std::uint16_t;

constexpr std::int64_t kLeastPool = std::int64_t{48} << 20;  // elements: 96 MB, beyond any cache of a small machine

/// Elements of the largest operand of any kernel.
std::int64_t largest_operand(const Model& model, BatchShape batch) {
  const ModelConfig& c = model.config;
  const std::int64_t widest = std::max(
      {2 * c.intermediate, model.qkv_columns(), c.hidden, std::min(c.vocabulary, batch.tokens() * c.vocabulary)});
  return std::max({2 * c.intermediate * c.hidden, c.vocabulary * c.hidden, batch.tokens() * widest});
}

}  // namespace

class HostKernels::Implementation {
 public:
  Implementation(const Model& model, BatchShape batch, ElementType gradient_type)
      : model_(model),
        batch_(batch),
        gradient_type_(gradient_type),
        pool_(static_cast<std::size_t>(std::max(kLeastPool, 4 * largest_operand(model, batch)))) {
    const std::uint64_t key = random_key(1, "calibration");
    for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = round_to_bf16(0.125f * random_normal(key, i & 0xFFFF));
    results_ = pool_;  // what is worked on in place is sound as well
    gradient_.resize(static_cast<std::size_t>(largest_operand(model, batch)));
    ready_.assign(gradient_.size(), 0.25f);
    tokens_.resize(static_cast<std::size_t>(batch.sequences * (batch.sequence_length + 1)));
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      tokens_[i] = static_cast<std::int32_t>(
          random_below(key, i, static_cast<std::uint64_t>(std::min<std::int64_t>(256, model.config.vocabulary))));
    lse_.assign(static_cast<std::size_t>(batch.tokens() * model.config.heads), 6.0f);
  }

  void run_op(const Kernel& kernel, std::int64_t chunks) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      once_ = chunk == 0;
      run(kernel);
    }
  }

 private:
  void run(const Kernel& kernel) {
    const std::string_view name = kernel.name;
    if (kernel.kind == KernelKind::attention_forward) return attention();
    if (kernel.kind == KernelKind::attention_backward) return attention_gradient();
    if (kernel.kind == KernelKind::elementwise) return elementwise(kernel);
    if (name.ends_with("weight gradient")) return weight_gradient(kernel);
    if (name.ends_with("input gradient")) return input_gradient(kernel);
    forward_product(kernel);
  }

  /// The next `count` elements of the operands, and the next for a result. They stay apart: results of results shrink
  /// to denormals within a few repeats, and arithmetic on those is tens of times slower.
  const Half* take(std::int64_t count) { return next(pool_, at_, count); }
  Half* room_for(std::int64_t count) { return next(results_, results_at_, count); }
  static Half* next(std::vector<Half>& pool, std::int64_t& at, std::int64_t count) {
    count = (count + 31) / 32 * 32;
    if (at + count > static_cast<std::int64_t>(pool.size())) at = 0;
    Half* start = pool.data() + at;
    at += count;
    return start;
  }
  static Matrix<float> room(ScratchScope& scratch, std::int64_t rows, std::int64_t columns) {
    return {scratch.take<float>(rows * columns), rows, columns};
  }
  /// An operand that an earlier kernel of the op has widened.
  Matrix<float> ready(std::int64_t rows, std::int64_t columns) { return {ready_.data(), rows, columns}; }
  Matrix<float> widened(ScratchScope& scratch, std::int64_t rows, std::int64_t columns) {
    const Matrix<float> matrix = room(scratch, rows, columns);
    widen<Bf16Storage>(take(rows * columns), rows * columns, matrix.data);
    return matrix;
  }

  /// [m, k] x [n, k]^T; weights are widened once per op.
  void forward_product(const Kernel& kernel) {
    ScratchScope scratch;
    const Matrix<float> weights = room(scratch, kernel.n, kernel.k);
    if (once_) widen<Bf16Storage>(take(kernel.n * kernel.k), kernel.n * kernel.k, weights.data);
    const Matrix<float> left = widened(scratch, kernel.m, kernel.k), product = room(scratch, kernel.m, kernel.n);
    multiply_transposed(left, weights, product);
    const std::int64_t elements = kernel.m * kernel.n;
    Half* const out = room_for(elements);
    const bool residual = kernel.name == "attention output" || kernel.name == "down";
    if (!residual) return narrow<Bf16Storage>(product.data, elements, out);
    const Half* const other = take(elements);
    for (std::int64_t i = 0; i < elements; ++i)
      out[i] = Bf16Storage::store(product.data[i] + Bf16Storage::load(other[i]));
  }

  /// [m, k] x [k, n]; the left operand was widened for the weight gradient. The head's matrix is there as well.
  void input_gradient(const Kernel& kernel) {
    ScratchScope scratch;
    const bool head = kernel.name.starts_with("projection");
    const Matrix<float> left = ready(kernel.m, kernel.k), product = room(scratch, kernel.m, kernel.n);
    const Matrix<float> weights = head ? ready(kernel.k, kernel.n) : room(scratch, kernel.k, kernel.n);
    if (once_ && !head) widen<Bf16Storage>(take(kernel.k * kernel.n), kernel.k * kernel.n, weights.data);
    multiply(left, weights, product);
    narrow<Bf16Storage>(product.data, kernel.m * kernel.n, room_for(kernel.m * kernel.n));
  }

  /// [m, n] from k rows of [k, m] and [k, n].
  void weight_gradient(const Kernel& kernel) {
    ScratchScope scratch;
    const Matrix<float> part = room(scratch, kernel.m, kernel.n);
    if (once_) std::fill_n(part.data, kernel.m * kernel.n, 0.0f);
    const Matrix<float> left = widened(scratch, kernel.k, kernel.m);
    const bool head = kernel.name.starts_with("projection");  // its rows were widened for the logits
    const Matrix<float> right = head ? ready(kernel.k, kernel.n) : widened(scratch, kernel.k, kernel.n);
    add_transposed_product(left, right, part);
    if (once_) hand_over(part.data, kernel.m * kernel.n, kernel.accumulates);
  }
  void hand_over(const float* part, std::int64_t elements, bool accumulates) {
    BoundGradient gradient(gradient_.data(), gradient_type_, accumulates, elements);
    gradient.add(0, part, elements);
  }

  void attention() { attention_forward<Bf16Storage>(model_, batch_, take(qkv()), room_for(context()), lse_.data()); }
  void attention_gradient() {
    attention_backward<Bf16Storage>(model_, batch_, take(qkv()), take(context()), lse_.data(), take(context()),
                                    room_for(qkv()));
  }
  std::int64_t qkv() const { return batch_.tokens() * model_.qkv_columns(); }
  std::int64_t context() const { return batch_.tokens() * model_.query_columns(); }

  void elementwise(const Kernel& kernel) {
    const std::string_view name = kernel.name;
    if (name == "embedding") return embedding();
    if (name == "embedding backward") return embedding_gradient();
    if (name == "cross entropy") return cross_entropy(kernel);
    if (name == "qkv bias gradient") return bias_gradient();
    if (name.starts_with("swiglu")) return activation(kernel);
    if (name.find("rotary") != std::string_view::npos) return rotary(name.ends_with("backward"));
    if (name.ends_with("norm")) return norm();
    if (name.ends_with("norm backward")) return norm_gradient();
    // "loss sum" and "embedding gradient zero" are part of the kernels before them.
  }

  void norm() {
    const std::int64_t rows = batch_.tokens(), columns = model_.config.hidden;
    rmsnorm<Bf16Storage>(take(rows * columns), take(columns), room_for(rows * columns), rows, columns,
                         model_.config.rms_epsilon);
  }
  void norm_gradient() {
    const std::int64_t rows = batch_.tokens(), columns = model_.config.hidden, elements = rows * columns;
    ScratchScope scratch;
    rmsnorm_backward<Bf16Storage>(take(elements), take(columns), take(elements), take(elements), room_for(elements),
                                  scratch.take<float>(columns), rows, columns, model_.config.rms_epsilon);
  }
  void activation(const Kernel& kernel) {
    const bool backward = kernel.name == "swiglu backward";
    const std::int64_t columns = model_.config.intermediate;
    const std::int64_t rows = kernel.bytes / 2 / ((backward ? 6 : 3) * columns);
    const Half* const gate_up = take(rows * 2 * columns);
    swiglu<Bf16Storage>(gate_up, room_for(rows * columns), rows, columns);
    if (backward)
      swiglu_backward<Bf16Storage>(gate_up, take(rows * columns), room_for(rows * 2 * columns), rows, columns);
  }
  void rotary(bool backward) {
    const bool norm = model_.config.qk_norm;
    const std::int64_t dim = model_.config.head_dim;
    Half* const raw = norm ? room_for(batch_.tokens() * (model_.query_columns() + model_.key_columns())) : nullptr;
    const Half *const q_norm = norm ? take(dim) : nullptr, *const k_norm = norm ? take(dim) : nullptr;
    if (!backward) return rotate_queries_and_keys<Bf16Storage>(model_, batch_, q_norm, k_norm, room_for(qkv()), raw);
    ScratchScope scratch;
    rotate_queries_and_keys_backward<Bf16Storage>(model_, batch_, q_norm, k_norm, raw, room_for(qkv()),
                                                  scratch.take<float>(dim), scratch.take<float>(dim));
  }
  void bias_gradient() {
    const std::int64_t columns = model_.qkv_columns();
    ScratchScope scratch;
    const Matrix<float> rows = ready(batch_.tokens(), columns);
    double* const sums = scratch.take<double>(columns);
    std::fill_n(sums, columns, 0.0);
    for (std::int64_t token = 0; token < batch_.tokens(); ++token)
      for (std::int64_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(rows.row(token)[i]);
    for (std::int64_t i = 0; i < columns; ++i) gradient_[static_cast<std::size_t>(i)] = static_cast<float>(sums[i]);
  }
  void cross_entropy(const Kernel& kernel) {
    const std::int64_t vocabulary = model_.config.vocabulary, rows = kernel.bytes / 2 / (2 * vocabulary);
    ScratchScope scratch;
    float* const row = scratch.take<float>(vocabulary);
    Half* const logits = room_for(rows * vocabulary);
    for (std::int64_t r = 0; r < rows; ++r)
      cross_entropy_row<Bf16Storage>(logits + r * vocabulary, vocabulary, r % vocabulary, 1.0, row);
  }
  void embedding() {
    const std::int64_t hidden = model_.config.hidden;
    embedding_forward<Bf16Storage>(model_, batch_, tokens_.data(), take(model_.config.vocabulary * hidden),
                                   room_for(batch_.tokens() * hidden));
  }
  void embedding_gradient() {
    const std::int64_t hidden = model_.config.hidden;
    BoundGradient gradient(gradient_.data(), gradient_type_, true, model_.config.vocabulary * hidden);
    embedding_backward<Bf16Storage>(model_, batch_, tokens_.data(), take(batch_.tokens() * hidden), gradient);
  }

  const Model& model_;
  const BatchShape batch_;
  const ElementType gradient_type_;
  std::vector<Half> pool_, results_;
  std::int64_t at_ = 0, results_at_ = 0;
  std::vector<float> gradient_;
  std::vector<float> ready_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> lse_;
  bool once_ = true;  // the first chunk does what its op does once
};

HostKernels::HostKernels(const Model& model, BatchShape batch, ElementType gradient_type)
    : implementation_(std::make_unique<Implementation>(model, batch, gradient_type)) {}
HostKernels::~HostKernels() = default;
void HostKernels::run_op(const Kernel& kernel, std::int64_t chunks) { implementation_->run_op(kernel, chunks); }

}  // namespace penstock::exec
