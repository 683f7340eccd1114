#include "shared/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "shared/error.h"
#include "shared/units.h"

namespace penstock {
namespace {

constexpr std::size_t kMaxShown = 60;

/// Edit distance: the fewest letters to insert, delete or replace. Long names are cut; nobody mistypes into 60 letters.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  from = from.substr(0, kMaxShown);
  to = to.substr(0, kMaxShown);
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known, std::string_view noun) {
  if (const std::string nearest = nearest_name(name, known); !nearest.empty())
    return fmt::format("did you mean {}?", nearest);
  return fmt::format("known {} are {}", noun, fmt::join(known, ", "));
}

}  // namespace

std::string shown(const TomlValue& value) {
  if (const auto* found = std::get_if<bool>(&value.value)) return *found ? "true" : "false";
  if (const auto* found = std::get_if<std::int64_t>(&value.value)) return fmt::format("{}", *found);
  if (const auto* found = std::get_if<double>(&value.value)) return fmt::format("{}", *found);
  return fmt::format("\"{}\"", std::get<std::string>(value.value).substr(0, kMaxShown));
}

std::string toml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  std::string nearest;
  // Half of the letters wrong is no longer a slip of the fingers.
  std::size_t best = std::max<std::size_t>(1, name.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  if (!nearest.empty() || name.size() < 3) return nearest;
  // "buffers" for "weight_buffers": half forgotten rather than mistyped.
  for (const std::string& candidate : known)
    if (candidate.find(name) != std::string::npos) return candidate;
  return {};
}

TomlSection::TomlSection(const TomlDocument& document, std::string name) : document_(document), name_(std::move(name)) {
  const auto found = document_.tables.find(name_);
  if (found != document_.tables.end()) table_ = &found->second;
}

bool TomlSection::has(const std::string& key) {
  known_.insert(key);
  return table_ != nullptr && table_->values.contains(key);
}

std::string TomlSection::place(const std::string& key) const {
  std::string where = table_ != nullptr ? table_->place : document_.place;
  if (table_ != nullptr)
    if (const auto found = table_->values.find(key); found != table_->values.end()) where = found->second.place;
  if (name_.empty()) return fmt::format("{}: {}", where, key.substr(0, kMaxShown));
  return fmt::format("{}: [{}] {}", where, name_.substr(0, kMaxShown), key.substr(0, kMaxShown));
}

void TomlSection::fail(const std::string& key, const std::string& what) const {
  throw InputError(fmt::format("{}: {}", place(key), what));
}

const TomlValue* TomlSection::find(const std::string& key) {
  return has(key) ? &table_->values.find(key)->second : nullptr;
}

void TomlSection::refuse(const std::string& key, const std::string& expected) const {
  if (table_ != nullptr)
    if (const auto found = table_->values.find(key); found != table_->values.end())
      fail(key, fmt::format("expected {}, found {}", expected, shown(found->second)));
  fail(key, fmt::format("is missing; expected {}", expected));
}

const TomlValue& TomlSection::value(const std::string& key) {
  const TomlValue* found = find(key);
  if (found == nullptr) refuse(key, "a value");
  return *found;
}

std::string TomlSection::text(const std::string& key) {
  const TomlValue* found = find(key);
  const auto* text = found != nullptr ? std::get_if<std::string>(&found->value) : nullptr;
  if (text == nullptr) refuse(key, "a text in quotes");
  return *text;
}

bool TomlSection::boolean(const std::string& key) {
  const TomlValue* found = find(key);
  const auto* boolean = found != nullptr ? std::get_if<bool>(&found->value) : nullptr;
  if (boolean == nullptr) refuse(key, "true or false");
  return *boolean;
}

std::int64_t TomlSection::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  const TomlValue* found = find(key);
  const auto* integer = found != nullptr ? std::get_if<std::int64_t>(&found->value) : nullptr;
  if (integer == nullptr || *integer < low || *integer > high)
    refuse(key, fmt::format("a whole number from {} to {}", low, high));
  return *integer;
}

double TomlSection::number(const std::string& key, double low, double high) {
  std::optional<double> number;
  if (const TomlValue* found = find(key)) {
    if (const auto* integer = std::get_if<std::int64_t>(&found->value)) number = static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&found->value)) number = *real;
  }
  // Written so that NaN is refused.
  if (!number || !(*number >= low && *number <= high)) refuse(key, fmt::format("a number from {} to {}", low, high));
  return *number;
}

int TomlSection::choice(const std::string& key, std::span<const std::string_view> names) {
  if (const TomlValue* found = find(key))
    if (const auto* text = std::get_if<std::string>(&found->value))
      for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == *text) return static_cast<int>(i);
  refuse(key, fmt::format("one of \"{}\"", fmt::join(names, "\", \"")));
}

std::string TomlSection::quantity(const std::string& key, const char* expected) {
  const TomlValue* found = find(key);
  if (found == nullptr) refuse(key, expected);
  if (const auto* text = std::get_if<std::string>(&found->value)) return *text;
  return shown(*found);  // the parser then says which units there are
}

std::int64_t TomlSection::bytes(const std::string& key, std::int64_t low) {
  const std::int64_t bytes = parse_bytes(quantity(key, "a size, such as \"24 GiB\""), place(key));
  if (bytes < low) refuse(key, fmt::format("at least {}", format_bytes(static_cast<double>(low))));
  return bytes;
}

double TomlSection::bandwidth(const std::string& key) {
  const double rate = parse_bandwidth(quantity(key, "a bandwidth, such as \"1008 GB/s\""), place(key));
  if (rate < 1) refuse(key, "more than zero");
  return rate;
}

double TomlSection::flops(const std::string& key) {
  const double rate = parse_flops(quantity(key, "a compute rate, such as \"989 TFLOP/s\""), place(key));
  if (rate < 1) refuse(key, "more than zero");
  return rate;
}

double TomlSection::seconds(const std::string& key) {
  return parse_seconds(quantity(key, "a time, such as \"4 us\""), place(key));
}

double TomlSection::rate(const std::string& key) {
  const double rate = parse_rate(quantity(key, "an update rate, such as \"4.7 Gparam/s\""), place(key));
  if (rate < 1) refuse(key, "more than zero");
  return rate;
}

std::vector<std::string> TomlSection::keys() const {
  std::vector<std::string> keys;
  if (table_ != nullptr)
    for (const auto& [key, unused] : table_->values) keys.push_back(key);
  return keys;
}

void TomlSection::finish() const {
  if (table_ == nullptr) return;
  for (const auto& [key, value] : table_->values)
    if (!known_.contains(key))
      fail(key, "is not a key of this table; " + suggestion(key, {known_.begin(), known_.end()}, "keys"));
}

void check_tables(const TomlDocument& document, const std::vector<std::string>& known) {
  for (const auto& [name, table] : document.tables) {
    const bool admitted = name.empty() || std::any_of(known.begin(), known.end(), [&](const std::string& candidate) {
                            return name == candidate || (candidate.ends_with('.') && name.starts_with(candidate));
                          });
    // toml++ makes the tables above "a.b" too; such a one is empty and harmless.
    if (admitted || (table.values.empty() && std::any_of(known.begin(), known.end(), [&](const std::string& candidate) {
                       return candidate.starts_with(name + ".");
                     })))
      continue;
    throw InputError(fmt::format("{}: [{}] is not a table of this file; {}", table.place, name.substr(0, kMaxShown),
                                 suggestion(name, known, "tables")));
  }
}

}  // namespace penstock
