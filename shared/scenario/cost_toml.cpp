#include <fmt/format.h>

#include <cmath>

#include "shared/scenario/cost_keys.h"
#include "shared/toml_reader.h"

namespace penstock {
namespace {

constexpr double kMostTokens = 1e18;
constexpr double kMostEpochs = 1e6;
constexpr double kMostEuros = 1e9;
constexpr double kMostEurosPerHour = 1e6;
constexpr double kMostEurosPerKwh = 1000;
constexpr double kLeastYears = 0.01, kMostYears = 100;

/// As it was written, without quotes: 10B.
std::string written(TomlSection& section, const std::string& key) {
  const TomlValue& value = section.value(key);
  const auto* text = std::get_if<std::string>(&value.value);
  return text != nullptr ? *text : shown(value);
}

void read_amount(TomlSection& section, CostKeys& cost) {
  const bool tokens = section.has("tokens"), epochs = section.has("epochs"), data = section.has("data_tokens");
  if (tokens && (epochs || data))
    section.fail("tokens", "stands beside epochs or data_tokens; keep tokens, or the other two");
  if (epochs != data)
    section.fail(epochs ? "data_tokens" : "epochs",
                 epochs ? "is missing: the tokens that one epoch has, such as data_tokens = \"50M\""
                        : "is missing: how many times data_tokens are trained on, such as epochs = 3");
  if (tokens) {
    cost.tokens = section.count("tokens");
    cost.amount = written(section, "tokens") + " tokens";
  }
  if (!epochs) return;
  const double count = section.number("epochs", 1e-6, kMostEpochs);
  const double all = std::ceil(count * static_cast<double>(section.count("data_tokens")));
  if (all > kMostTokens) section.fail("epochs", fmt::format("expected at most {:g} tokens together", kMostTokens));
  cost.tokens = static_cast<std::int64_t>(all);
  cost.amount = fmt::format("{} epochs of {} tokens", count, written(section, "data_tokens"));
}

}  // namespace

CostKeys read_cost(const TomlDocument& document) {
  CostKeys cost;
  TomlSection section(document, "cost");
  if (!section.exists()) return cost;
  read_amount(section, cost);
  const auto number = [&](const char* key, std::optional<double>& value, double low, double high) {
    if (section.has(key)) value = section.number(key, low, high);
  };
  number("rent", cost.rent, 0, kMostEurosPerHour);
  number("price", cost.price, 0, kMostEuros);
  number("life", cost.life, kLeastYears, kMostYears);
  number("electricity", cost.electricity, 0, kMostEurosPerKwh);
  if (section.has("watts")) cost.watts = section.watts("watts");
  section.has("prices");
  section.finish();
  if (!cost.tokens)
    section.fail("tokens", "is missing: hours and euros are of so many tokens, such as tokens = \"10B\"");
  return cost;
}

}  // namespace penstock
