#include "sim/planner/catalogue.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/toml_reader.h"
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

Offer read_offer(const TomlDocument& document, const std::string& table, const std::string& name,
                 const std::filesystem::path& folder) {
  TomlSection section(document, table);
  Offer offer{name, read_hardware(file_beside(CatalogueKind::hardware, folder, section.text("hardware"))), {}};
  if (section.has("dram")) offer.machine.dram_bytes = section.bytes("dram", 1 << 20);
  if (section.has("hbm")) offer.machine.gpu.hbm_bytes = section.bytes("hbm", 1 << 20);
  offer.price = read_price(section);
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
  if (section.has("nvme")) upgrade.nvme_factor = section.number("nvme", 1, kMostFaster);
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
  constexpr std::string_view kMachine = "machine.", kUpgrade = "upgrade.";
  for (const auto& [table, values] : document.tables) {
    if (table.starts_with(kMachine))
      catalogue.offers.push_back(read_offer(document, table, table.substr(kMachine.size()), path.parent_path()));
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
  if (upgrade.nvme_factor > 1) {
    result = with_faster(result, "nvme", upgrade.nvme_factor);
    result.nvme.bytes = std::llround(static_cast<double>(result.nvme.bytes) * upgrade.nvme_factor);
  }
  if (upgrade.dram_bandwidth_factor > 1) result = with_faster(result, "dram", upgrade.dram_bandwidth_factor);
  return result;
}

}  // namespace penstock::sim
