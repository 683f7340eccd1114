// Compiled once for each instruction set (foreach_target.h includes this file again); cpu_target() says which one runs.
// Plain loops: the compiler makes vectors of them, and no order of additions is its to choose.
#include "exec/optimizer/norm.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/optimizer/norm.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "exec/numerics/bf16.h"
#include "exec/numerics/cpu_target.h"
#include "exec/optimizer/thread_team.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::exec {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kRows = kNormLeaf / kNormLanes;

struct Bf16Elements {
  using Type = std::uint16_t;
  static float load(Type value) { return widen_bf16(value); }
  static Type store(float value) { return round_to_bf16(value); }
};
struct Fp32Elements {
  using Type = float;
  static float load(Type value) { return value; }
  static Type store(float value) { return value; }
};

/// Calls body(Bf16Elements{} or Fp32Elements{}).
template <class Body>
auto with_elements(ElementType type, const Body& body) {
  return type == ElementType::bf16 ? body(Bf16Elements{}) : body(Fp32Elements{});
}

double add_pairwise(double (&lanes)[kNormLanes]) {
  for (int half = kNormLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// The square of an fp32 value is exact in fp64, so a product and an addition round as the fma does.
double leaf_of_squares(const float (&leaf)[kNormLeaf]) {
  double lanes[kNormLanes] = {};
  for (std::int64_t row = 0; row < kRows; ++row)
    for (int lane = 0; lane < kNormLanes; ++lane) {
      const double x = static_cast<double>(leaf[row * kNormLanes + lane]);
      lanes[lane] += x * x;
    }
  return add_pairwise(lanes);
}

/// One leaf of a layer's gradient: sum (+ tied), rounded to Out, which is what the norm sees.
template <class Sum, class Out>
void finish_leaf(const typename Sum::Type* sum, const typename Sum::Type* tied, typename Out::Type* out,
                 std::int64_t count, float* leaf) {
  for (std::int64_t i = 0; i < count; ++i) leaf[i] = Sum::load(sum[i]);
  if (tied != nullptr)
    for (std::int64_t i = 0; i < count; ++i) leaf[i] += Sum::load(tied[i]);
  for (std::int64_t i = 0; i < count; ++i) {
    const typename Out::Type rounded = Out::store(leaf[i]);
    out[i] = rounded;
    leaf[i] = Out::load(rounded);
  }
}

template <class In>
void square_leaves(const void* values, std::int64_t begin, std::int64_t end, double* leaves) {
  const auto* const from = static_cast<const typename In::Type*>(values);
  float leaf[kNormLeaf];
  for (; begin < end; begin += kNormLeaf) {
    const std::int64_t count = std::min(kNormLeaf, end - begin);
    for (std::int64_t i = 0; i < count; ++i) leaf[i] = In::load(from[begin + i]);
    std::fill(leaf + count, leaf + kNormLeaf, 0.0f);
    leaves[begin / kNormLeaf] = leaf_of_squares(leaf);
  }
}

template <class Sum, class Out>
void finish_leaves(const typename Sum::Type* sum, const typename Sum::Type* tied, typename Out::Type* out,
                   std::int64_t begin, std::int64_t end, double* leaves) {
  float leaf[kNormLeaf];
  for (; begin < end; begin += kNormLeaf) {
    const std::int64_t count = std::min(kNormLeaf, end - begin);
    finish_leaf<Sum, Out>(sum + begin, tied == nullptr ? nullptr : tied + begin, out + begin, count, leaf);
    std::fill(leaf + count, leaf + kNormLeaf, 0.0f);
    leaves[begin / kNormLeaf] = leaf_of_squares(leaf);
  }
}

template <class Part, class Sum>
void accumulate(const void* part, void* sum, bool first, std::int64_t begin, std::int64_t end) {
  const auto* const from = static_cast<const typename Part::Type*>(part);
  auto* const to = static_cast<typename Sum::Type*>(sum);
  if (first)
    for (std::int64_t i = begin; i < end; ++i) to[i] = Sum::store(Part::load(from[i]));
  else
    for (std::int64_t i = begin; i < end; ++i) to[i] = Sum::store(Sum::load(to[i]) + Part::load(from[i]));
}

}  // namespace

/// values[0, count) of one leaf; what is missing is zero.
double leaf_of_sums(const double* values, std::int64_t count) {
  double lanes[kNormLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i % kNormLanes] += values[i];
  return add_pairwise(lanes);
}

/// leaves[i] = the sum of squares of leaf i, of all leaves that begin in [begin, end).
void square_range(const void* values, ElementType type, std::int64_t begin, std::int64_t end, double* leaves) {
  with_elements(type, [&](auto in) { square_leaves<decltype(in)>(values, begin, end, leaves); });
}

/// The same of what finish_gradient_host writes.
void finish_range(const void* sum, ElementType sum_type, const void* tied, void* out, ElementType out_type,
                  std::int64_t begin, std::int64_t end, double* leaves) {
  with_elements(sum_type, [&](auto sum_elements) {
    with_elements(out_type, [&](auto out_elements) {
      using Sum = decltype(sum_elements);
      using Out = decltype(out_elements);
      finish_leaves<Sum, Out>(static_cast<const typename Sum::Type*>(sum), static_cast<const typename Sum::Type*>(tied),
                              static_cast<typename Out::Type*>(out), begin, end, leaves);
    });
  });
}

void accumulate_range(const void* part, ElementType part_type, void* sum, ElementType sum_type, bool first,
                      std::int64_t begin, std::int64_t end) {
  with_elements(part_type, [&](auto from) {
    with_elements(sum_type, [&](auto to) { accumulate<decltype(from), decltype(to)>(part, sum, first, begin, end); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace penstock::exec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::exec {

HWY_EXPORT(square_range);
HWY_EXPORT(finish_range);
HWY_EXPORT(accumulate_range);

namespace {

/// The levels above the first.
double reduce_leaves(std::vector<double> leaves) {
  if (leaves.empty()) return 0;
  while (leaves.size() > 1) {
    std::vector<double> next;
    const auto count = static_cast<std::int64_t>(leaves.size());
    for (std::int64_t begin = 0; begin < count; begin += kNormLeaf)
      next.push_back(HWY_STATIC_DISPATCH(leaf_of_sums)(leaves.data() + begin, std::min(kNormLeaf, count - begin)));
    leaves = std::move(next);
  }
  return leaves.front();
}

/// range(begin, end, leaves) fills in the leaves that begin in [begin, end).
template <class Range>
double reduce_squares(std::int64_t elements, int threads, const Range& range) {
  std::vector<double> leaves(static_cast<std::size_t>((elements + kNormLeaf - 1) / kNormLeaf));
  for_ranges(elements, kNormLeaf, threads,
             [&](std::int64_t begin, std::int64_t end) { range(begin, end, leaves.data()); });
  return reduce_leaves(std::move(leaves));
}

}  // namespace

double sum_of_squares_host(const void* values, ElementType type, std::int64_t elements, int threads) {
  cpu_target();
  return reduce_squares(elements, threads, [=](std::int64_t begin, std::int64_t end, double* leaves) {
    HWY_DYNAMIC_DISPATCH(square_range)(values, type, begin, end, leaves);
  });
}

double finish_gradient_host(const void* sum, ElementType sum_type, const void* tied, void* out, ElementType out_type,
                            std::int64_t elements, int threads) {
  cpu_target();
  return reduce_squares(elements, threads, [=](std::int64_t begin, std::int64_t end, double* leaves) {
    HWY_DYNAMIC_DISPATCH(finish_range)(sum, sum_type, tied, out, out_type, begin, end, leaves);
  });
}

void accumulate_host(const void* part, ElementType part_type, void* sum, ElementType sum_type, bool first,
                     std::int64_t elements, int threads) {
  cpu_target();
  for_ranges(elements, kNormLeaf, threads, [=](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(accumulate_range)(part, part_type, sum, sum_type, first, begin, end);
  });
}

}  // namespace penstock::exec
#endif  // HWY_ONCE
