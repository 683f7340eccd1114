// The middle of some measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace penstock {

/// Of an even count the mean of the middle two; 0 if there are none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace penstock
