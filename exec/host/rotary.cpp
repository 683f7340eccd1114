#include "exec/host/rotary.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "exec/host/rmsnorm.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {
namespace {

template <class Real>
struct RotaryTable {
  std::vector<double> frequencies;  // what it was made for
  double factor = 0;
  std::int64_t positions = 0;
  std::vector<Real> cosines;  // [positions, head_dim / 2]
  std::vector<Real> sines;
};

/// The table of the last model and length that this thread asked for: a run has one.
template <class Real>
const RotaryTable<Real>& rotary_table(const ModelConfig& config, std::int64_t positions) {
  thread_local RotaryTable<Real> table;
  const double factor = config.rope_attention_factor;
  std::vector<double> frequencies = rotary_frequencies(config, positions);
  if (table.positions >= positions && table.factor == factor && table.frequencies == frequencies) return table;
  table.frequencies = std::move(frequencies);
  table.factor = factor;
  table.positions = positions;
  table.cosines.clear();
  table.sines.clear();
  for (std::int64_t position = 0; position < positions; ++position)
    for (const double frequency : table.frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      table.cosines.push_back(static_cast<Real>(factor * std::cos(angle)));
      table.sines.push_back(static_cast<Real>(factor * std::sin(angle)));
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

/// The transpose of `rotate`.
template <class Real>
void rotate_back(Real* x, const Real* cosine, const Real* sine, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const Real low = x[i], high = x[i + half];
    x[i] = low * cosine[i] + high * sine[i];
    x[i + half] = high * cosine[i] - low * sine[i];
  }
}

/// Columns of q or k that are normed together, and where they lie in a row of qkv and of qk_raw.
struct NormedUnits {
  std::int64_t first = 0, width = 0, count = 0;
};

/// Those of q, then of k.
std::array<NormedUnits, 2> normed_units(const Model& model) {
  const auto [q_width, k_width] = qk_norm_widths(model);
  const std::int64_t queries = model.query_columns(), keys = model.key_columns();
  return {{{0, q_width, queries / q_width}, {queries, k_width, keys / k_width}}};
}

}  // namespace

QkNormWidths qk_norm_widths(const Model& model) {
  const ModelConfig& config = model.config;
  if (config.qk_norm_whole) return {model.query_columns(), model.key_columns()};
  return {config.head_dim, config.head_dim};
}

template <class Storage>
void rotate_queries_and_keys(const Model& model, BatchShape batch, const std::int32_t* document_starts,
                             const typename Storage::Element* q_norm, const typename Storage::Element* k_norm,
                             typename Storage::Element* qkv, typename Storage::Element* qk_raw) {
  using Real = typename Storage::Real;
  const std::int64_t dim = model.config.head_dim, half = dim / 2;
  const std::int64_t columns = model.query_columns() + model.key_columns();
  const std::array<NormedUnits, 2> units = normed_units(model);
  const RotaryTable<Real>& table = rotary_table<Real>(model.config, batch.row_tokens());
  ScratchScope scratch;
  Real* const unit = scratch.take<Real>(std::max(units[0].width, units[1].width));
  Real* const norms[] = {scratch.take<Real>(units[0].width), scratch.take<Real>(units[1].width)};
  if (q_norm != nullptr) {
    widen<Storage>(q_norm, units[0].width, norms[0]);
    widen<Storage>(k_norm, units[1].width, norms[1]);
  }
  for (std::int64_t token = 0; token < batch.tokens(); ++token) {
    typename Storage::Element* const row = qkv + token * model.qkv_columns();
    if (q_norm != nullptr) std::copy_n(row, columns, qk_raw + token * columns);
    const std::int64_t position = position_of(token, batch, document_starts);
    const Real *const cosines = table.cosines.data() + position * half, *const sines =
                                                                            table.sines.data() + position * half;
    for (int which = 0; which < 2; ++which)
      for (std::int64_t u = 0; u < units[which].count; ++u) {
        const std::int64_t width = units[which].width;
        typename Storage::Element* const place = row + units[which].first + u * width;
        widen<Storage>(place, width, unit);
        if (q_norm != nullptr) rmsnorm_row(unit, norms[which], unit, width, model.config.rms_epsilon);
        for (std::int64_t at = 0; at < width; at += dim) rotate(unit + at, cosines, sines, half);
        narrow<Storage>(unit, width, place);
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
  const std::int64_t columns = model.query_columns() + model.key_columns();
  const std::array<NormedUnits, 2> units = normed_units(model);
  const RotaryTable<Real>& table = rotary_table<Real>(model.config, batch.row_tokens());
  ScratchScope scratch;
  Real* const unit = scratch.take<Real>(std::max(units[0].width, units[1].width));
  Real* const raw = scratch.take<Real>(std::max(units[0].width, units[1].width));
  Real* const norms[] = {scratch.take<Real>(units[0].width), scratch.take<Real>(units[1].width)};
  double* const d_norms[] = {scratch.take<double>(units[0].width), scratch.take<double>(units[1].width)};
  if (q_norm != nullptr) {
    widen<Storage>(q_norm, units[0].width, norms[0]);
    widen<Storage>(k_norm, units[1].width, norms[1]);
    for (int which = 0; which < 2; ++which) std::fill_n(d_norms[which], units[which].width, 0.0);
  }
  for (std::int64_t token = 0; token < batch.tokens(); ++token) {
    typename Storage::Element* const row = d_qkv + token * model.qkv_columns();
    const std::int64_t position = position_of(token, batch, document_starts);
    const Real *const cosines = table.cosines.data() + position * half, *const sines =
                                                                            table.sines.data() + position * half;
    for (int which = 0; which < 2; ++which)
      for (std::int64_t u = 0; u < units[which].count; ++u) {
        const std::int64_t width = units[which].width, first = units[which].first + u * width;
        widen<Storage>(row + first, width, unit);
        for (std::int64_t at = 0; at < width; at += dim) rotate_back(unit + at, cosines, sines, half);
        if (q_norm != nullptr) {
          widen<Storage>(qk_raw + token * columns + first, width, raw);
          rmsnorm_row_backward(raw, norms[which], unit, unit, d_norms[which], width, model.config.rms_epsilon);
        }
        narrow<Storage>(unit, width, row + first);
      }
  }
  if (q_norm == nullptr) return;
  for (std::int64_t i = 0; i < units[0].width; ++i) d_q_norm[i] = static_cast<Real>(d_norms[0][i]);
  for (std::int64_t i = 0; i < units[1].width; ++i) d_k_norm[i] = static_cast<Real>(d_norms[1][i]);
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
