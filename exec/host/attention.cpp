#include "exec/host/attention.h"

#include <algorithm>
#include <cmath>

#include "exec/host/lanes.h"
#include "exec/host/matmul.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kQueryBlock = 64;

/// The columns of one head in a [tokens, row_columns] tensor, from the sequence's first token on.
template <class Element>
struct HeadColumns {
  Element* first = nullptr;
  std::int64_t stride = 0;
};

template <class Storage>
void widen_rows(HeadColumns<const typename Storage::Element> from, std::int64_t begin,
                Matrix<typename Storage::Real> to) {
  for (std::int64_t r = 0; r < to.rows; ++r)
    widen<Storage>(from.first + (begin + r) * from.stride, to.columns, to.row(r));
}

template <class Storage>
void narrow_rows(Matrix<typename Storage::Real> from, HeadColumns<typename Storage::Element> to, std::int64_t begin) {
  for (std::int64_t r = 0; r < from.rows; ++r)
    narrow<Storage>(from.row(r), from.columns, to.first + (begin + r) * to.stride);
}

/// Where the heads of one sequence lie in qkv and in context.
template <class Element>
struct SequenceHeads {
  const AttentionSpec& spec;
  std::int64_t first_token = 0;

  std::int64_t dim() const { return spec.head_dim; }
  HeadColumns<Element> in_qkv(Element* qkv, std::int64_t column) const {
    return {qkv + first_token * spec.columns() + column, spec.columns()};
  }
  HeadColumns<Element> query(Element* qkv, std::int64_t head) const { return in_qkv(qkv, head * dim()); }
  HeadColumns<Element> key(Element* qkv, std::int64_t kv_head) const {
    return in_qkv(qkv, spec.context_columns() + kv_head * dim());
  }
  HeadColumns<Element> value(Element* qkv, std::int64_t kv_head) const {
    return in_qkv(qkv, spec.context_columns() + spec.kv_heads * spec.head_dim + kv_head * dim());
  }
  HeadColumns<Element> context(Element* columns, std::int64_t head) const {
    return {columns + first_token * spec.context_columns() + head * dim(), spec.context_columns()};
  }
};

/// scores[0, keys): values behind `valid` are later than the query; they become exactly 0. Returns nothing normalised:
/// scores[i] = exp(scale scores[i] - shift).
template <class Real>
void exponential_row(Real* scores, std::int64_t valid, std::int64_t keys, Real scale, Real shift) {
  for (std::int64_t i = 0; i < valid; ++i) scores[i] = scores[i] * scale - shift;
  std::fill(scores + valid, scores + pad_to_lanes(keys), Real{0});
  exponentials(scores, valid);
  std::fill(scores + valid, scores + pad_to_lanes(keys), Real{0});
}

/// One block of queries of one head. `scores` [rows, keys] becomes P; context = P v / rowsum.
template <class Real>
void softmax_block(const AttentionSpec& spec, Matrix<Real> scores, std::int64_t first_query, Real scale,
                   Real* inverse_sums, Real* lse) {
  for (std::int64_t r = 0; r < scores.rows; ++r) {
    Real* const row = scores.row(r);
    const std::int64_t valid = spec.keys_of(first_query + r).end;
    const Real largest = lane_max(row, valid) * scale;
    exponential_row(row, valid, scores.columns, scale, largest);
    const Real sum = lane_sum<Real>(valid, [row](std::int64_t i) { return row[i]; });
    inverse_sums[r] = Real{1} / sum;
    lse[first_query + r] = largest + std::log(sum);
  }
}

}  // namespace

template <class Storage>
void attention_forward(const AttentionSpec& spec, const typename Storage::Element* qkv,
                       typename Storage::Element* context, typename Storage::Real* lse) {
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;
  const std::int64_t length = spec.length, dim = spec.head_dim, group = spec.group();
  const Real scale = static_cast<Real>(1.0 / std::sqrt(static_cast<double>(dim)));
  ScratchScope scratch;
  const Matrix<Real> key(scratch.take<Real>(length * dim), length, dim);
  const Matrix<Real> value(scratch.take<Real>(length * dim), length, dim);
  Real* const query_block = scratch.take<Real>(kQueryBlock * dim);
  Real* const context_block = scratch.take<Real>(kQueryBlock * dim);
  Real* const score_block = scratch.take<Real>(kQueryBlock * pad_to_lanes(length));
  Real inverse_sums[kQueryBlock];
  for (std::int64_t sequence = 0; sequence < spec.sequences; ++sequence) {
    const SequenceHeads<const Element> in{spec, sequence * length};
    const SequenceHeads<Element> out{spec, sequence * length};
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      if (head % group == 0) {
        widen_rows<Storage>(in.key(qkv, head / group), 0, key);
        widen_rows<Storage>(in.value(qkv, head / group), 0, value);
      }
      Real* const head_lse = lse + (sequence * spec.heads + head) * length;
      for (std::int64_t begin = 0; begin < length; begin += kQueryBlock) {
        const std::int64_t rows = std::min(kQueryBlock, length - begin);
        const std::int64_t keys = spec.keys_of(begin + rows - 1).end;
        const Matrix<Real> query(query_block, rows, dim), result(context_block, rows, dim);
        const Matrix<Real> scores(score_block, rows, keys, pad_to_lanes(length));
        widen_rows<Storage>(in.query(qkv, head), begin, query);
        multiply_transposed(query, Matrix<Real>(key.data, keys, dim), scores);
        softmax_block(spec, scores, begin, scale, inverse_sums, head_lse);
        multiply(scores, Matrix<Real>(value.data, keys, dim), result);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t i = 0; i < dim; ++i) result.row(r)[i] *= inverse_sums[r];
        narrow_rows<Storage>(result, out.context(context, head), begin);
      }
    }
  }
}

