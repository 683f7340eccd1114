#include "sim/program/shop_own.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "shared/catalogue.h"
#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/toml_reader.h"
#include "sim/program/bill_table.h"
#include "sim/program/memory_text.h"
#include "sim/program/range_text.h"
#include "sim/program/shop_verdicts.h"

namespace penstock::sim {
namespace {

/// A profile is JSON, a scenario and a hardware file are TOML.
bool is_profile(const std::filesystem::path& file) { return file.extension() == ".json"; }
bool is_scenario(const std::filesystem::path& file) {
  return !is_profile(file) && read_toml(file).tables.contains("workload");
}

std::filesystem::path own_file(const std::filesystem::path& own) {
  if (std::filesystem::exists(own)) return own;
  const std::optional<std::filesystem::path> scenario = in_catalogue(CatalogueKind::scenario, own);
  return scenario ? *scenario : named_file(CatalogueKind::hardware, own);
}

/// Whose machine it is, and what is run on it.
struct Own {
  Judge judge;
  Machine machine;
};

Own own_of(const ShopOptions& options) {
  const std::filesystem::path file = own_file(options.own);
  if (!is_scenario(file)) {
    if (options.model.empty())
      throw InputError(
          fmt::format("shop: --own {} is a machine: give --model too, or a scenario", options.own.string()));
    return {Judge(options), is_profile(file) ? read_profile(file) : read_hardware(file)};
  }
  if (!options.model.empty() || options.workload_given)
    throw InputError(
        fmt::format("shop: --own {} is a scenario and has its own model and workload: leave out --model, --sequences "
                    "and --sequence-length, or give its hardware file",
                    options.own.string()));
  ScenarioChoice choice;
  choice.scenario = file;
  choice.cost = options.cost;
  const Scenario scenario = load_scenario(choice);
  return {Judge(options, scenario), scenario.machine};
}

std::vector<Upgrade> affordable(const ShopOptions& options, const Catalogue& catalogue) {
  if (catalogue.upgrades.empty()) throw InputError("shop: --own: the catalogue has no table [upgrade.NAME]");
  std::vector<Upgrade> upgrades = catalogue.upgrades;
  if (options.budget)
    std::erase_if(upgrades, [&](const Upgrade& upgrade) { return upgrade.price.euros > *options.budget; });
  if (upgrades.empty())
    throw DoesNotFit(fmt::format("shop: {:.0f} EUR buy no upgrade of the catalogue; the cheapest, {}, costs {:.0f}",
                                 *options.budget, catalogue.upgrades.front().name,
                                 catalogue.upgrades.front().price.euros));
  return upgrades;
}

std::string now_text(const Verdict& now) {
  if (!now.fits) return fmt::format("{} holds no plan: {}\n", now.name, now.shortage);
  return fmt::format("{}: {:.0f} tokens/s ({})\n  {}\n", now.name, now.tokens_per_second,
                     rate_range_text(now.tokens_per_second, now.error), now.plan);
}

std::string bills_of(const Verdict& now, const std::vector<NextEuro>& next) {
  std::vector<std::pair<std::string, std::optional<Bill>>> bills{{now.name, now.bill}};
  for (const NextEuro& one : next) bills.emplace_back("  " + one.upgrade.name, one.verdict.bill);
  return bills_text(bills);
}

}  // namespace

int shop_own(const ShopOptions& options, const Catalogue& catalogue, const std::filesystem::path& prices) {
  const std::vector<Upgrade> upgrades = affordable(options, catalogue);
  const Own own = own_of(options);
  const Asked machine{{own.machine.name, "own", own.machine}, {0, "own", "", false}, {}};
  const Verdict now = own.judge.judge({machine}).front();
  const std::vector<NextEuro> next = next_euros(own.judge, upgrades, machine, now);
  require_room(own.judge, now, next, prices);
  if (options.json) {
    fmt::print("{}", json_text({{"format", "penstock-shop/1"},
                                {"model", own.judge.workload().name},
                                {"own", verdict_json(now)},
                                {"upgrades", next_json(next)}}));
    return kExitDone;
  }
  const Scenario& workload = own.judge.workload();
  fmt::print("{}, {} sequences of {} tokens per step; the planner's schedule\n\n{}\n{}", workload.name,
             workload.sequences, workload.sequence_length, now_text(now), next_text(next, now));
  if (const std::string bills = bills_of(now, next); !bills.empty()) fmt::print("\n{}", bills);
  fmt::print(
      "\nIn brackets and under \"between\": what may be measured where so much is predicted from this machine's file.\n"
      "* assumed price; prices, their sources and dates are in {}.\n",
      prices.string());
  return kExitDone;
}

}  // namespace penstock::sim
