#include "sim/engine/power.h"

#include <algorithm>
#include <utility>

namespace penstock::sim {
namespace {

double between(const PowerPoint& low, const PowerPoint& high, double duty) {
  if (high.duty <= low.duty) return high.share;
  return low.share + (duty - low.duty) / (high.duty - low.duty) * (high.share - low.share);
}

using Curve = std::span<const PowerPoint>;

/// The measured curves, one per slowdown.
std::vector<Curve> curves(Curve measured) {
  std::vector<Curve> all;
  for (std::size_t begin = 0, end = 0; begin < measured.size(); begin = end) {
    while (end < measured.size() && measured[end].slowdown == measured[begin].slowdown) ++end;
    all.push_back(measured.subspan(begin, end - begin));
  }
  return all;
}

}  // namespace

double power_share(std::span<const PowerPoint> curve, double duty) {
  PowerPoint low{0, 0};
  for (const PowerPoint& high : curve) {
    if (duty <= high.duty) return between(low, high, duty);
    low = high;
  }
  return between(low, {1, 1}, duty);
}

std::vector<PowerPoint> power_curve(std::span<const PowerPoint> measured, double slowdown) {
  Curve below, above;  // the measured curves around it
  for (const Curve curve : curves(measured)) {
    if (below.empty() || curve.front().slowdown <= slowdown) below = curve;
    above = curve;
    if (curve.front().slowdown >= slowdown) break;
  }
  if (below.empty()) return {};
  const double low = below.front().slowdown, high = above.front().slowdown;
  const double share = high > low ? std::clamp((slowdown - low) / (high - low), 0.0, 1.0) : 0;
  std::vector<PowerPoint> curve;
  for (const auto points : {below, above})
    for (const PowerPoint& point : points) {
      const double from = power_share(below, point.duty), to = power_share(above, point.duty);
      curve.push_back({point.duty, from + share * (to - from), slowdown});
    }
  std::sort(curve.begin(), curve.end(), [](const PowerPoint& a, const PowerPoint& b) { return a.duty < b.duty; });
  curve.erase(std::unique(curve.begin(), curve.end(),
                          [](const PowerPoint& a, const PowerPoint& b) { return a.duty == b.duty; }),
              curve.end());
  return curve;
}

double least_power_share(std::span<const PowerPoint> measured, double duty) {
  std::vector<PowerPoint> points(measured.begin(), measured.end());
  points.insert(points.end(), {{0, 0}, {1, 1}});
  std::sort(points.begin(), points.end(), [](const PowerPoint& a, const PowerPoint& b) {
    return std::pair{a.duty, a.share} < std::pair{b.duty, b.share};
  });
  std::vector<PowerPoint> hull;  // from below
  for (const PowerPoint& point : points) {
    const auto above = [&](const PowerPoint& from, const PowerPoint& middle) {
      return (middle.share - from.share) * (point.duty - from.duty) >=
             (point.share - from.share) * (middle.duty - from.duty);
    };
    while (hull.size() > 1 && above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(point);
  }
  return power_share(hull, duty);
}

}  // namespace penstock::sim
