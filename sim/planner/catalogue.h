// Machines and upgrades with their prices (scenarios/prices/machines.toml), for `shop`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/machine/machine.h"

namespace penstock::sim {

struct Price {
  double euros = 0;
  std::string source, date;
  bool assumed = false;
};

struct Offer {
  std::string name;
  Machine machine;
  Price price;
};

struct Upgrade {
  std::string name;
  std::int64_t dram_bytes = 0;                        // more of it
  double link_factor = 1, dram_bandwidth_factor = 1;  // so many times faster (sensitivity.h)
  std::int64_t drive_bytes = 0;                       // of one more drive, as fast as the one that is there
  Price price;
};

struct Catalogue {
  std::vector<Offer> offers;                 // ascending price
  std::vector<Upgrade> upgrades;             // likewise
  std::vector<std::filesystem::path> files;  // that it was read from
};

/// Throws InputError: a missing price, source or date, an unknown key, no machine at all.
Catalogue read_catalogue(const std::filesystem::path& path);

Machine upgraded(const Machine& machine, const Upgrade& upgrade);

}  // namespace penstock::sim
