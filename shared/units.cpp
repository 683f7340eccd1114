#include "shared/units.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "shared/decimal.h"
#include "shared/error.h"

namespace penstock {
namespace {

struct Unit {
  std::string_view name;
  double factor = 1;
};

/// One kind of quantity: what to call it, the units it may have, the largest value that makes sense.
struct Quantity {
  std::string_view noun;
  std::string_view example;
  std::string_view suffix;  // follows every unit's name
  std::span<const Unit> units;
  double limit = 0;
};

constexpr Unit kByteUnits[] = {{"B", 1},
                               {"kB", 1e3},
                               {"KiB", 1024.0},
                               {"MB", 1e6},
                               {"MiB", 1048576.0},
                               {"GB", 1e9},
                               {"GiB", 1073741824.0},
                               {"TB", 1e12},
                               {"TiB", 1099511627776.0}};
constexpr Unit kFlopUnits[] = {{"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};
constexpr Unit kTimeUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr Unit kParameterUnits[] = {{"param", 1}, {"kparam", 1e3}, {"Mparam", 1e6}, {"Gparam", 1e9}};

constexpr Unit kPowerUnits[] = {{"W", 1}, {"kW", 1e3}};
constexpr Unit kCounts[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};

constexpr Quantity kBytes = {"a size", "24 GiB", "", kByteUnits, 1e18};
constexpr Quantity kBandwidth = {"a bandwidth", "1008 GB/s", "/s", kByteUnits, 1e18};
constexpr Quantity kFlops = {"a compute rate", "989 TFLOP/s", "/s", kFlopUnits, 1e21};
constexpr Quantity kTime = {"a time", "4 us", "", kTimeUnits, 1e9};
constexpr Quantity kRate = {"an update rate", "4.7 Gparam/s", "/s", kParameterUnits, 1e15};

constexpr Quantity kPower = {"a power", "450 W", "", kPowerUnits, 1e9};
constexpr Quantity kCount = {"a count", "10B", "", kCounts, 1e18};

constexpr std::size_t kMaxTextLength = 64;

[[noreturn]] void refuse(const Quantity& quantity, std::string_view text, const std::string& place) {
  std::string names;
  for (const Unit& unit : quantity.units)
    names +=
        fmt::format("{}{}{}", names.empty() ? "" : ", ", unit.name.empty() ? "nothing" : unit.name, quantity.suffix);
  throw InputError(fmt::format("{}: expected {} with its unit ({}), such as \"{}\"; found \"{}\"", place, quantity.noun,
                               names, quantity.example, text.substr(0, kMaxTextLength)));
}

/// The number at the start of `text`, which moves behind it. No sign, no "inf", no hexadecimal.
double take_number(const Quantity& quantity, std::string_view& text, const std::string& place) {
  const std::string_view whole = text;
  if (text.starts_with('-'))
    throw InputError(
        fmt::format("{}: {} cannot be negative; found \"{}\"", place, quantity.noun, whole.substr(0, kMaxTextLength)));
  double number = 0;
  const bool starts_with_digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
  const auto [end, error] = decimal_from_chars(text, number);
  if (!starts_with_digit || error == std::errc::invalid_argument) refuse(quantity, whole, place);
  if (error != std::errc{}) number = HUGE_VAL;  // out of range of double: absurd whatever the unit
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

double parse(const Quantity& quantity, std::string_view text, const std::string& place) {
  if (text.size() > kMaxTextLength) refuse(quantity, text, place);
  std::string_view rest = text;
  const double number = take_number(quantity, rest, place);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  for (const Unit& unit : quantity.units) {
    if (!rest.starts_with(unit.name) || rest.substr(unit.name.size()) != quantity.suffix) continue;
    const double value = number * unit.factor;
    if (!(value <= quantity.limit))
      throw InputError(fmt::format("{}: {} of at most {:g} {}{}; found \"{}\"", place, quantity.noun,
                                   quantity.limit / quantity.units.back().factor, quantity.units.back().name,
                                   quantity.suffix, text));
    return value;
  }
  refuse(quantity, text, place);
}

/// Picks the largest unit in which the value is at least 1.
const Unit& suitable(std::span<const Unit> units, double value) {
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (std::abs(value) >= unit.factor) best = &unit;
  return *best;
}

constexpr Unit kBinaryUnits[] = {
    {"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
constexpr Unit kDecimalUnits[] = {{"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};

}  // namespace

std::int64_t parse_bytes(std::string_view text, const std::string& place) {
  return std::llround(parse(kBytes, text, place));
}
double parse_bandwidth(std::string_view text, const std::string& place) { return parse(kBandwidth, text, place); }
double parse_flops(std::string_view text, const std::string& place) { return parse(kFlops, text, place); }
double parse_seconds(std::string_view text, const std::string& place) { return parse(kTime, text, place); }
double parse_rate(std::string_view text, const std::string& place) { return parse(kRate, text, place); }
double parse_watts(std::string_view text, const std::string& place) { return parse(kPower, text, place); }
std::int64_t parse_count(std::string_view text, const std::string& place) {
  const double value = parse(kCount, text, place);
  const std::int64_t count = std::llround(value);
  if (value < 1) throw InputError(fmt::format("{}: expected at least 1; found \"{}\"", place, text));
  // 0.3M is no whole number in binary.
  if (std::abs(value - static_cast<double>(count)) > 1e-9 * value)
    throw InputError(fmt::format("{}: expected a whole number; found \"{}\"", place, text));
  return count;
}

std::string format_bytes_gib(double bytes) { return fmt::format("{:.2f} GiB", bytes / 1073741824.0); }

std::string format_bytes(double bytes) {
  const Unit& unit = suitable(kBinaryUnits, bytes);
  if (unit.factor == 1) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.2f} {}", bytes / unit.factor, unit.name);
}

std::string format_seconds(double seconds) {
  const Unit& unit = suitable(kTimeUnits, seconds);
  const double value = seconds / unit.factor;
  if (std::abs(value) >= 10000) return fmt::format("{:.0f} {}", value, unit.name);
  return fmt::format("{:.4g} {}", value, unit.name);
}

std::string format_bandwidth(double bytes_per_second) {
  const Unit& unit = suitable(kDecimalUnits, bytes_per_second);
  return fmt::format("{:.1f} {}/s", bytes_per_second / unit.factor, unit.name);
}

std::string format_flops(double flops_per_second) {
  const Unit& unit = suitable(kFlopUnits, flops_per_second);
  return fmt::format("{:.1f} {}/s", flops_per_second / unit.factor, unit.name);
}

std::string format_count(std::int64_t count) {
  const std::string digits = fmt::format("{}", count);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool behind_digit = i > 0 && digits[i - 1] != '-';
    if (behind_digit && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

}  // namespace penstock
