#include "sim/money/bill.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <cmath>

#include "shared/units.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

constexpr double kSecondsPerHour = 3600;

Way way_of(double euros_per_hour, const Bill& bill, std::string words, bool assumed) {
  return {euros_per_hour,
          euros_per_hour * bill.hours,
          {euros_per_hour * bill.hours_range.low, euros_per_hour * bill.hours_range.high},
          std::move(words),
          assumed};
}

/// What somebody said on the command line or in [cost], or else what the file of prices says.
std::optional<Sourced> said_or(const std::optional<double>& said, const std::optional<Sourced>& otherwise) {
  return said ? std::optional(Sourced{*said, "given", "", false, false}) : otherwise;
}

std::string source_text(const Sourced& price) {
  return price.date.empty() ? price.source : fmt::format("{}, {}", price.source, price.date);
}

std::optional<Way> rented_way(const CostKeys& cost, const PartPrices& prices, const Machine& machine,
                              const Bill& bill) {
  const std::optional<Sourced> rent = said_or(cost.rent, machine_rent(prices, machine));
  if (!rent) return std::nullopt;
  return way_of(rent->euros, bill, source_text(*rent), rent->assumed);
}

std::optional<Way> bought_way(const CostKeys& cost, const PartPrices& prices, const Machine& machine,
                              const Bill& bill) {
  const std::optional<Sourced> price = said_or(cost.price, machine_price(prices, machine));
  if (!price) return std::nullopt;
  const double years = cost.life.value_or(prices.life_years.value_or(kUsualLifeYears));
  const double euros_per_kwh =
      cost.electricity.value_or(prices.electricity ? prices.electricity->euros : kUsualEurosPerKwh);
  const double watts = cost.watts.value_or(machine.gpu.watts + machine.host_watts);
  const bool drawn = cost.watts || (machine.gpu.watts > 0 && machine.host_watts > 0);
  std::string words = fmt::format("{} ({}) over {:g} years, ", euros_text(price->euros), source_text(*price), years);
  words += drawn ? fmt::format("and {:.0f} W at {:g} EUR/kWh", watts, euros_per_kwh)
                 : "without electricity: give --watts, what the machine draws";
  const double per_hour = price->euros / (years * kHoursPerYear) + (drawn ? watts / 1000 * euros_per_kwh : 0);
  return way_of(per_hour, bill, std::move(words), price->assumed);
}

std::string way_text(const char* what, const std::optional<Way>& way, const std::string& unpriced, const char* cure) {
  if (!way)
    return fmt::format("{:<20}no price is known{}; give {}\n", what, unpriced.empty() ? "" : " of " + unpriced, cure);
  return fmt::format("{:<20}{}{}, {} to {}; {:.4g} EUR/h: {}\n", what, euros_text(way->euros), way->assumed ? "*" : "",
                     euros_text(way->range.low), euros_text(way->range.high), way->euros_per_hour, way->words);
}

ordered_json way_json(const Way& way) {
  return {{"euros_per_hour", way.euros_per_hour},
          {"euros", way.euros},
          {"euros_range", {way.range.low, way.range.high}},
          {"source", way.words},
          {"assumed", way.assumed}};
}

}  // namespace

std::optional<Bill> make_bill(const CostKeys& cost, const PartPrices& prices, const Machine& machine,
                              std::int64_t tokens_per_step, double step_seconds, const ErrorRange& error) {
  if (!cost.tokens) return std::nullopt;
  Bill bill;
  bill.amount = cost.amount;
  bill.tokens = *cost.tokens;
  bill.steps = (bill.tokens + tokens_per_step - 1) / tokens_per_step;
  const auto hours = [&](double step) { return static_cast<double>(bill.steps) * step / kSecondsPerHour; };
  const Range step = step_range(step_seconds, error);
  bill.hours = hours(step_seconds);
  bill.hours_range = {hours(step.low), hours(step.high)};
  bill.rented = rented_way(cost, prices, machine, bill);
  bill.bought = bought_way(cost, prices, machine, bill);
  if (!bill.bought) bill.unpriced = fmt::format("{}", fmt::join(unpriced_parts(prices, machine), " and "));
  return bill;
}

PartPrices prices_of(const CostKeys& cost) {
  if (!cost.tokens) return {};
  return cost.prices.empty() ? catalogue_part_prices() : read_part_prices(cost.prices);
}

std::string hours_text(double hours) {
  constexpr double kHoursPerDay = 24;
  if (hours < 1) return fmt::format("{:.3g} min", hours * 60);
  if (hours < 2 * kHoursPerDay) return fmt::format("{:.1f} h", hours);
  if (hours < 2 * kHoursPerYear) return fmt::format("{:.0f} h ({:.1f} days)", hours, hours / kHoursPerDay);
  if (hours < 1e6 * kHoursPerYear) return fmt::format("{:.0f} h ({:.1f} years)", hours, hours / kHoursPerYear);
  return fmt::format("{:.3g} years", hours / kHoursPerYear);
}

std::string euros_text(double euros) {
  if (euros >= 1e12) return fmt::format("{:.3g} EUR", euros);
  return euros < 100 ? fmt::format("{:.2f} EUR", euros) : format_count(std::llround(euros)) + " EUR";
}

std::string bill_text(const std::optional<Bill>& bill) {
  if (!bill) return "";
  std::string text = fmt::format("training            {}, {} to {}: {} in {} steps\n", hours_text(bill->hours),
                                 hours_text(bill->hours_range.low), hours_text(bill->hours_range.high), bill->amount,
                                 format_count(bill->steps));
  text += way_text("rented", bill->rented, "", "--rent, EUR per hour");
  text += way_text("bought", bill->bought, bill->unpriced, "--price, EUR of the machine");
  if ((bill->rented && bill->rented->assumed) || (bill->bought && bill->bought->assumed))
    text += fmt::format("{:<20}* of an assumed price\n", "");
  return text;
}

ordered_json bill_json(const Bill& bill) {
  ordered_json json = {{"tokens", bill.tokens},
                       {"steps", bill.steps},
                       {"hours", bill.hours},
                       {"hours_range", {bill.hours_range.low, bill.hours_range.high}}};
  if (bill.rented) json["rented"] = way_json(*bill.rented);
  if (bill.bought) json["bought"] = way_json(*bill.bought);
  return json;
}

}  // namespace penstock::sim
