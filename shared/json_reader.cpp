#include "shared/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/nearest_name.h"

namespace penstock {

using nlohmann::json;

namespace {

/// Values are walked recursively (dump, copy), so that bottomless nesting would exhaust the stack. Our own files nest
/// less than ten deep.
constexpr int kMaxDepth = 100;

bool nests_too_deep(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// Finds a key that stands twice in one object, of which the parser would silently take the last.
struct KeyWatch {
  bool see(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && repeated.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) repeated = key;
    }
    return true;
  }
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string repeated;
};

std::string repeated_key(const std::string& text) {
  KeyWatch watch;
  [[maybe_unused]] const json parsed_again =
      json::parse(text, [&](int, json::parse_event_t event, json& parsed) { return watch.see(event, parsed); });
  return watch.repeated;
}

/// Outside strings: one for each key.
std::size_t colons(const std::string& text) {
  std::size_t count = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      in_string = !in_string;
    else if (!in_string && text[i] == ':')
      ++count;
  }
  return count;
}

/// Keys of all objects in it. Fewer than colons in the text: some stand twice. (Watching the parser for them takes six
/// times as long as parsing.)
std::size_t entries(const json& value) {
  if (!value.is_structured()) return 0;
  std::size_t count = value.is_object() ? value.size() : 0;
  for (const json& element : value) count += entries(element);
  return count;
}

}  // namespace

json parse_json(const std::string& text, const std::string& place) {
  if (nests_too_deep(text))
    throw InputError(fmt::format("{}: nests more than {} deep; no JSON file read here does", place, kMaxDepth));
  // The parser takes a zero byte for the end of the text.
  if (const auto zero = text.find('\0'); zero != std::string::npos)
    throw InputError(
        fmt::format("{}: is not JSON: byte {} is zero; the file is damaged or of another kind: take another copy, or "
                    "the right file",
                    place, zero));
  try {
    json value = json::parse(text);
    if (colons(text) != entries(value))
      throw InputError(fmt::format("{}: the key \"{}\" stands twice in one object; leave one of the two", place,
                                   repeated_key(text).substr(0, 60)));
    return value;
  } catch (const json::exception& error) {
    // The library's text has line and column behind its own tag "[json.exception.…] ".
    std::string_view what = error.what();
    if (const auto tag = what.find("] "); tag != std::string_view::npos) what.remove_prefix(tag + 2);
    const auto start = text.find_first_not_of("\xef\xbb\xbf \t\r\n");
    const bool begins = start != std::string::npos && (text[start] == '{' || text[start] == '[');
    throw InputError(fmt::format("{}: is not JSON: {}; {}", place, what.substr(0, 300),
                                 begins ? "mend it there, or have the file written anew"
                                        : "a JSON file begins with {: was another file meant?"));
  }
}

json read_json_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  return parse_json(read_text_file(path, max_bytes), path.string());
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
  return found->get<std::string>();
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
