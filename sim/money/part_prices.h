// What machines and hours cost: scenarios/prices/parts.toml, or a file like it. Every price has its source and date; a
// price that nobody saw says `assumed = true`, and whatever is made of it is marked.
//
//   [currency.USD]   price = EUR of one USD; prices below may say currency = "USD"
//   [card.NAME]      price of the card (or of the module with its host, where no [host.NAME] is needed)
//   [host.NAME]      price of the machine around it, without card, memory and drive; `with_memory = true`: with its
//   memory [dram], [nvme]   price of 1 GB, of 1 TB [rent.NAME]      price of an hour of a machine with that card
//   [electricity]    price of 1 kWh
//   [life]           `years` over which a price is spread
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shared/machine/machine.h"

namespace penstock::sim {

struct Sourced {
  double euros = 0;
  std::string source, date;
  bool assumed = false;
  bool with_memory = false;  // of a host whose memory is soldered to it
};

struct PartPrices {
  std::filesystem::path file;
  std::map<std::string, Sourced> cards, hosts, rents;  // by the names of their files: "rtx4090"
  std::optional<Sourced> dram_gigabyte, nvme_terabyte, electricity;
  std::optional<double> life_years;
};

/// Throws InputError: a missing price, source or date, an unknown key, a currency that is not in the file.
PartPrices read_part_prices(const std::filesystem::path& path);

/// The catalogue's; without any price if there is no such file.
PartPrices catalogue_part_prices();

/// Parts of the machine that have no price: "card my-card", "memory". Empty: machine_price() has one.
std::vector<std::string> unpriced_parts(const PartPrices& prices, const Machine& machine);

/// Card, host, memory and drive together; none where one of them has no price. Its source names the parts.
std::optional<Sourced> machine_price(const PartPrices& prices, const Machine& machine);

/// An hour of a machine with that card; none if nobody is known to rent it out.
std::optional<Sourced> machine_rent(const PartPrices& prices, const Machine& machine);

}  // namespace penstock::sim