namespace {

/// Scratch of the backward pass of one key-value head, and one block of queries of one of its heads.
template <class Real>
struct BackwardBlocks {
  Matrix<Real> key, value, d_key, d_value;  // [length, head_dim]
  Real *query, *context, *d_context, *d_query;
  Real *scores, *d_scores;
  std::int64_t score_stride;

  BackwardBlocks(ScratchScope& scratch, std::int64_t length, std::int64_t dim)
      : key(scratch.take<Real>(length * dim), length, dim),
        value(scratch.take<Real>(length * dim), length, dim),
        d_key(scratch.take<Real>(length * dim), length, dim),
        d_value(scratch.take<Real>(length * dim), length, dim),
        query(scratch.take<Real>(kQueryBlock * dim)),
        context(scratch.take<Real>(kQueryBlock * dim)),
        d_context(scratch.take<Real>(kQueryBlock * dim)),
        d_query(scratch.take<Real>(kQueryBlock * dim)),
        scores(scratch.take<Real>(kQueryBlock * pad_to_lanes(length))),
        d_scores(scratch.take<Real>(kQueryBlock * pad_to_lanes(length))),
        score_stride(pad_to_lanes(length)) {}
};

/// Queries [begin, begin + rows): fills d_query, adds to d_key and d_value.
template <class Real>
void backward_block(const AttentionSpec& spec, const BackwardBlocks<Real>& b, std::int64_t begin, std::int64_t rows,
                    Real scale, const Real* lse) {
  const std::int64_t dim = b.key.columns, keys = spec.keys_of(begin + rows - 1).end;
  const Matrix<Real> query(b.query, rows, dim), context(b.context, rows, dim), d_context(b.d_context, rows, dim);
  const Matrix<Real> key(b.key.data, keys, dim), value(b.value.data, keys, dim);
  const Matrix<Real> scores(b.scores, rows, keys, b.score_stride), d_scores(b.d_scores, rows, keys, b.score_stride);
  multiply_transposed(query, key, scores);
  multiply_transposed(d_context, value, d_scores);
  for (std::int64_t r = 0; r < rows; ++r) {
    Real* const p = scores.row(r);
    Real* const ds = d_scores.row(r);
    const Real *const o = context.row(r), *const d_o = d_context.row(r);
    exponential_row(p, spec.keys_of(begin + r).end, keys, scale, lse[begin + r]);
    const Real dot = lane_sum<Real>(dim, [=](std::int64_t i) { return o[i] * d_o[i]; });
    for (std::int64_t i = 0; i < keys; ++i) ds[i] = p[i] * (ds[i] - dot) * scale;
  }
  multiply(d_scores, key, Matrix<Real>(b.d_query, rows, dim));
  add_transposed_product(d_scores, query, Matrix<Real>(b.d_key.data, keys, dim));
  add_transposed_product(scores, d_context, Matrix<Real>(b.d_value.data, keys, dim));
}

}  // namespace

template <class Storage>
void attention_backward(const AttentionSpec& spec, const typename Storage::Element* qkv,
                        const typename Storage::Element* context, const typename Storage::Real* lse,
                        const typename Storage::Element* d_context, typename Storage::Element* d_qkv) {
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;
  const std::int64_t length = spec.length, dim = spec.head_dim, group = spec.group();
  const Real scale = static_cast<Real>(1.0 / std::sqrt(static_cast<double>(dim)));
  ScratchScope scratch;
  const BackwardBlocks<Real> blocks(scratch, length, dim);
  for (std::int64_t sequence = 0; sequence < spec.sequences; ++sequence) {
    const SequenceHeads<const Element> in{spec, sequence * length};
    const SequenceHeads<Element> out{spec, sequence * length};
    for (std::int64_t kv_head = 0; kv_head < spec.kv_heads; ++kv_head) {
      widen_rows<Storage>(in.key(qkv, kv_head), 0, blocks.key);
      widen_rows<Storage>(in.value(qkv, kv_head), 0, blocks.value);
      std::fill_n(blocks.d_key.data, length * dim, Real{0});
      std::fill_n(blocks.d_value.data, length * dim, Real{0});
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const Real* const head_lse = lse + (sequence * spec.heads + head) * length;
        for (std::int64_t begin = 0; begin < length; begin += kQueryBlock) {
          const std::int64_t rows = std::min(kQueryBlock, length - begin);
          widen_rows<Storage>(in.query(qkv, head), begin, Matrix<Real>(blocks.query, rows, dim));
          widen_rows<Storage>(in.context(context, head), begin, Matrix<Real>(blocks.context, rows, dim));
          widen_rows<Storage>(in.context(d_context, head), begin, Matrix<Real>(blocks.d_context, rows, dim));
          backward_block(spec, blocks, begin, rows, scale, head_lse);
          narrow_rows<Storage>(Matrix<Real>(blocks.d_query, rows, dim), out.query(d_qkv, head), begin);
        }
      }
      narrow_rows<Storage>(blocks.d_key, out.key(d_qkv, kv_head), 0);
      narrow_rows<Storage>(blocks.d_value, out.value(d_qkv, kv_head), 0);
    }
  }
}

template void attention_forward<Bf16Storage>(const AttentionSpec&, const std::uint16_t*, std::uint16_t*, float*);
template void attention_forward<DoubleStorage>(const AttentionSpec&, const double*, double*, double*);
template void attention_backward<Bf16Storage>(const AttentionSpec&, const std::uint16_t*, const std::uint16_t*,
                                              const float*, const std::uint16_t*, std::uint16_t*);
template void attention_backward<DoubleStorage>(const AttentionSpec&, const double*, const double*, const double*,
                                                const double*, double*);

}  // namespace penstock::exec
