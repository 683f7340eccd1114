// Reductions whose order is written down: 16 lanes, element i in lane i mod 16, then the lanes pairwise. A compiler may
// vectorise them but not reorder them, and the alignment of the data plays no part (Eigen's own reductions peel to an
// aligned address first).
#pragma once

#include <cstdint>

namespace penstock::exec {

inline constexpr int kLanes = 16;

/// Sum over i in [0, count) of term(i), added in type T.
template <class T, class Term>
T lane_sum(std::int64_t count, const Term& term) {
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<T>(term(i + lane));
  for (int lane = 0; i + lane < count; ++lane) lanes[lane] += static_cast<T>(term(i + lane));
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// Largest of values[0, count). REQUIRES: count > 0. A NaN may or may not be passed over.
template <class T>
T lane_max(const T* values, std::int64_t count) {
  T lanes[kLanes];
  for (T& lane : lanes) lane = values[0];
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane)
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
  for (; i < count; ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      lanes[lane] = lanes[lane + half] > lanes[lane] ? lanes[lane + half] : lanes[lane];
  return lanes[0];
}

}  // namespace penstock::exec
