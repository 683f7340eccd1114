#include "sim/cost/rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::sim {
namespace {

double distance(double a, double b) { return std::abs(std::log(std::max(a, 1.0) / std::max(b, 1.0))); }

bool same_shape(const MatmulPoint& point, const Kernel& kernel) {
  return point.m == kernel.m && point.n == kernel.n && point.k == kernel.k;
}

/// Points that share two extents with the kernel, seen along the third.
struct Along {
  std::int64_t MatmulPoint::*extent;
  std::int64_t Kernel::*wanted;
};

/// Time between the nearest points below and above along one extent; 0 if the kernel is not between two.
double between(const Gpu& gpu, const Kernel& kernel, const Along& along, bool accumulates) {
  const MatmulPoint *below = nullptr, *above = nullptr;
  const std::int64_t wanted = kernel.*along.wanted;
  for (const MatmulPoint& point : gpu.matmuls) {
    Kernel shifted = kernel;
    shifted.*along.wanted = point.*along.extent;
    if (point.accumulates != accumulates || !same_shape(point, shifted)) continue;
    const std::int64_t extent = point.*along.extent;
    if (extent <= wanted && (below == nullptr || extent > below->*along.extent)) below = &point;
    if (extent >= wanted && (above == nullptr || extent < above->*along.extent)) above = &point;
  }
  if (below == nullptr || above == nullptr) return 0;
  if (below == above) return below->seconds;
  const double low = static_cast<double>(below->*along.extent), high = static_cast<double>(above->*along.extent);
  const double share = (static_cast<double>(wanted) - low) / (high - low);
  return below->seconds + share * (above->seconds - below->seconds);
}

double point_flops(const MatmulPoint& point) {
  return 2.0 * static_cast<double>(point.m) * static_cast<double>(point.n) * static_cast<double>(point.k);
}

double nearest_matmul(const Gpu& gpu, const Kernel& kernel) {
  const MatmulPoint* nearest = nullptr;
  double nearest_distance = std::numeric_limits<double>::infinity();
  for (const MatmulPoint& point : gpu.matmuls) {
    const auto apart = [](std::int64_t a, std::int64_t b) {
      return distance(static_cast<double>(a), static_cast<double>(b));
    };
    // Whether it accumulates matters less than a factor of e^0.1 in any extent.
    const double total = apart(point.m, kernel.m) + apart(point.n, kernel.n) + apart(point.k, kernel.k) +
                         (point.accumulates == kernel.accumulates ? 0 : 0.1);
    if (total < nearest_distance) {
      nearest_distance = total;
      nearest = &point;
    }
  }
  return nearest->seconds * kernel.flops / point_flops(*nearest);
}

double burst_matmul_rate(const Gpu& gpu) {
  return gpu.matmul_burst_flops_per_second > 0 ? gpu.matmul_burst_flops_per_second : gpu.matmul_flops_per_second;
}

double matmul_burst_seconds(const Gpu& gpu, const Kernel& kernel) {
  if (gpu.matmuls.empty()) return kernel.flops / burst_matmul_rate(gpu);
  static constexpr Along kAlong[] = {
      {&MatmulPoint::m, &Kernel::m}, {&MatmulPoint::k, &Kernel::k}, {&MatmulPoint::n, &Kernel::n}};
  for (const bool accumulates : {kernel.accumulates, !kernel.accumulates})
    for (const Along& along : kAlong)
      if (const double seconds = between(gpu, kernel, along, accumulates); seconds > 0) return seconds;
  return nearest_matmul(gpu, kernel);
}

double attention_seconds(const Gpu& gpu, const Kernel& kernel, double rate) {
  const bool backward = kernel.kind == KernelKind::attention_backward;
  const AttentionPoint* nearest = nullptr;
  double nearest_distance = std::numeric_limits<double>::infinity();
  for (const AttentionPoint& point : gpu.attentions) {
    const auto apart = [](std::int64_t a, std::int64_t b) {
      return distance(static_cast<double>(a), static_cast<double>(b));
    };
    // Length decides the efficiency; heads and sequences only fill the GPU; another head_dim is another kernel.
    const double total = 2 * apart(point.length, kernel.length) +
                         apart(point.sequences * point.heads, kernel.sequences * kernel.heads) +
                         10 * apart(point.head_dim, kernel.head_dim) + 0.1 * apart(point.kv_heads, kernel.kv_heads);
    if (total < nearest_distance) {
      nearest_distance = total;
      nearest = &point;
    }
  }
  if (nearest == nullptr)
    return kernel.flops / (rate * (backward ? gpu.attention_backward_efficiency : gpu.attention_forward_efficiency));
  const double length = static_cast<double>(nearest->length);
  const double forward_flops = 2.0 * static_cast<double>(nearest->sequences) * static_cast<double>(nearest->heads) *
                               static_cast<double>(nearest->head_dim) * length * length;
  return backward ? nearest->backward_seconds * kernel.flops / (2.5 * forward_flops)
                  : nearest->forward_seconds * kernel.flops / forward_flops;
}

/// From the points of one name; 0 if there are none.
double elementwise_by_table(const Gpu& gpu, std::string_view name, double bytes) {
  const ElementwisePoint *below = nullptr, *above = nullptr;
  for (const ElementwisePoint& point : gpu.elementwise) {
    if (point.name != name) continue;
    if (point.bytes <= bytes && (below == nullptr || point.bytes > below->bytes)) below = &point;
    if (point.bytes >= bytes && (above == nullptr || point.bytes < above->bytes)) above = &point;
  }
  if (below == nullptr && above == nullptr) return 0;
  if (below == nullptr) return above->seconds * bytes / above->bytes;
  if (above == nullptr) return below->seconds * bytes / below->bytes;
  if (below == above) return below->seconds;
  return below->seconds + (bytes - below->bytes) / (above->bytes - below->bytes) * (above->seconds - below->seconds);
}

double elementwise_seconds(const Gpu& gpu, const Kernel& kernel) {
  const double bytes = static_cast<double>(kernel.bytes);
  if (const double seconds = elementwise_by_table(gpu, kernel.name, bytes); seconds > 0) return seconds;
  if (const double seconds = elementwise_by_table(gpu, "", bytes); seconds > 0) return seconds;
  return bytes / (gpu.hbm_bytes_per_second * gpu.elementwise_efficiency);
}

}  // namespace

