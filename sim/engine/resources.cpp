#include "sim/engine/resources.h"

#include <algorithm>

namespace penstock::sim {

const char* resource_name(int resource) {
  static constexpr const char* kNames[kResources] = {"link h2d", "link d2h", "dram",       "hbm",
                                                     "cores",    "nvme",     "cpu traffic"};
  return kNames[resource];
}

ResourceVector Capacities::largest() const {
  ResourceVector most{};
  for (const ResourceVector& row : table_)
    for (std::size_t r = 0; r < most.size(); ++r) most[r] = std::max(most[r], row[r]);
  return most;
}

}  // namespace penstock::sim
