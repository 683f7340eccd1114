#include "exec/host/attention.h"

#include <algorithm>
#include <cmath>

#include "exec/host/lanes.h"
#include "exec/host/matmul.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kQueryBlock = kAttentionTile;

/// What the queries of one row see.
struct RowKeys {
  const AttentionSpec& spec;
  const std::int32_t* document_starts;  // of the row, or nullptr

  RowKeys(const AttentionSpec& s, const std::int32_t* starts, std::int64_t sequence)
      : spec(s), document_starts(starts == nullptr ? nullptr : starts + sequence * s.length) {}
  KeyRange of(std::int64_t query) const {
    const std::int64_t place = spec.past + query;
    return spec.keys_of(place, document_starts == nullptr ? 0 : document_starts[place]);
  }
  /// Of `rows` queries from `begin` on: documents lie one behind the other.
  KeyRange of_block(std::int64_t begin, std::int64_t rows) const { return {of(begin).begin, of(begin + rows - 1).end}; }
};

/// Rows [range.begin, range.end).
template <class Real>
Matrix<Real> rows_of(Matrix<Real> matrix, KeyRange range) {
  return {matrix.row(range.begin), range.end - range.begin, matrix.columns, matrix.stride};
}

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

/// Where they lie in keys and values of a chunk, or in their gradient.
template <class Element>
HeadColumns<Element> key_column(const AttentionSpec& spec, Element* kv, std::int64_t kv_head) {
  return {kv + kv_head * spec.head_dim, 2 * spec.kv_heads * spec.head_dim};
}
template <class Element>
HeadColumns<Element> value_column(const AttentionSpec& spec, Element* kv, std::int64_t kv_head) {
  return key_column(spec, kv, spec.kv_heads + kv_head);
}

/// Keys and values of one head of a sequence, whichever of the two places they are in.
template <class Storage>
void widen_keys(const SequenceHeads<const typename Storage::Element>& in, const typename Storage::Element* qkv,
                const ChunkKeys<Storage>& keys, std::int64_t kv_head, Matrix<typename Storage::Real> key,
                Matrix<typename Storage::Real> value) {
  const AttentionSpec& spec = in.spec;
  widen_rows<Storage>(spec.is_chunk ? key_column(spec, keys.kv, kv_head) : in.key(qkv, kv_head), 0, key);
  widen_rows<Storage>(spec.is_chunk ? value_column(spec, keys.kv, kv_head) : in.value(qkv, kv_head), 0, value);
}

/// scores[0, keys): values outside of `seen` become exactly 0. Returns nothing normalised: scores[i] = exp(scale
/// scores[i] - shift).
template <class Real>
void exponential_row(Real* scores, KeyRange seen, std::int64_t keys, Real scale, Real shift) {
  const auto hide_the_others = [&] {
    std::fill(scores, scores + seen.begin, Real{0});
    std::fill(scores + seen.end, scores + pad_to_lanes(keys), Real{0});
  };
  for (std::int64_t i = seen.begin; i < seen.end; ++i) scores[i] = scores[i] * scale - shift;
  hide_the_others();
  exponentials(scores, seen.end);
  hide_the_others();
}

/// One block of queries of one head. `scores` [rows, keys from first_key on] becomes P; context = P v / rowsum.
template <class Real>
void softmax_block(const RowKeys& visible, Matrix<Real> scores, std::int64_t first_query, std::int64_t first_key,
                   Real scale, Real* inverse_sums, Real* lse) {
  for (std::int64_t r = 0; r < scores.rows; ++r) {
    Real* const row = scores.row(r);
    const KeyRange range = visible.of(first_query + r), seen{range.begin - first_key, range.end - first_key};
    const Real largest = lane_max(row + seen.begin, seen.end - seen.begin) * scale;
    exponential_row(row, seen, scores.columns, scale, largest);
    const Real sum = lane_sum<Real>(seen.end, [row](std::int64_t i) { return row[i]; });
    inverse_sums[r] = Real{1} / sum;
    lse[first_query + r] = largest + std::log(sum);
  }
}

}  // namespace

