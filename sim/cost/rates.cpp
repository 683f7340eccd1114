#include "sim/cost/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "shared/error.h"
#include "shared/ir/host_pass_names.h"
#include "shared/machine/attention_point.h"
#include "shared/model/library_workspace.h"

namespace penstock::sim {
namespace {

double distance(double a, double b) { return std::abs(std::log(std::max(a, 1.0) / std::max(b, 1.0))); }

bool same_shape(const MatmulPoint& point, const Kernel& kernel) {
  return point.m == kernel.m && point.n == kernel.n && point.k == kernel.k && point.groups == kernel.groups;
}

/// The same product by kernel and result, where the point has them.
bool same_product(const MatmulPoint& point, const Kernel& kernel) {
  return (!point.kernel || point.kernel == kernel.id) &&
         (point.output_bytes == 0 || kernel.output_bytes == 0 || point.output_bytes == kernel.output_bytes);
}

double burst_matmul_rate(const Gpu& gpu) {
  return gpu.matmul_burst_flops_per_second > 0 ? gpu.matmul_burst_flops_per_second : gpu.matmul_flops_per_second;
}

/// Of a point. Without a sustained time of its own, by the ratio of the rates.
KernelSeconds point_seconds(const Gpu& gpu, const MatmulPoint& point) {
  const double slowdown = burst_matmul_rate(gpu) / gpu.matmul_flops_per_second;
  return {point.seconds, point.sustained_seconds > 0 ? point.sustained_seconds : point.seconds * slowdown};
}

/// Points that share two extents with the kernel, seen along the third.
struct Along {
  std::int64_t MatmulPoint::*extent;
  std::int64_t Kernel::*wanted;
};

/// Which points count.
struct Among {
  bool same_product, accumulates;
};

/// Time between the nearest points below and above along one extent; 0 if the kernel is not between two.
KernelSeconds between(const Gpu& gpu, const Kernel& kernel, const Along& along, const Among& among) {
  const MatmulPoint *below = nullptr, *above = nullptr;
  const std::int64_t wanted = kernel.*along.wanted;
  for (const MatmulPoint& point : gpu.matmuls) {
    Kernel shifted = kernel;
    shifted.*along.wanted = point.*along.extent;
    if (point.accumulates != among.accumulates || !same_shape(point, shifted)) continue;
    if (among.same_product && !same_product(point, kernel)) continue;
    const std::int64_t extent = point.*along.extent;
    if (extent <= wanted && (below == nullptr || extent > below->*along.extent)) below = &point;
    if (extent >= wanted && (above == nullptr || extent < above->*along.extent)) above = &point;
  }
  if (below == nullptr || above == nullptr) return {};
  const KernelSeconds first = point_seconds(gpu, *below), last = point_seconds(gpu, *above);
  const double low = static_cast<double>(below->*along.extent), high = static_cast<double>(above->*along.extent);
  if (low == high) return first;
  const double share = (static_cast<double>(wanted) - low) / (high - low);
  return {first.burst + share * (last.burst - first.burst),
          first.sustained + share * (last.sustained - first.sustained)};
}

double point_flops(const MatmulPoint& point) {
  return 2.0 * static_cast<double>(point.m) * static_cast<double>(point.n) * static_cast<double>(point.k);
}

KernelSeconds nearest_matmul(const Gpu& gpu, const Kernel& kernel) {
  const MatmulPoint* nearest = nullptr;
  double nearest_distance = std::numeric_limits<double>::infinity();
  for (const MatmulPoint& point : gpu.matmuls) {
    if (point.groups != kernel.groups) continue;
    const auto apart = [](std::int64_t a, std::int64_t b) {
      return distance(static_cast<double>(a), static_cast<double>(b));
    };
    // Whether it accumulates, and which product it is, matters less than a factor of e^0.1 in any extent.
    const double total = apart(point.m, kernel.m) + apart(point.n, kernel.n) + apart(point.k, kernel.k) +
                         (point.accumulates == kernel.accumulates ? 0 : 0.1) + (same_product(point, kernel) ? 0 : 0.05);
    if (total < nearest_distance) {
      nearest_distance = total;
      nearest = &point;
    }
  }
  const KernelSeconds seconds = point_seconds(gpu, *nearest);
  const double scale = kernel.flops / point_flops(*nearest);
  return {seconds.burst * scale, seconds.sustained * scale};
}

/// What a product of one expert takes beyond its share of one product of all rows (the tail of its last wave of tiles),
/// and the rows of a tile that it fills up. From a loop of cuBLAS calls on an H200 over six shapes, unevenly routed,
/// read as products of hidden x expert width (docs/experts.md): 350 to 637 TFLOP/s of 667 to 683 dense. These two
/// predict five of the six within 5 %, the shortest (1,027 rows x 2048 x 768) 17 % too fast.
constexpr double kExpertSeconds = 2.75e-6;
constexpr std::int64_t kExpertTileRows = 128;

KernelSeconds matmul_seconds(const Gpu& gpu, const Kernel& kernel);

/// A product for each expert: that of all rows, each expert's filled up to whole tiles.
KernelSeconds grouped_seconds(const Gpu& gpu, const Kernel& kernel) {
  Kernel together = kernel;
  together.groups = 1;
  KernelSeconds seconds = matmul_seconds(gpu, together);
  if (gpu.is_host) return seconds;
  const std::int64_t rows = kernel.groups_share_k ? kernel.k : kernel.m;
  std::int64_t filled = 0, products = 0;
  for (const std::int64_t part : rows_of_experts(rows, kernel.groups, kernel.skew)) {
    filled += (part + kExpertTileRows - 1) / kExpertTileRows * kExpertTileRows;
    products += part > 0 ? 1 : 0;
  }
  const double tiles = static_cast<double>(filled) / static_cast<double>(std::max<std::int64_t>(1, rows));
  const double fixed = static_cast<double>(products) * kExpertSeconds;
  return {seconds.burst * tiles + fixed, seconds.sustained * tiles + fixed};
}

bool has_points(const Gpu& gpu, std::int64_t groups) {
  return std::any_of(gpu.matmuls.begin(), gpu.matmuls.end(),
                     [groups](const MatmulPoint& point) { return point.groups == groups; });
}

KernelSeconds matmul_seconds(const Gpu& gpu, const Kernel& kernel) {
  if (kernel.groups > 1 && !has_points(gpu, kernel.groups)) return grouped_seconds(gpu, kernel);
  if (!has_points(gpu, kernel.groups))
    return {kernel.flops / burst_matmul_rate(gpu), kernel.flops / gpu.matmul_flops_per_second};
  static constexpr Along kAlong[] = {
      {&MatmulPoint::m, &Kernel::m}, {&MatmulPoint::k, &Kernel::k}, {&MatmulPoint::n, &Kernel::n}};
  for (const bool same_product : {true, false})
    for (const bool accumulates : {kernel.accumulates, !kernel.accumulates})
      for (const Along& along : kAlong)
        if (const KernelSeconds seconds = between(gpu, kernel, along, {same_product, accumulates}); seconds.burst > 0)
          return seconds;
  return nearest_matmul(gpu, kernel);
}

/// What the kernel for packed rows, windows, and chunks that the library does not take, reaches of the library's rate,
/// where nobody has timed it: between a third (head dimension 128) and a half (64) on an H200 (docs/executor.md, "own"
/// beside cuDNN).
constexpr double kOwnAttentionShare = 0.4;

/// From a hardware or software file: of the nearest head dimension, less for short sequences.
double attention_rate(const Gpu& gpu, const Kernel& kernel) {
  const auto apart = [&](const AttentionRate& rate) {
    return distance(static_cast<double>(rate.head_dim), static_cast<double>(kernel.attention.head_dim));
  };
  const std::vector<AttentionRate>& rates = gpu.attention.by_head_dim;
  const AttentionRate& rate = *std::min_element(
      rates.begin(), rates.end(), [&](const AttentionRate& a, const AttentionRate& b) { return apart(a) < apart(b); });
  const double flops_per_second = kernel.kind == KernelKind::attention_forward ? rate.forward
                                  : gpu.deterministic                          ? rate.deterministic_backward
                                                                               : rate.backward;
  const double length = static_cast<double>(kernel.attention.keys());
  const bool forward = kernel.kind == KernelKind::attention_forward;
  return flops_per_second * length /
         (length + (forward ? gpu.attention.half_length : gpu.attention.backward_half_length));
}

/// Of a chunk: whether the library takes it. Its length stands for that of the chunks before it.
bool is_for_library(const AttentionSpec& chunk, bool backward, bool ordered) {
  const bool aligned = chunk.rows == BatchKind::windows && chunk.window == 0 && chunk.length % 64 == 0 &&
                       chunk.past % 64 == 0 && chunk.length >= 128;
  return aligned && (!backward || chunk_groups_per_call(chunk, chunk.length, ordered) > 0);
}

/// Whether a point tells of the kernel that computes `spec`. A chunk's is the same whatever its rows.
bool tells_of(const AttentionPoint& point, const AttentionSpec& spec, bool is_chunk) {
  const AttentionSpec timed = spec_of(point);
  return timed.is_chunk == is_chunk && (timed.window > 0) == (spec.window > 0) && (is_chunk || timed.rows == spec.rows);
}

/// Among the points that `counts`.
template <typename Counts>
const AttentionPoint* nearest_attention(const Gpu& gpu, const AttentionSpec& spec, bool is_chunk, Counts counts) {
  const AttentionPoint* nearest = nullptr;
  double nearest_distance = std::numeric_limits<double>::infinity();
  for (const AttentionPoint& point : gpu.attentions) {
    if (!tells_of(point, spec, is_chunk) || !counts(spec_of(point))) continue;
    const auto apart = [](std::int64_t a, std::int64_t b) {
      return distance(static_cast<double>(a), static_cast<double>(b));
    };
    // Length decides the efficiency; heads and sequences only fill the GPU; another head_dim is another kernel.
    double total = 2 * apart(point.length, spec.length) +
                   apart(point.sequences * point.heads, spec.sequences * spec.heads) +
                   10 * apart(point.head_dim, spec.head_dim) + 0.1 * apart(point.kv_heads, spec.kv_heads);
    if (is_chunk) total += 0.1 * apart(point.past + point.length, spec.keys());
    if (spec.window > 0) total += 2 * apart(point.window, spec.window);
    if (total < nearest_distance) {
      nearest_distance = total;
      nearest = &point;
    }
  }
  return nearest;
}

KernelSeconds point_seconds(const AttentionPoint& point, bool backward) {
  const double burst = backward ? point.backward_seconds : point.forward_seconds;
  const double sustained = backward ? point.backward_sustained_seconds : point.forward_sustained_seconds;
  return {burst, sustained > 0 ? sustained : burst};
}

/// Between the points of the same chunk behind the next fewer and the next more keys, linear in those; 0 if there are
/// not both.
KernelSeconds between_pasts(const Gpu& gpu, const AttentionSpec& spec, bool backward) {
  const AttentionPoint *below = nullptr, *above = nullptr;
  for (const AttentionPoint& point : gpu.attentions) {
    AttentionSpec same = spec_of(point);
    same.past = spec.past;
    same.squared_lengths = spec.squared_lengths;
    if (!(same == spec)) continue;
    if (point.past <= spec.past && (below == nullptr || point.past > below->past)) below = &point;
    if (point.past >= spec.past && (above == nullptr || point.past < above->past)) above = &point;
  }
  if (below == nullptr || above == nullptr || spec.rows == BatchKind::packed) return {};
  const KernelSeconds first = point_seconds(*below, backward), last = point_seconds(*above, backward);
  if (below->past == above->past) return first;
  const double share = static_cast<double>(spec.past - below->past) / static_cast<double>(above->past - below->past);
  return {first.burst + share * (last.burst - first.burst),
          first.sustained + share * (last.sustained - first.sustained)};
}

KernelSeconds attention_seconds(const Gpu& gpu, const Kernel& kernel, double rate) {
  const bool backward = kernel.kind == KernelKind::attention_backward;
  const AttentionSpec& spec = kernel.attention;
  const bool hides = spec.rows == BatchKind::packed || spec.window > 0;
  const auto own = [&](const AttentionSpec& of) {
    return of.rows == BatchKind::packed || of.window > 0 ||
           (of.is_chunk && !is_for_library(of, backward, gpu.deterministic));
  };
  const bool is_own = own(spec);
  if (spec.is_chunk)
    if (const KernelSeconds seconds = between_pasts(gpu, spec, backward); seconds.burst > 0) return seconds;
  const auto any = [](const AttentionSpec&) { return true; };
  const auto same_kernel = [&](const AttentionSpec& of) { return gpu.is_host || own(of) == is_own; };
  const AttentionPoint* nearest = nearest_attention(gpu, spec, spec.is_chunk, same_kernel);
  // Chunks of which nobody timed the kernel that computes them, by those of the other kernel, then by the rows that the
  // library took.
  if (nearest == nullptr && spec.is_chunk) nearest = nearest_attention(gpu, spec, true, any);
  AttentionSpec whole = spec;
  whole.rows = BatchKind::windows;
  whole.window = 0;
  double share = 1;
  if (!gpu.is_host && (nearest == nullptr || own(spec_of(*nearest)) != is_own))
    share = is_own ? kOwnAttentionShare : nearest == nullptr ? 1 : 1 / kOwnAttentionShare;
  if (nearest == nullptr && spec.is_chunk) nearest = nearest_attention(gpu, whole, false, any);
  const auto flops_of = [&](const AttentionSpec& of) {
    return (is_own ? of.tiled_flops() : of.forward_flops()) * (backward ? kAttentionBackwardFlops : 1.0);
  };
  const double flops = is_own ? flops_of(spec) : kernel.flops;
  if (nearest == nullptr && hides && !gpu.attentions.empty())
    throw InputError(fmt::format(
        "nobody has timed the kernel \"{}\" on {}: calibrate with a scenario that has {}", kernel.name(),
        gpu.name.empty() ? "this machine" : gpu.name,
        spec.window > 0 ? "such windows and rows ([model] config, [workload] data)" : "such rows ([workload] data)"));
  if (nearest == nullptr) {
    const double library = !gpu.attention.by_head_dim.empty() ? attention_rate(gpu, kernel)
                                                              : rate * (backward ? gpu.attention_backward_efficiency
                                                                                 : gpu.attention_forward_efficiency);
    const double seconds = flops / (library * share);
    return {seconds, seconds};
  }
  const double scale = flops / flops_of(spec_of(*nearest)) / share;
  const KernelSeconds seconds = point_seconds(*nearest, backward);
  return {seconds.burst * scale, seconds.sustained * scale};
}

/// From the points of one kernel; 0 if there are none.
KernelSeconds elementwise_by_table(const Gpu& gpu, std::optional<KernelId> kernel, double bytes) {
  const ElementwisePoint *below = nullptr, *above = nullptr;
  for (const ElementwisePoint& point : gpu.elementwise) {
    if (point.kernel != kernel) continue;
    if (point.bytes <= bytes && (below == nullptr || point.bytes > below->bytes)) below = &point;
    if (point.bytes >= bytes && (above == nullptr || point.bytes < above->bytes)) above = &point;
  }
  const auto of = [](const ElementwisePoint& point, double scale) {
    const double sustained = point.sustained_seconds > 0 ? point.sustained_seconds : point.seconds;
    return KernelSeconds{point.seconds * scale, sustained * scale};
  };
  if (below == nullptr && above == nullptr) return {};
  if (below == nullptr) return of(*above, bytes / above->bytes);
  if (above == nullptr) return of(*below, bytes / below->bytes);
  const KernelSeconds first = of(*below, 1), last = of(*above, 1);
  if (below->bytes == above->bytes) return first;
  const double share = (bytes - below->bytes) / (above->bytes - below->bytes);
  return {first.burst + share * (last.burst - first.burst),
          first.sustained + share * (last.sustained - first.sustained)};
}

KernelSeconds elementwise_seconds(const Gpu& gpu, const Kernel& kernel) {
  const double bytes = static_cast<double>(kernel.bytes);
  if (const KernelSeconds seconds = elementwise_by_table(gpu, kernel.id, bytes); seconds.burst > 0) return seconds;
  if (const KernelSeconds seconds = elementwise_by_table(gpu, std::nullopt, bytes); seconds.burst > 0) return seconds;
  const double seconds = gpu.fill_seconds + bytes / (gpu.hbm_bytes_per_second * gpu.elementwise_efficiency);
  return {seconds, seconds};
}

}  // namespace

KernelSeconds kernel_seconds(const Gpu& gpu, const Kernel& kernel) {
  if (kernel.kind == KernelKind::elementwise) return elementwise_seconds(gpu, kernel);
  // Datasheet attention has no burst rate: the units wait on each other more than those of matmuls do.
  const KernelSeconds seconds = kernel.kind == KernelKind::matmul
                                    ? matmul_seconds(gpu, kernel)
                                    : attention_seconds(gpu, kernel, gpu.matmul_flops_per_second);
  const double memory = static_cast<double>(kernel.bytes) / gpu.hbm_bytes_per_second;
  // What was measured may have been served by caches.
  const bool measured = kernel.kind == KernelKind::matmul ? !gpu.matmuls.empty() : !gpu.attentions.empty();
  if (measured) return seconds;
  return {gpu.fill_seconds + std::max(seconds.burst, memory), gpu.fill_seconds + std::max(seconds.sustained, memory)};
}

double best_matmul_rate(const Gpu& gpu) {
  double best = gpu.matmul_flops_per_second;
  for (const MatmulPoint& point : gpu.matmuls)
    if (point.seconds > 0) best = std::max(best, point_flops(point) / point_seconds(gpu, point).sustained);
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

double drive_rate(const Nvme& drive, bool reads, double bytes) {
  const double full = reads ? drive.read_bytes_per_second : drive.write_bytes_per_second;
  if (drive.transfer_bytes <= 0 || drive.depth <= 1) return full;
  const double in_flight = std::ceil(bytes / static_cast<double>(drive.transfer_bytes));
  if (in_flight >= drive.depth) return full;
  double low_depth = 0, low_rate = 0;
  for (const NvmePoint& point : drive.points) {
    if (point.transfer_bytes != drive.transfer_bytes) continue;
    const double rate = std::min(full, reads ? point.read_bytes_per_second : point.write_bytes_per_second);
    if (point.depth >= in_flight)
      return low_rate + (in_flight - low_depth) / (point.depth - low_depth) * (rate - low_rate);
    low_depth = point.depth;
    low_rate = rate;
  }
  return full;
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

HostPassCost host_pass_cost(const Cpu& cpu, std::string_view name, int threads) {
  const HostPassPoint* nearest = nullptr;
  for (const HostPassPoint& point : cpu.passes)
    if (point.name == name &&
        (nearest == nullptr || std::abs(point.threads - threads) < std::abs(nearest->threads - threads)))
      nearest = &point;
  const double dram = dram_rate(cpu, threads);
  if (nearest == nullptr) return {0, dram > 0 ? 1 / dram : 0};
  HostPassPoint small = *nearest, large = *nearest;
  for (const HostPassPoint& point : cpu.passes) {
    if (point.name != name || point.threads != nearest->threads) continue;
    if (point.bytes < small.bytes) small = point;
    if (point.bytes > large.bytes) large = point;
  }
  HostPassCost cost{0, large.seconds / large.bytes};
  if (small.bytes < large.bytes) {
    const double slope = (large.seconds - small.seconds) / (large.bytes - small.bytes);
    cost.seconds_per_byte = std::clamp(slope, 0.0, cost.seconds_per_byte);
    cost.fixed_seconds = std::max(0.0, large.seconds - large.bytes * cost.seconds_per_byte);  // rounding may say -0
  }
  if (const double there = dram_rate(cpu, nearest->threads); there > 0 && dram > 0)
    cost.seconds_per_byte *= there / dram;
  return cost;
}

HostPassCost adamw_cost(const Cpu& cpu, const Numerics& numerics, int threads) {
  const std::string name = adamw_pass_name(numerics.states, numerics.moments, numerics.gradient_link);
  const bool measured =
      std::any_of(cpu.passes.begin(), cpu.passes.end(), [&](const HostPassPoint& point) { return point.name == name; });
  if (measured || cpu.adamw_by_threads.empty()) return host_pass_cost(cpu, name, threads);
  return {0, 1 / (rate_of_threads(cpu.adamw_by_threads, threads) * cpu.adamw_bytes_per_parameter)};
}

double best_host_rate(const Cpu& cpu, int threads) {
  double best = dram_rate(cpu, threads);
  for (const HostPassPoint& point : cpu.passes)
    if (const double seconds = host_pass_cost(cpu, point.name, threads).seconds_per_byte; seconds > 0)
      best = std::max(best, 1 / seconds);
  return best;
}

}  // namespace penstock::sim
