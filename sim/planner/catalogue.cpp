#include "sim/planner/catalogue.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/machine/card_and_host.h"
#include "shared/machine/part_names.h"
#include "shared/toml_reader.h"
#include "sim/money/part_prices.h"
#include "sim/planner/sensitivity.h"

namespace penstock::sim {
namespace {

constexpr double kMostEuros = 1e9;
constexpr double kMostFaster = 100;

Price read_price(TomlSection& section) {
  Price price{section.number("price", 0, kMostEuros), section.text("source"), section.text("date")};
  if (section.has("assumed")) price.assumed = section.boolean("assumed");
  return price;
}

/// By a hardware file, or a card and a host. `files` gets what it is read from.
Machine read_machine(TomlSection& section, const std::filesystem::path& folder,
                     std::vector<std::filesystem::path>& files) {
  if (!section.has("card")) {
    if (section.has("host")) section.fail("host", "stands without card: give both, or hardware alone");
    files.push_back(file_beside(CatalogueKind::hardware, folder, section.text("hardware")));
    return read_hardware(files.back());
  }
  if (section.has("hardware")) section.fail("card", "stands beside hardware; keep one of the two");
  const std::filesystem::path card = find_card(section.text("card"), folder, section.place("card"));
  const std::filesystem::path host =
      section.has("host") ? find_host(section.text("host"), folder, section.place("host")) : "";
  files.insert(files.end(), {card, host});
  return read_card_and_host(card, host);
}

Price price_of_parts(TomlSection& section, const Machine& machine) {
  const std::optional<Sourced> price = machine_price(catalogue_part_prices(), machine);
  if (!price)
    section.fail("price",
                 "is missing, and prices/parts.toml of the catalogue has none for its card, host, memory or drive");
  return {price->euros, price->source, price->date, price->assumed};
}

Offer read_offer(const TomlDocument& document, const std::string& table, const std::string& name,
                 const std::filesystem::path& folder, std::vector<std::filesystem::path>& files) {
  TomlSection section(document, table);
  Offer offer{name, read_machine(section, folder, files), {}};
  if (section.has("dram")) offer.machine.dram_bytes = section.bytes("dram", 1 << 20);
  if (section.has("hbm")) offer.machine.gpu.hbm_bytes = section.bytes("hbm", 1 << 20);
  if (section.has("nvme")) offer.machine.nvme.bytes = section.bytes("nvme", 0);
  offer.price = section.has("price") ? read_price(section) : price_of_parts(section, offer.machine);
  section.finish();
  return offer;
}

Upgrade read_upgrade(const TomlDocument& document, const std::string& table, const std::string& name) {
  TomlSection section(document, table);
  Upgrade upgrade;
  upgrade.name = name;
  if (section.has("dram")) upgrade.dram_bytes = section.bytes("dram", 1 << 20);
  if (section.has("link")) upgrade.link_factor = section.number("link", 1, kMostFaster);
  if (section.has("dram_bandwidth")) upgrade.dram_bandwidth_factor = section.number("dram_bandwidth", 1, kMostFaster);
  if (section.has("drive")) upgrade.drive_bytes = section.bytes("drive", 1 << 30);
  upgrade.price = read_price(section);
  section.finish();
  return upgrade;
}

}  // namespace

Catalogue read_catalogue(const std::filesystem::path& path) {
  const TomlDocument document = read_toml(path);
  check_tables(document, {"machine.", "upgrade."});
  TomlSection(document, "").finish();
  Catalogue catalogue;
  catalogue.files.push_back(path);
  constexpr std::string_view kMachine = "machine.", kUpgrade = "upgrade.";
  for (const auto& [table, values] : document.tables) {
    if (table.starts_with(kMachine))
      catalogue.offers.push_back(
          read_offer(document, table, table.substr(kMachine.size()), path.parent_path(), catalogue.files));
    if (table.starts_with(kUpgrade))
      catalogue.upgrades.push_back(read_upgrade(document, table, table.substr(kUpgrade.size())));
  }
  if (catalogue.offers.empty()) throw InputError(path.string() + ": has no table [machine.NAME]; give at least one");
  const auto cheaper = [](const auto& a, const auto& b) { return a.price.euros < b.price.euros; };
  std::stable_sort(catalogue.offers.begin(), catalogue.offers.end(), cheaper);
  std::stable_sort(catalogue.upgrades.begin(), catalogue.upgrades.end(), cheaper);
  return catalogue;
}

Machine upgraded(const Machine& machine, const Upgrade& upgrade) {
  Machine result = machine;
  result.dram_bytes += upgrade.dram_bytes;
  if (upgrade.link_factor > 1) result = with_faster(result, "link", upgrade.link_factor);
  if (upgrade.drive_bytes > 0 && machine.nvme.read_bytes_per_second > 0) {
    if (machine.nvme.bytes > 0) {  // runs stripe over both
      result = with_faster(result, "nvme", 2);
      result.nvme.endurance_bytes *= 2;
    }
    result.nvme.bytes += upgrade.drive_bytes;
  }
  if (upgrade.dram_bandwidth_factor > 1) result = with_faster(result, "dram", upgrade.dram_bandwidth_factor);
  return result;
}

}  // namespace penstock::sim
