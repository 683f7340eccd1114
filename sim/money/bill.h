// Hours and euros of a training (docs/model.md, section 8).
//
//   steps = tokens / tokens per step, the next whole number      hours = steps x step / 3600
//   rented: hours x rent
//   bought: hours x (price / (life x 8766 h) + watts / 1000 x electricity)
// The price is spread over every hour of the life, whether the machine works or not; 8766 hours are a year. What a year
// of use costs besides (rooms, cooling, people) is not in it. The range of hours and euros is that of the step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "shared/machine/machine.h"
#include "shared/scenario/cost_keys.h"
#include "sim/money/part_prices.h"
#include "sim/validate/error_bar.h"

namespace penstock::sim {

inline constexpr double kHoursPerYear = 8766;  // 365.25 days
/// Where neither [cost] nor the prices file say so.
inline constexpr double kUsualLifeYears = 4;         // convention: as servers are usually written off
inline constexpr double kUsualEurosPerKwh = 0.2872;  // Eurostat: households in the EU, first half of 2025

/// One way to pay for it.
struct Way {
  double euros_per_hour = 0;
  double euros = 0;
  Range range;
  std::string words;     // where the hourly figure is from
  bool assumed = false;  // of a price that nobody saw
};

struct Bill {
  std::string amount;  // "10B tokens"
  std::int64_t tokens = 0, steps = 0;
  double hours = 0;
  Range hours_range;
  std::optional<Way> rented, bought;  // none: no price is known
  std::string unpriced;               // why there is no `bought`: "card my-card and memory"
};

/// None where [cost] says no amount. Prices of `cost` go before those of `prices`.
std::optional<Bill> make_bill(const CostKeys& cost, const PartPrices& prices, const Machine& machine,
                              std::int64_t tokens_per_step, double step_seconds, const ErrorRange& error);

/// The prices that `cost` names, or the catalogue's.
PartPrices prices_of(const CostKeys& cost);

/// Lines for people; empty without a bill.
std::string bill_text(const std::optional<Bill>& bill);
nlohmann::ordered_json bill_json(const Bill& bill);

/// "412.3 h (17.2 days)", "14.2 min": one figure for a time of minutes to years.
std::string hours_text(double hours);
/// "140 EUR", "0.34 EUR".
std::string euros_text(double euros);

}  // namespace penstock::sim
