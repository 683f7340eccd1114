// What running ops share, and how much of it there is.
//
// Capacities are not constants: a link gives each direction less while both are busy, so does a drive, and uploads yield
// to CPU threads that work on DRAM. So a capacity is looked up by which classes of traffic are active at the moment.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "shared/machine/machine.h"

namespace penstock::sim {

enum Resource : int {
  kLinkH2d,     // bytes/s
  kLinkD2h,     // bytes/s
  kDram,        // bytes/s, reads and writes together
  kHbm,         // bytes/s
  kCores,       // cores
  kNvmeRead,    // share of what the drive reads alone, 1 in all
  kNvmeWrite,   // likewise
  kCpuTraffic,  // bytes/s of DRAM that CPU threads get beside the copies that are active
};
inline constexpr int kResources = 8;
const char* resource_name(int resource);

/// One figure per resource: a capacity, or what one op uses of it per second at solo speed. Sharing is the engine's
/// innermost loop, and eight figures are one vector of the CPU (with seven, sharing took a fifth longer).
using ResourceVector = std::array<double, 8>;
static_assert(kResources <= 8);

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();
inline constexpr ResourceVector unlimited_resources() {
  return {kUnlimited, kUnlimited, kUnlimited, kUnlimited, kUnlimited, kUnlimited, kUnlimited, kUnlimited};
}

/// Which classes of traffic are active: their set decides the capacities.
enum class TrafficClass : unsigned char { none, upload, download, ring_upload, ring_download, cpu };

/// How copies of one direction go at the moment; the later where several do.
enum class CopyWay : unsigned char { none, direct, ring };
inline constexpr CopyWay kCopyWays[] = {CopyWay::none, CopyWay::direct, CopyWay::ring};

class Capacities {
 public:
  /// The same capacities whatever is active.
  explicit Capacities(const ResourceVector& always) : table_(9, always) {}
  /// Room for rules up to `max_threads`; more threads than that count as `max_threads`.
  Capacities(const ResourceVector& always, int max_threads)
      : max_threads_(max_threads), table_(static_cast<std::size_t>(9 * (max_threads + 1)), always) {}

  int max_threads() const { return max_threads_; }
  ResourceVector& when(CopyWay upload, CopyWay download, int cpu_threads) {
    return table_[index(upload, download, cpu_threads)];
  }
  const ResourceVector& when(CopyWay upload, CopyWay download, int cpu_threads) const {
    return table_[index(upload, download, cpu_threads)];
  }
  /// With copies that go directly.
  ResourceVector& when(bool upload, bool download, int cpu_threads) {
    return when(directly(upload), directly(download), cpu_threads);
  }
  const ResourceVector& when(bool upload, bool download, int cpu_threads) const {
    return when(directly(upload), directly(download), cpu_threads);
  }
  std::vector<PowerPoint> power;    // one curve (power.h)
  double power_settle_seconds = 0;  // time constant of the power limit; 0: not known
  // What of their rates alone reads and writes of the drive have while there are both.
  double nvme_read_beside_writes = 1, nvme_write_beside_reads = 1;

  /// That a drive needs at least for what it would read and write in so many seconds alone.
  double nvme_seconds(double reads, double writes) const;
  /// The most that each resource ever gives, whatever is active: what bounds divide by.
  ResourceVector largest() const;

 private:
  static CopyWay directly(bool active) { return active ? CopyWay::direct : CopyWay::none; }
  std::size_t index(CopyWay upload, CopyWay download, int cpu_threads) const {
    const int threads = cpu_threads < max_threads_ ? cpu_threads : max_threads_;
    return static_cast<std::size_t>(threads * 9 + static_cast<int>(upload) + 3 * static_cast<int>(download));
  }

  int max_threads_ = 0;
  std::vector<ResourceVector> table_;
};

/// What one op costs. Progress is counted in seconds at solo speed, so that an op alone on the machine advances at
/// rate 1.
struct OpCost {
  double latency_seconds = 0;          // first, using nothing
  double fluid_seconds = 0;            // then this much progress, at a rate of at most 1
  double sustained_extra_seconds = 0;  // more of it where the GPU works without pause (Engine, "Power")
  ResourceVector demand{};             // per second of progress
  TrafficClass traffic = TrafficClass::none;
  int threads = 0;            // of the CPU, for TrafficClass::cpu
  double launch_seconds = 0;  // GPU ops: time of the launch thread

  double solo_seconds() const { return latency_seconds + fluid_seconds; }
};

}  // namespace penstock::sim