KernelSeconds kernel_seconds(const Gpu& gpu, const Kernel& kernel) {
  if (kernel.kind == KernelKind::elementwise) {
    const double seconds = elementwise_seconds(gpu, kernel);
    return {seconds, seconds};
  }
  const double memory = static_cast<double>(kernel.bytes) / gpu.hbm_bytes_per_second;
  const double slowdown = burst_matmul_rate(gpu) / gpu.matmul_flops_per_second;
  double burst = 0, sustained = 0;
  if (kernel.kind == KernelKind::matmul) {
    burst = matmul_burst_seconds(gpu, kernel);
    sustained = burst * slowdown;
  } else {
    // Attention does not reach the power limit: its units wait on each other more than matmuls do.
    burst = sustained = attention_seconds(gpu, kernel, gpu.matmul_flops_per_second);
  }
  return {std::max(burst, memory), std::max(sustained, memory)};
}

double best_matmul_rate(const Gpu& gpu) {
  const double slowdown = burst_matmul_rate(gpu) / gpu.matmul_flops_per_second;
  double best = gpu.matmul_flops_per_second;
  for (const MatmulPoint& point : gpu.matmuls)
    if (point.seconds > 0) best = std::max(best, point_flops(point) / (point.seconds * slowdown));
  return best;
}

double transfer_seconds(const LinkDirection& direction, double bytes) {
  if (bytes <= 0) return 0;
  const std::vector<CopyPoint>& curve = direction.curve;
  if (curve.empty()) return direction.latency_seconds + bytes / direction.bytes_per_second;
  if (bytes <= curve.front().bytes) return curve.front().seconds;
  const auto above = std::lower_bound(curve.begin(), curve.end(), bytes,
                                      [](const CopyPoint& point, double b) { return point.bytes < b; });
  const auto rate = [](const CopyPoint& point) { return point.bytes / point.seconds; };
  if (above == curve.end()) return bytes / rate(curve.back());
  const CopyPoint &low = *(above - 1), &high = *above;
  const double share = std::log(bytes / low.bytes) / std::log(high.bytes / low.bytes);
  return bytes / (rate(low) + share * (rate(high) - rate(low)));
}

double copy_seconds(const LinkDirection& direction, std::span<const Burst> bursts) {
  double seconds = 0;
  for (const Burst& burst : bursts)
    seconds += static_cast<double>(burst.count) * transfer_seconds(direction, static_cast<double>(burst.bytes));
  return seconds;
}

double rate_of_threads(std::span<const ThreadRate> table, int threads) {
  ThreadRate low{0, 0};
  for (const ThreadRate& high : table) {
    if (threads <= high.threads) {
      const double share = static_cast<double>(threads - low.threads) / static_cast<double>(high.threads - low.threads);
      return low.per_second + share * (high.per_second - low.per_second);
    }
    low = high;
  }
  return low.per_second;
}

double dram_rate(const Cpu& cpu, int threads) {
  if (!cpu.dram_by_threads.empty()) return rate_of_threads(cpu.dram_by_threads, threads);
  return cpu.dram_bytes_per_second * std::min(1.0, static_cast<double>(threads) / std::max(1, cpu.cores));
}

double optimizer_bytes_per_parameter(const Numerics& numerics) {
  const double moments = 4.0 * static_cast<double>(element_bytes(numerics.moments));  // m and v, read and written
  const double gradient = static_cast<double>(element_bytes(numerics.gradient_link));
  switch (numerics.states) {
    case StateFormat::planes: return 8 + moments + gradient;               // hi and lo, each 2 + 2
    case StateFormat::master_and_copy: return 8 + 2 + moments + gradient;  // master 4 + 4; the copy is only written
    case StateFormat::bf16: return 4 + moments + gradient;                 // 2 + 2
  }
  return 0;
}

double adamw_rate(const Cpu& cpu, const Numerics& numerics, int threads) {
  const double traffic = optimizer_bytes_per_parameter(numerics);
  if (cpu.adamw_by_threads.empty()) return dram_rate(cpu, threads) / traffic;
  return rate_of_threads(cpu.adamw_by_threads, threads) * cpu.adamw_bytes_per_parameter / traffic;
}

}  // namespace penstock::sim
