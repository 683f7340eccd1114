#include "sim/program/shop_question.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "shared/error.h"
#include "sim/money/part_prices.h"

namespace penstock::sim {

bool is_question(const ShopOptions& options) {
  if (!options.machine.gpu.empty()) return true;
  const std::vector<std::string> given = options.machine.given();
  if (!given.empty() || !options.scenario_out.empty())
    throw InputError(fmt::format("shop: {} without --gpu: without a card the machines are the catalogue's",
                                 given.empty() ? "--scenario-out" : given.front()));
  return false;
}

Offer asked_offer(const ShopOptions& options) {
  ScenarioChoice choice;
  choice.question = options.machine;
  choice.question.model = options.model;
  choice.question.sequence_length = options.sequence_length;
  choice.question.sequences = options.sequences;
  choice.cost = options.cost;
  choice.scenario_out = options.scenario_out;
  const Scenario scenario = load_scenario(choice);
  write_scenario(choice, scenario);
  const Machine& machine = scenario.machine;
  const PartPrices prices =
      options.cost.prices.empty() ? catalogue_part_prices() : read_part_prices(options.cost.prices);
  const auto price = machine_price(prices, machine);
  Offer offer{fmt::format("{}, {}", machine.card.stem().string(), machine.host.stem().string()), machine, {}};
  if (price)
    offer.price = {price->euros, price->source, price->date, price->assumed};
  else
    offer.price = {0, fmt::format("no price is known of {}", fmt::join(unpriced_parts(prices, machine), " and ")), "",
                   true};
  return offer;
}

}  // namespace penstock::sim
