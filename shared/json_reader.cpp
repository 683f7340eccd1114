#include "shared/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "shared/error.h"
#include "shared/harmless_text.h"
#include "shared/json_input.h"
#include "shared/nearest_name.h"

namespace penstock {

using nlohmann::json;

namespace {

/// Of a file that is read as a whole: the header of a checkpoint of 100 000 tensors has as many. A tree takes about 60
/// bytes for each.
constexpr std::size_t kMostValues = 2'000'000;

class TreeReader : public JsonEvents<TreeReader> {
 public:
  explicit TreeReader(JsonInput& input) : JsonEvents(input), tree_(input, kMostValues) {}

  template <typename Value>
  void on_scalar(Value value) {
    tree_.value(value);
  }
  void on_open(bool is_list) { tree_.open(is_list ? json::array() : json::object()); }
  void on_key(const std::string& name) { tree_.key(name); }
  void on_close() { tree_.close(); }
  json take() { return tree_.take(); }

 private:
  JsonTree tree_;
};

json read_tree(JsonInput&& input) {
  TreeReader reader(input);
  parse_events(input, reader);
  return reader.take();
}

}  // namespace

json parse_json(const std::string& text, const std::string& place) { return read_tree(JsonInput(text, place)); }

json read_json_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  return read_tree(JsonInput(path, max_bytes));
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

JsonObject::JsonObject(const json& value, std::string place) : value_(value), place_(std::move(place)) {
  if (!value_.is_object()) throw InputError(fmt::format("{}: expected an object, found {}", place_, shown(value_)));
}

std::string JsonObject::place(const char* key) const { return fmt::format("{}.{}", place_, key); }

void JsonObject::fail(const char* key, const std::string& what) const {
  throw InputError(fmt::format("{}.{}: {}", place_, key, what));
}

bool JsonObject::has(const char* key) const { return value_.contains(key); }

const json* JsonObject::find(const char* key) {
  const auto found = value_.find(key);
  if (found == value_.end()) return nullptr;
  asked_.insert(key);
  return &*found;
}

void JsonObject::refuse(const char* key, const std::string& expected) const {
  if (const auto found = value_.find(key); found != value_.end())
    fail(key, fmt::format("expected {}, found {}", expected, shown(*found)));
  std::vector<std::string> strangers;
  for (const auto& [there, unused] : value_.items())
    if (!asked_.contains(there)) strangers.push_back(there);
  const std::string there = mistyped(key, strangers);
  fail(key, fmt::format("is missing; expected {}{}", expected,
                        there.empty() ? "" : fmt::format("; there is {}: did you mean {}?", there.substr(0, 60), key)));
}

const json& JsonObject::value(const char* key) {
  const json* found = find(key);
  if (!found) refuse(key, "a value");
  return *found;
}

std::int64_t JsonObject::integer(const char* key, std::int64_t low, std::int64_t high) {
  const json* found = find(key);
  const bool whole =
      found && found->is_number_integer() &&
      !(found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
  if (!whole || found->get<std::int64_t>() < low || found->get<std::int64_t>() > high)
    refuse(key, fmt::format("a whole number from {} to {}", low, high));
  return found->get<std::int64_t>();
}

double JsonObject::number(const char* key, double low, double high) {
  const json* found = find(key);
  const double number = found && found->is_number() ? found->get<double>() : std::nan("");
  if (!std::isfinite(number) || number < low || number > high)
    refuse(key, fmt::format("a number from {} to {}", low, high));
  return number;
}

bool JsonObject::boolean(const char* key) {
  const json* found = find(key);
  if (!found || !found->is_boolean()) refuse(key, "true or false");
  return found->get<bool>();
}

std::string JsonObject::text(const char* key) {
  const json* found = find(key);
  if (!found || !found->is_string()) refuse(key, "a text");
  std::string text = found->get<std::string>();
  if (std::any_of(text.begin(), text.end(), is_control)) refuse(key, "a text without control characters");
  return text;
}

int JsonObject::choice(const char* key, std::span<const std::string_view> names) {
  const json* found = find(key);
  if (!found || !found->is_string()) refuse(key, fmt::format("one of {}", fmt::join(names, ", ")));
  const auto& text = found->get_ref<const std::string&>();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<int>(i);
  fail(key,
       fmt::format("expected one of {}, found {}{}", fmt::join(names, ", "), shown(*found), meant_choice(text, names)));
}

const json& JsonObject::array(const char* key) {
  const json* found = find(key);
  if (!found || !found->is_array()) refuse(key, "a list");
  return *found;
}

JsonObject JsonObject::object(const char* key) {
  const json* found = find(key);
  if (!found) refuse(key, "an object");
  return JsonObject(*found, place(key));
}

void JsonObject::finish() const {
  for (const auto& [key, unused] : value_.items())
    if (!asked_.contains(key)) fail(key.substr(0, 60).c_str(), "is not a key that belongs here");
}

}  // namespace penstock
