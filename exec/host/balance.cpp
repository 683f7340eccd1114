#include "exec/host/balance.h"

#include <algorithm>

#include "exec/host/experts.h"
#include "exec/host/scratch.h"
#include "shared/ignored_label.h"

namespace penstock::exec {

template <class Element>
void begin_balance(const ModelConfig& config, BatchShape batch, Element* boundary) {
  if (balances(config)) std::fill_n(balance_at(config, batch, boundary), balance_elements(config), 0.0);
}

template <class Element>
void pass_balance_on(const ModelConfig& config, BatchShape batch, Element* from, Element* to) {
  if (balances(config) && from != to)
    std::copy_n(balance_at(config, batch, from), balance_elements(config), balance_at(config, batch, to));
}

std::int64_t RealTokens::places(std::int64_t sequence) const {
  const std::int64_t length = batch_.sequence_length;
  if (labels_ == nullptr) return length;
  const std::int32_t* const labels = labels_ + sequence * length;
  const std::int64_t last = starts_[sequence * length + length - 1];  // where the last document begins
  const bool is_padding =
      std::all_of(labels + last, labels + length, [](std::int32_t label) { return label == kIgnoredLabel; });
  return is_padding ? last : length;
}

template <class Real>
void add_balance(const Experts& experts, const Real* logits, const std::int32_t* choice, const RealTokens& tokens,
                 const double* before, double* after) {
  const std::int64_t count = experts.count, per_token = experts.per_token;
  ScratchScope scratch;
  Real* const probabilities = scratch.take<Real>(count);
  double* const sums = scratch.take<double>(2 * count);
  std::fill_n(sums, 2 * count, 0.0);
  tokens.for_each([&](std::int64_t token) {
    router_probabilities(logits + token * count, count, probabilities);
    for (std::int64_t j = 0; j < per_token; ++j) sums[choice[token * per_token + j]] += 1;
    for (std::int64_t e = 0; e < count; ++e) sums[count + e] += static_cast<double>(probabilities[e]);
  });
  for (std::int64_t i = 0; i < 2 * count; ++i) after[i] = before[i] + sums[i];
}

double balance_loss(const Experts& experts, const double* sums, double scale, double* gradient) {
  const std::int64_t count = experts.count;
  double choices = 0, products = 0;
  for (std::int64_t e = 0; e < count; ++e) choices += sums[e];
  const double tokens = choices / static_cast<double>(experts.per_token);
  const double share = tokens > 0 ? static_cast<double>(count) / (tokens * tokens) : 0;  // all may be padding
  for (std::int64_t e = 0; e < count; ++e) products += sums[e] * sums[count + e];
  for (std::int64_t e = 0; gradient != nullptr && e < count; ++e) {
    gradient[e] = scale * share * sums[e];
    gradient[count + e] = 0;
  }
  return share * products;
}

template <class Real>
void add_balance_gradient(const Experts& experts, const Real* logits, const RealTokens& tokens, const double* gradient,
                          Real* d_logits) {
  const std::int64_t count = experts.count;
  ScratchScope scratch;
  Real* const probabilities = scratch.take<Real>(count);
  tokens.for_each([&](std::int64_t token) {
    router_probabilities(logits + token * count, count, probabilities);
    Real mean = 0;
    for (std::int64_t e = 0; e < count; ++e) mean += probabilities[e] * static_cast<Real>(gradient[e]);
    Real* const out = d_logits + token * count;
    for (std::int64_t e = 0; e < count; ++e) out[e] += probabilities[e] * (static_cast<Real>(gradient[e]) - mean);
  });
}

template void begin_balance(const ModelConfig&, BatchShape, std::uint16_t*);
template void begin_balance(const ModelConfig&, BatchShape, double*);
template void pass_balance_on(const ModelConfig&, BatchShape, std::uint16_t*, std::uint16_t*);
template void pass_balance_on(const ModelConfig&, BatchShape, double*, double*);
template void add_balance(const Experts&, const float*, const std::int32_t*, const RealTokens&, const double*, double*);
template void add_balance(const Experts&, const double*, const std::int32_t*, const RealTokens&, const double*,
                          double*);
template void add_balance_gradient(const Experts&, const float*, const RealTokens&, const double*, float*);
template void add_balance_gradient(const Experts&, const double*, const RealTokens&, const double*, double*);

}  // namespace penstock::exec
