#include "exec/optimizer/norm.h"

#include <algorithm>
#include <vector>

#include "exec/numerics/bf16.h"
#include "exec/optimizer/thread_team.h"

namespace penstock::exec {
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

/// values[0, count) of one leaf; what is missing is zero.
double leaf_of_sums(const double* values, std::int64_t count) {
  double lanes[kNormLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i % kNormLanes] += values[i];
  return add_pairwise(lanes);
}

/// The levels above the first.
double reduce_leaves(std::vector<double> leaves) {
  if (leaves.empty()) return 0;
  while (leaves.size() > 1) {
    std::vector<double> next;
    const auto count = static_cast<std::int64_t>(leaves.size());
    for (std::int64_t begin = 0; begin < count; begin += kNormLeaf)
      next.push_back(leaf_of_sums(leaves.data() + begin, std::min(kNormLeaf, count - begin)));
    leaves = std::move(next);
  }
  return leaves.front();
}

/// read(begin, count, leaf) fills leaf[0, count) with the elements from `begin` on, as they are to be squared.
template <class Read>
double reduce_squares(std::int64_t elements, int threads, const Read& read) {
  std::vector<double> leaves(static_cast<std::size_t>((elements + kNormLeaf - 1) / kNormLeaf));
  for_ranges(elements, kNormLeaf, threads, [&](std::int64_t range_begin, std::int64_t range_end) {
    float leaf[kNormLeaf];
    for (std::int64_t begin = range_begin; begin < range_end; begin += kNormLeaf) {
      const std::int64_t count = std::min(kNormLeaf, range_end - begin);
      read(begin, count, leaf);
      std::fill(leaf + count, leaf + kNormLeaf, 0.0f);
      leaves[static_cast<std::size_t>(begin / kNormLeaf)] = leaf_of_squares(leaf);
    }
  });
  return reduce_leaves(std::move(leaves));
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

}  // namespace

double sum_of_squares_host(const void* values, ElementType type, std::int64_t elements, int threads) {
  return with_elements(type, [&](auto in) {
    using In = decltype(in);
    const auto* const from = static_cast<const typename In::Type*>(values);
    return reduce_squares(elements, threads, [from](std::int64_t begin, std::int64_t count, float* leaf) {
      for (std::int64_t i = 0; i < count; ++i) leaf[i] = In::load(from[begin + i]);
    });
  });
}

double finish_gradient_host(const void* sum, ElementType sum_type, const void* tied, void* out, ElementType out_type,
                            std::int64_t elements, int threads) {
  return with_elements(sum_type, [&](auto sum_elements) {
    return with_elements(out_type, [&](auto out_elements) {
      using Sum = decltype(sum_elements);
      using Out = decltype(out_elements);
      const auto* const from = static_cast<const typename Sum::Type*>(sum);
      const auto* const other = static_cast<const typename Sum::Type*>(tied);
      auto* const to = static_cast<typename Out::Type*>(out);
      return reduce_squares(elements, threads, [=](std::int64_t begin, std::int64_t count, float* leaf) {
        finish_leaf<Sum, Out>(from + begin, other == nullptr ? nullptr : other + begin, to + begin, count, leaf);
      });
    });
  });
}

void accumulate_host(const void* part, ElementType part_type, void* sum, ElementType sum_type, bool first,
                     std::int64_t elements, int threads) {
  with_elements(part_type, [&](auto part_elements) {
    with_elements(sum_type, [&](auto sum_elements) {
      using Part = decltype(part_elements);
      using Sum = decltype(sum_elements);
      const auto* const from = static_cast<const typename Part::Type*>(part);
      auto* const to = static_cast<typename Sum::Type*>(sum);
      for_ranges(elements, kNormLeaf, threads, [=](std::int64_t begin, std::int64_t end) {
        if (first)
          for (std::int64_t i = begin; i < end; ++i) to[i] = Sum::store(Part::load(from[i]));
        else
          for (std::int64_t i = begin; i < end; ++i) to[i] = Sum::store(Sum::load(to[i]) + Part::load(from[i]));
      });
    });
  });
}

}  // namespace penstock::exec
