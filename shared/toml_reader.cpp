#include "shared/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "shared/error.h"
#include "shared/harmless_text.h"
#include "shared/nearest_name.h"
#include "shared/units.h"

namespace penstock {
namespace {

constexpr std::size_t kMaxShown = 60;

}  // namespace

std::string toml_number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string shown(const TomlValue& value) {
  if (const auto* found = std::get_if<bool>(&value.value)) return *found ? "true" : "false";
  if (const auto* found = std::get_if<std::int64_t>(&value.value)) return fmt::format("{}", *found);
  if (const auto* found = std::get_if<double>(&value.value)) return toml_number(*found);
  if (const auto* found = std::get_if<std::vector<std::string>>(&value.value)) {
    std::string list;
    for (const std::string& text : *found)
      if (list.size() < kMaxShown) list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", text.substr(0, kMaxShown));
    return "[" + list + "]";
  }
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
  fail(key, fmt::format("is missing; expected {}{}", expected, there_instead(key)));
}

std::string TomlSection::there_instead(const std::string& missing) const {
  std::vector<std::string> strangers;
  for (const std::string& key : keys())
    if (!known_.contains(key)) strangers.push_back(key);
  const std::string found = mistyped(missing, strangers);
  if (found.empty()) return "";
  const std::string& place = table_->values.find(found)->second.place;
  const std::string line = place.starts_with(document_.place + ":")
                               ? fmt::format("in line {}", place.substr(document_.place.size() + 1))
                               : place;
  return fmt::format("; there is {} ({}): did you mean {}?", found.substr(0, kMaxShown), line, missing);
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
  if (std::any_of(text->begin(), text->end(), is_control)) refuse(key, "a text without control characters");
  return *text;
}

std::vector<std::string> TomlSection::texts(const std::string& key) {
  const TomlValue* found = find(key);
  if (found != nullptr) {
    if (const auto* text = std::get_if<std::string>(&found->value)) return {*text};
    if (const auto* list = std::get_if<std::vector<std::string>>(&found->value); list != nullptr && !list->empty())
      return *list;
  }
  refuse(key, "a text in quotes or a list of them");
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
  if (integer == nullptr || *integer < low || *integer > high) {
    const auto* real = found != nullptr ? std::get_if<double>(&found->value) : nullptr;
    const bool whole = real != nullptr && *real >= static_cast<double>(low) && *real <= static_cast<double>(high) &&
                       std::abs(*real) < 1e15 && std::trunc(*real) == *real;
    refuse(key, fmt::format("a whole number from {} to {}{}", low, high,
                            whole ? fmt::format(", such as {:.0f}", *real) : ""));
  }
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
  const TomlValue* found = find(key);
  const auto* text = found != nullptr ? std::get_if<std::string>(&found->value) : nullptr;
  if (text == nullptr) refuse(key, fmt::format("one of \"{}\"", fmt::join(names, "\", \"")));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == *text) return static_cast<int>(i);
  fail(key, fmt::format("expected one of \"{}\", found {}{}", fmt::join(names, "\", \""), shown(*found),
                        meant_choice(*text, names)));
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

double TomlSection::watts(const std::string& key) {
  return parse_watts(quantity(key, "a power, such as \"450 W\""), place(key));
}

std::int64_t TomlSection::count(const std::string& key) {
  return parse_count(quantity(key, "a count, such as 300000 or \"10B\""), place(key));
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
      fail(key, known_.empty() ? "stands before the first table; every key of this file belongs in one"
                               : "is not a key of this table; " +
                                     suggestion(key, std::vector<std::string>{known_.begin(), known_.end()}, "keys"));
}

void check_tables(const TomlDocument& document, const std::vector<std::string>& known) {
  for (const auto& entry : document.tables) {
    const std::string& name = entry.first;
    const TomlTable& table = entry.second;
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