template <class Storage>
void attention_forward(const AttentionSpec& spec, const std::int32_t* document_starts,
                       const typename Storage::Element* qkv, const ChunkKeys<Storage>& chunk_keys,
                       typename Storage::Element* context, typename Storage::Real* lse) {
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;
  const std::int64_t length = spec.length, dim = spec.head_dim, group = spec.group(), all_keys = spec.keys();
  const Real scale = static_cast<Real>(1.0 / std::sqrt(static_cast<double>(dim)));
  ScratchScope scratch;
  const Matrix<Real> key(scratch.take<Real>(all_keys * dim), all_keys, dim);
  const Matrix<Real> value(scratch.take<Real>(all_keys * dim), all_keys, dim);
  Real* const query_block = scratch.take<Real>(kQueryBlock * dim);
  Real* const context_block = scratch.take<Real>(kQueryBlock * dim);
  Real* const score_block = scratch.take<Real>(kQueryBlock * pad_to_lanes(all_keys));
  Real inverse_sums[kQueryBlock];
  for (std::int64_t sequence = 0; sequence < spec.sequences; ++sequence) {
    const SequenceHeads<const Element> in{spec, sequence * length};
    const SequenceHeads<Element> out{spec, sequence * length};
    const RowKeys visible(spec, document_starts, sequence);
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      if (head % group == 0) widen_keys<Storage>(in, qkv, chunk_keys, head / group, key, value);
      Real* const head_lse = lse + (sequence * spec.heads + head) * length;
      for (std::int64_t begin = 0; begin < length; begin += kQueryBlock) {
        const std::int64_t rows = std::min(kQueryBlock, length - begin);
        const KeyRange keys = visible.of_block(begin, rows);
        const Matrix<Real> query(query_block, rows, dim), result(context_block, rows, dim);
        const Matrix<Real> scores(score_block, rows, keys.end - keys.begin, pad_to_lanes(all_keys));
        widen_rows<Storage>(in.query(qkv, head), begin, query);
        multiply_transposed(query, rows_of(key, keys), scores);
        softmax_block(visible, scores, begin, keys.begin, scale, inverse_sums, head_lse);
        multiply(scores, rows_of(value, keys), result);
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
  Matrix<Real> key, value, d_key, d_value;  // [keys, head_dim]
  Real *query, *context, *d_context, *d_query;
  Real *scores, *d_scores;
  std::int64_t score_stride;

  BackwardBlocks(ScratchScope& scratch, std::int64_t keys, std::int64_t dim)
      : key(scratch.take<Real>(keys * dim), keys, dim),
        value(scratch.take<Real>(keys * dim), keys, dim),
        d_key(scratch.take<Real>(keys * dim), keys, dim),
        d_value(scratch.take<Real>(keys * dim), keys, dim),
        query(scratch.take<Real>(kQueryBlock * dim)),
        context(scratch.take<Real>(kQueryBlock * dim)),
        d_context(scratch.take<Real>(kQueryBlock * dim)),
        d_query(scratch.take<Real>(kQueryBlock * dim)),
        scores(scratch.take<Real>(kQueryBlock * pad_to_lanes(keys))),
        d_scores(scratch.take<Real>(kQueryBlock * pad_to_lanes(keys))),
        score_stride(pad_to_lanes(keys)) {}
};

/// Queries [begin, begin + rows): fills d_query, adds to d_key and d_value.
template <class Real>
void backward_block(const RowKeys& visible, const BackwardBlocks<Real>& b, std::int64_t begin, std::int64_t rows,
                    Real scale, const Real* lse) {
  const KeyRange range = visible.of_block(begin, rows);
  const std::int64_t dim = b.key.columns, keys = range.end - range.begin;
  const Matrix<Real> query(b.query, rows, dim), context(b.context, rows, dim), d_context(b.d_context, rows, dim);
  const Matrix<Real> key = rows_of(b.key, range), value = rows_of(b.value, range);
  const Matrix<Real> scores(b.scores, rows, keys, b.score_stride), d_scores(b.d_scores, rows, keys, b.score_stride);
  multiply_transposed(query, key, scores);
  multiply_transposed(d_context, value, d_scores);
  for (std::int64_t r = 0; r < rows; ++r) {
    Real* const p = scores.row(r);
    Real* const ds = d_scores.row(r);
    const Real *const o = context.row(r), *const d_o = d_context.row(r);
    const KeyRange own = visible.of(begin + r);
    exponential_row(p, {own.begin - range.begin, own.end - range.begin}, keys, scale, lse[begin + r]);
    const Real dot = lane_sum<Real>(dim, [=](std::int64_t i) { return o[i] * d_o[i]; });
    for (std::int64_t i = 0; i < keys; ++i) ds[i] = p[i] * (ds[i] - dot) * scale;
  }
  multiply(d_scores, key, Matrix<Real>(b.d_query, rows, dim));
  add_transposed_product(d_scores, query, rows_of(b.d_key, range));
  add_transposed_product(scores, d_context, rows_of(b.d_value, range));
}

/// One head's part of the gradient of keys, or values: adds `part` to `sum`, and rounds the rows of the chunk itself,
/// which are whole now, to `own`.
template <class Storage>
void add_to_keys(const ChunkKeys<Storage>& keys, HeadColumns<typename Storage::Real> sum,
                 Matrix<typename Storage::Real> part, HeadColumns<typename Storage::Element> own, std::int64_t past) {
  for (std::int64_t r = 0; r < part.rows; ++r) {
    typename Storage::Real* const row = sum.first + r * sum.stride;
    for (std::int64_t i = 0; i < part.columns; ++i) row[i] = keys.adds ? row[i] + part.row(r)[i] : part.row(r)[i];
    if (r >= past) narrow<Storage>(row, part.columns, own.first + (r - past) * own.stride);
  }
}

}  // namespace

template <class Storage>
void attention_backward(const AttentionSpec& spec, const std::int32_t* document_starts,
                        const typename Storage::Element* qkv, const ChunkKeys<Storage>& chunk_keys,
                        const typename Storage::Element* context, const typename Storage::Real* lse,
                        const typename Storage::Element* d_context, typename Storage::Element* d_qkv) {
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;
  const std::int64_t length = spec.length, dim = spec.head_dim, group = spec.group();
  const Real scale = static_cast<Real>(1.0 / std::sqrt(static_cast<double>(dim)));
  ScratchScope scratch;
  const BackwardBlocks<Real> blocks(scratch, spec.keys(), dim);
  for (std::int64_t sequence = 0; sequence < spec.sequences; ++sequence) {
    const SequenceHeads<const Element> in{spec, sequence * length};
    const SequenceHeads<Element> out{spec, sequence * length};
    const RowKeys visible(spec, document_starts, sequence);
    for (std::int64_t kv_head = 0; kv_head < spec.kv_heads; ++kv_head) {
      widen_keys<Storage>(in, qkv, chunk_keys, kv_head, blocks.key, blocks.value);
      std::fill_n(blocks.d_key.data, spec.keys() * dim, Real{0});
      std::fill_n(blocks.d_value.data, spec.keys() * dim, Real{0});
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const Real* const head_lse = lse + (sequence * spec.heads + head) * length;
        for (std::int64_t begin = 0; begin < length; begin += kQueryBlock) {
          const std::int64_t rows = std::min(kQueryBlock, length - begin);
          widen_rows<Storage>(
              chunk_keys.queries != nullptr ? in.context(chunk_keys.queries, head) : in.query(qkv, head), begin,
              Matrix<Real>(blocks.query, rows, dim));
          widen_rows<Storage>(in.context(context, head), begin, Matrix<Real>(blocks.context, rows, dim));
          widen_rows<Storage>(in.context(d_context, head), begin, Matrix<Real>(blocks.d_context, rows, dim));
          backward_block(visible, blocks, begin, rows, scale, head_lse);
          narrow_rows<Storage>(Matrix<Real>(blocks.d_query, rows, dim), out.query(d_qkv, head), begin);
        }
      }
      if (spec.is_chunk) {
        add_to_keys<Storage>(chunk_keys, key_column(spec, chunk_keys.gradient, kv_head), blocks.d_key,
                             out.key(d_qkv, kv_head), spec.past);
        add_to_keys<Storage>(chunk_keys, value_column(spec, chunk_keys.gradient, kv_head), blocks.d_value,
                             out.value(d_qkv, kv_head), spec.past);
        continue;
      }
      narrow_rows<Storage>(blocks.d_key, out.key(d_qkv, kv_head), 0);
      narrow_rows<Storage>(blocks.d_value, out.value(d_qkv, kv_head), 0);
    }
  }
}

template void attention_forward<Bf16Storage>(const AttentionSpec&, const std::int32_t*, const std::uint16_t*,
                                             const ChunkKeys<Bf16Storage>&, std::uint16_t*, float*);
template void attention_forward<DoubleStorage>(const AttentionSpec&, const std::int32_t*, const double*,
                                               const ChunkKeys<DoubleStorage>&, double*, double*);
template void attention_backward<Bf16Storage>(const AttentionSpec&, const std::int32_t*, const std::uint16_t*,
                                              const ChunkKeys<Bf16Storage>&, const std::uint16_t*, const float*,
                                              const std::uint16_t*, std::uint16_t*);
template void attention_backward<DoubleStorage>(const AttentionSpec&, const std::int32_t*, const double*,
                                                const ChunkKeys<DoubleStorage>&, const double*, const double*,
                                                const double*, double*);

}  // namespace penstock::exec
