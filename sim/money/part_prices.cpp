#include "sim/money/part_prices.h"

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <vector>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/toml_reader.h"

namespace penstock::sim {
namespace {

constexpr double kMostEuros = 1e9;
constexpr std::string_view kEuro = "EUR";

using Currencies = std::map<std::string, Sourced>;

Sourced read_sourced(const TomlDocument& document, const std::string& table, const Currencies& currencies) {
  TomlSection section(document, table);
  Sourced price{section.number("price", 0, kMostEuros), section.text("source"), section.text("date"), false, false};
  if (section.has("assumed")) price.assumed = section.boolean("assumed");
  if (section.has("currency")) {
    const std::string currency = section.text("currency");
    const auto known = currencies.find(currency);
    if (known == currencies.end() && currency != kEuro)
      section.fail("currency", fmt::format("expected EUR or one with a table [currency.NAME]; found \"{}\"", currency));
    if (known != currencies.end()) price.euros *= known->second.euros;
  }
  if (table.starts_with("host.") && section.has("with_memory")) price.with_memory = section.boolean("with_memory");
  section.finish();
  return price;
}

/// All tables below `kind`, by the rest of their name.
std::map<std::string, Sourced> read_all(const TomlDocument& document, const std::string& kind,
                                        const Currencies& currencies) {
  std::map<std::string, Sourced> prices;
  const std::string prefix = kind + ".";
  for (const auto& [name, table] : document.tables)
    if (name.starts_with(prefix)) prices.emplace(name.substr(prefix.size()), read_sourced(document, name, currencies));
  return prices;
}

std::optional<Sourced> find(const std::map<std::string, Sourced>& prices, const std::filesystem::path& part) {
  const auto found = prices.find(part.stem().string());
  return part.empty() || found == prices.end() ? std::nullopt : std::optional(found->second);
}

/// `price` for so many, added to what there is.
void add(Sourced& sum, const Sourced& price, double count, const std::string& what) {
  const double euros = price.euros * count;
  sum.euros += euros;
  sum.assumed = sum.assumed || price.assumed;
  sum.source += fmt::format("{}{} {:.0f}", sum.source.empty() ? "" : ", ", what, euros);
  if (sum.date.empty() || price.date < sum.date) sum.date = price.date;  // as old as its oldest
}

}  // namespace

PartPrices read_part_prices(const std::filesystem::path& path) {
  const TomlDocument document = read_toml(path);
  check_tables(document, {"currency.", "card.", "host.", "rent.", "dram", "nvme", "electricity", "life"});
  TomlSection(document, "").finish();
  const Currencies currencies = read_all(document, "currency", {});
  PartPrices prices;
  prices.file = path;
  prices.cards = read_all(document, "card", currencies);
  prices.hosts = read_all(document, "host", currencies);
  prices.rents = read_all(document, "rent", currencies);
  const auto one = [&](const char* table) -> std::optional<Sourced> {
    if (!document.tables.contains(table)) return std::nullopt;
    return read_sourced(document, table, currencies);
  };
  prices.dram_gigabyte = one("dram");
  prices.nvme_terabyte = one("nvme");
  prices.electricity = one("electricity");
  if (TomlSection life(document, "life"); life.exists()) {
    prices.life_years = life.number("years", 0.01, 100);
    life.text("source");
    life.text("date");
    if (life.has("assumed")) life.boolean("assumed");
    life.finish();
  }
  return prices;
}

PartPrices catalogue_part_prices() {
  const auto file = in_catalogue(CatalogueKind::prices, "parts");
  return file ? read_part_prices(*file) : PartPrices{};
}

std::vector<std::string> unpriced_parts(const PartPrices& prices, const Machine& machine) {
  std::vector<std::string> parts;
  const auto named = [&](const char* what, const std::filesystem::path& file) {
    parts.push_back(file.empty() ? what : fmt::format("{} {}", what, file.stem().string()));
  };
  const std::optional<Sourced> host = find(prices.hosts, machine.host);
  if (!find(prices.cards, machine.card)) named("card", machine.card);
  if (!host) named("host", machine.host);
  if (!prices.dram_gigabyte && !(host && host->with_memory)) named("memory", {});
  if (machine.nvme.bytes > 0 && !prices.nvme_terabyte) named("drive", {});
  return parts;
}

std::optional<Sourced> machine_price(const PartPrices& prices, const Machine& machine) {
  if (!unpriced_parts(prices, machine).empty()) return std::nullopt;
  const std::optional<Sourced> card = find(prices.cards, machine.card), host = find(prices.hosts, machine.host);
  const double terabytes = static_cast<double>(machine.nvme.bytes) / 1e12;
  Sourced sum;
  add(sum, *card, 1, "card");
  add(sum, *host, 1, "host");
  if (!host->with_memory) add(sum, *prices.dram_gigabyte, static_cast<double>(machine.dram_bytes) / 1e9, "memory");
  if (terabytes > 0) add(sum, *prices.nvme_terabyte, terabytes, "drive");
  return sum;
}

std::optional<Sourced> machine_rent(const PartPrices& prices, const Machine& machine) {
  return find(prices.rents, machine.card);
}

}  // namespace penstock::sim
