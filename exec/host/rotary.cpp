#include "exec/host/rotary.h"

#include <algorithm>
#include <cmath>

#include "exec/host/rmsnorm.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {
namespace {

template <class Real>
struct RotaryTable {
  std::vector<double> frequencies;  // what it was made for
  std::int64_t positions = 0;
  std::vector<Real> cosines;  // [positions, head_dim / 2]
  std::vector<Real> sines;
};

/// The table of the last model and length that this thread asked for: a run has one.
template <class Real>
const RotaryTable<Real>& rotary_table(const ModelConfig& config, std::int64_t positions) {
  thread_local RotaryTable<Real> table;
  std::vector<double> frequencies = rotary_frequencies(config);
  if (table.positions >= positions && table.frequencies == frequencies) return table;
  table.frequencies = std::move(frequencies);
  table.positions = positions;
  table.cosines.clear();
  table.sines.clear();
  for (std::int64_t position = 0; position < positions; ++position)
    for (const double frequency : table.frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      table.cosines.push_back(static_cast<Real>(std::cos(angle)));
      table.sines.push_back(static_cast<Real>(std::sin(angle)));
    }
  return table;
}

std::int64_t position_of(std::int64_t token, BatchShape batch, const std::int32_t* document_starts) {
  return batch.past + token % batch.sequence_length -
         (document_starts == nullptr ? 0 : document_starts[batch.past + token]);
}

template <class Real>
void rotate(Real* x, const Real* cosine, const Real* sine, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const Real low = x[i], high = x[i + half];
    x[i] = low * cosine[i] - high * sine[i];
    x[i + half] = high * cosine[i] + low * sine[i];
  }
}

/// The transpose of `rotate`: by the negative angle.
template <class Real>
void rotate_back(Real* x, const Real* cosine, const Real* sine, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const Real low = x[i], high = x[i + half];
    x[i] = low * cosine[i] + high * sine[i];
    x[i + half] = high * cosine[i] - low * sine[i];
  }
}

}  // namespace

template <class Storage>
void rotate_queries_and_keys(const Model& model, BatchShape batch, const std::int32_t* document_starts,
                             const typename Storage::Element* q_norm, const typename Storage::Element* k_norm,
                             typename Storage::Element* qkv, typename Storage::Element* qk_raw) {
  using Real = typename Storage::Real;
  const std::int64_t dim = model.config.head_dim, half = dim / 2;
  const std::int64_t query_heads = model.config.heads, heads = query_heads + model.config.kv_heads;
  const RotaryTable<Real>& table = rotary_table<Real>(model.config, batch.past + batch.sequence_length);
  ScratchScope scratch;
  Real* const head = scratch.take<Real>(dim);
  Real* const norms = scratch.take<Real>(2 * dim);
  if (q_norm != nullptr) {
    widen<Storage>(q_norm, dim, norms);
    widen<Storage>(k_norm, dim, norms + dim);
  }
  for (std::int64_t token = 0; token < batch.tokens(); ++token) {
    typename Storage::Element* const row = qkv + token * model.qkv_columns();
    if (q_norm != nullptr) std::copy_n(row, heads * dim, qk_raw + token * heads * dim);
    const std::int64_t position = position_of(token, batch, document_starts);
    for (std::int64_t h = 0; h < heads; ++h) {
      widen<Storage>(row + h * dim, dim, head);
      if (q_norm != nullptr)
        rmsnorm_row(head, norms + (h < query_heads ? 0 : dim), head, dim, model.config.rms_epsilon);
      rotate(head, table.cosines.data() + position * half, table.sines.data() + position * half, half);
      narrow<Storage>(head, dim, row + h * dim);
    }
  }
}

template <class Storage>
void rotate_queries_and_keys_backward(const Model& model, BatchShape batch, const std::int32_t* document_starts,
                                      const typename Storage::Element* q_norm, const typename Storage::Element* k_norm,
                                      const typename Storage::Element* qk_raw, typename Storage::Element* d_qkv,
                                      typename Storage::Real* d_q_norm, typename Storage::Real* d_k_norm) {
  using Real = typename Storage::Real;
  const std::int64_t dim = model.config.head_dim, half = dim / 2;
  const std::int64_t query_heads = model.config.heads, heads = query_heads + model.config.kv_heads;
  const RotaryTable<Real>& table = rotary_table<Real>(model.config, batch.past + batch.sequence_length);
  ScratchScope scratch;
  Real* const head = scratch.take<Real>(dim);
  Real* const raw = scratch.take<Real>(dim);
  Real* const norms = scratch.take<Real>(2 * dim);
  double* const d_norms = scratch.take<double>(2 * dim);
  if (q_norm != nullptr) {
    widen<Storage>(q_norm, dim, norms);
    widen<Storage>(k_norm, dim, norms + dim);
    std::fill_n(d_norms, 2 * dim, 0.0);
  }
  for (std::int64_t token = 0; token < batch.tokens(); ++token) {
    typename Storage::Element* const row = d_qkv + token * model.qkv_columns();
    const std::int64_t position = position_of(token, batch, document_starts);
    for (std::int64_t h = 0; h < heads; ++h) {
      widen<Storage>(row + h * dim, dim, head);
      rotate_back(head, table.cosines.data() + position * half, table.sines.data() + position * half, half);
      if (q_norm != nullptr) {
        const std::int64_t which = h < query_heads ? 0 : dim;
        widen<Storage>(qk_raw + (token * heads + h) * dim, dim, raw);
        rmsnorm_row_backward(raw, norms + which, head, head, d_norms + which, dim, model.config.rms_epsilon);
      }
      narrow<Storage>(head, dim, row + h * dim);
    }
  }
  if (q_norm == nullptr) return;
  for (std::int64_t i = 0; i < dim; ++i) {
    d_q_norm[i] = static_cast<Real>(d_norms[i]);
    d_k_norm[i] = static_cast<Real>(d_norms[dim + i]);
  }
}

template void rotate_queries_and_keys<Bf16Storage>(const Model&, BatchShape, const std::int32_t*, const std::uint16_t*,
                                                   const std::uint16_t*, std::uint16_t*, std::uint16_t*);
template void rotate_queries_and_keys<DoubleStorage>(const Model&, BatchShape, const std::int32_t*, const double*,
                                                     const double*, double*, double*);
template void rotate_queries_and_keys_backward<Bf16Storage>(const Model&, BatchShape, const std::int32_t*,
                                                            const std::uint16_t*, const std::uint16_t*,
                                                            const std::uint16_t*, std::uint16_t*, float*, float*);
template void rotate_queries_and_keys_backward<DoubleStorage>(const Model&, BatchShape, const std::int32_t*,
                                                              const double*, const double*, const double*, double*,
                                                              double*, double*);

}  // namespace penstock::exec
