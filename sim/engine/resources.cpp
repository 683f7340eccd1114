#include "sim/engine/resources.h"

#include <algorithm>

namespace penstock::sim {

const char* resource_name(int resource) {
  static constexpr const char* kNames[kResources] = {"link h2d", "link d2h",  "dram",       "hbm",
                                                     "cores",    "nvme read", "nvme write", "cpu traffic"};
  return kNames[resource];
}

/// As long at once as both last, if that moves more than one after the other.
double Capacities::nvme_seconds(double reads, double writes) const {
  const double gain = std::max(0.0, nvme_read_beside_writes + nvme_write_beside_reads - 1);
  return reads + writes - gain * std::min(reads / nvme_read_beside_writes, writes / nvme_write_beside_reads);
}

ResourceVector Capacities::largest() const {
  ResourceVector most{};
  for (const ResourceVector& row : table_)
    for (std::size_t r = 0; r < most.size(); ++r) most[r] = std::max(most[r], row[r]);
  return most;
}

}  // namespace penstock::sim
