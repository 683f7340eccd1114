// How fast each kind of work goes, alone on the machine: a measured table where there is one, else datasheet figures.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "shared/ir/host_pass_names.h"
#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"
#include "shared/model/kernels.h"

namespace penstock::sim {

// --- kernels on the GPU -------------------------------------------------------------------------------------------

/// One execution of a kernel; `sustained` is at the power-limited rate, and equal to `burst` where only one is known.
struct KernelSeconds {
  double burst = 0, sustained = 0;
};

/// Without a table at least bytes / HBM bandwidth, and fill_seconds besides. Times are
///   matmul       the table's time: of the same shape (and name and result, if the table has them); else between the
///                two points that differ in one extent only (linear in it); else the nearest point's, scaled by FLOPs.
///                Without a table FLOPs / matmul rate.
///                Of experts that of all rows together, each expert's filled up to whole tiles, and a fixed time for each.
///   attention    the table's time of the same shape, else the nearest's with the same head_dim, scaled by FLOPs.
///                Without a table FLOPs / (matmul rate x efficiency). Of packed rows and windows by
///                AttentionSpec::tiled_flops, from points of such alone: a table without one is an InputError. Without
///                a table at a share of the rate. Of chunks linear in the keys before them between points of the same
///                chunk, else from the nearest chunk that the same kernel computes, the library's or our own, else
///                from the other's at that share; a table without chunks tells by whole sequences, at that share where
///                the library does not take the chunk.
///   elementwise  the table's time by name, linear in bytes between points and proportional beyond them; else
///                bytes / (HBM bandwidth x elementwise_efficiency).
/// Sustained times are the table's own; without them burst x burst rate / sustained rate for matmuls, else the burst.
KernelSeconds kernel_seconds(const Gpu& gpu, const Kernel& kernel);

/// FLOP/s that no matmul of this machine exceeds in the long run: the largest of the sustained rate and the table's.
double best_matmul_rate(const Gpu& gpu);

// --- copies -------------------------------------------------------------------------------------------------------

/// A single transfer, alone. With a curve the rate is linear in log(bytes) between points; below the first point time
/// is constant, above the last the rate is. Without one latency + bytes / bandwidth.
double transfer_seconds(const LinkDirection& direction, double bytes);
double copy_seconds(const LinkDirection& direction, std::span<const Burst> bursts);

/// Bytes per second of a copy to or from a drive alone: in transfers of Nvme::transfer_bytes, of which a short copy has
/// fewer in flight than Nvme::depth. 0: not known.
double drive_rate(const Nvme& drive, bool reads, double bytes);

/// How often DRAM sees a byte that a copy moves through a ring: read, written into a slot, and read or written by the link.
inline constexpr double kRingDramPasses = 3;

// --- the CPU ------------------------------------------------------------------------------------------------------

/// Linear between points, from 0 at 0 threads; constant beyond the last. REQUIRES: ascending threads, not empty.
double rate_of_threads(std::span<const ThreadRate> table, int threads);
/// By table, else the machine's bandwidth times the share of its cores.
double dram_rate(const Cpu& cpu, int threads);

/// What a pass of the host costs: seconds that use nothing, and seconds for each byte that it reads and writes.
struct HostPassCost {
  double fixed_seconds = 0;
  double seconds_per_byte = 0;  // 0: no rate is known
};
/// The line through the smallest and the largest point of that name, with the nearest number of threads (from there by
/// dram_rate); a single point is taken as proportional. Without a point bytes / dram_rate.
HostPassCost host_pass_cost(const Cpu& cpu, std::string_view name, int threads);
/// The same of AdamW. Without a point by adamw_by_threads, which is of the planes layout; others go by their traffic.
HostPassCost adamw_cost(const Cpu& cpu, const Numerics& numerics, int threads);
/// Bytes per second that no pass on so many threads exceeds.
double best_host_rate(const Cpu& cpu, int threads);

}  // namespace penstock::sim
