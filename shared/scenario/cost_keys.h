// [cost] of a scenario: how much is to be trained, and what an hour of the machine costs. Only penstock-sim reads it
// (sim/money makes hours and euros of it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace penstock {

struct TomlDocument;

struct CostKeys {
  std::optional<std::int64_t> tokens;  // of the whole training; of epochs x data_tokens the next whole number
  std::string amount;                  // in words: "10B tokens", "3 epochs of 50M tokens"
  std::optional<double> rent;          // EUR per hour of the whole machine
  std::optional<double> price;         // EUR of the whole machine
  std::optional<double> life;          // years over which the price is spread, used day and night
  std::optional<double> electricity;   // EUR per kWh
  std::optional<double> watts;         // drawn at the wall while it trains
  std::filesystem::path prices;        // of parts, rents and electricity; empty: the catalogue's
};

/// No table reads as nothing. Throws InputError: an unknown key, a figure out of range, epochs without data_tokens,
/// both beside tokens, prices
/// without an amount. `prices` is left to whoever knows where paths begin.
CostKeys read_cost(const TomlDocument& document);

}  // namespace penstock
