// The only file that includes toml++: turns its tree into TomlDocument.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/toml_reader.h"

namespace penstock {
namespace {

/// toml++ recurses over nested tables, and a line "a.a.a.…" nests as deep as it is long: bound the lines.
constexpr std::size_t kMaxLineLength = 1000;
constexpr int kMaxTableDepth = 2;

void check_lines(const std::string& text, const std::string& place) {
  std::size_t start = 0;
  for (int line = 1; start < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end - start > kMaxLineLength)
      throw InputError(fmt::format("{}:{}: the line has {} characters, more than the {} that one may have", place, line,
                                   end - start, kMaxLineLength));
    start = end + 1;
  }
}

std::string place_of(const toml::node& node, const std::string& place) {
  return fmt::format("{}:{}", place, static_cast<int>(node.source().begin.line));
}

std::string_view kind_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::array: return node.as_array()->empty() ? "an empty list" : "a list";
    case toml::node_type::table: return "a table";
    default: return "a date or time";
  }
}

std::optional<TomlValue> single_value(const toml::node& node, const std::string& place) {
  if (const auto* found = node.as_boolean()) return TomlValue{found->get(), place};
  if (const auto* found = node.as_integer()) return TomlValue{found->get(), place};
  if (const auto* found = node.as_floating_point()) return TomlValue{found->get(), place};
  if (const auto* found = node.as_string()) return TomlValue{found->get(), place};
  if (const auto* list = node.as_array(); list != nullptr && list->is_homogeneous(toml::node_type::string)) {
    std::vector<std::string> texts;
    for (const toml::node& element : *list) texts.push_back(element.as_string()->get());
    return TomlValue{std::move(texts), place};
  }
  return std::nullopt;
}

void flatten(const toml::table& table, const std::string& name, int depth, TomlDocument& document) {
  TomlTable& flat = document.tables[name];
  flat.place = place_of(table, document.place);
  for (const auto& [key, node] : table) {
    const std::string place = place_of(node, document.place);
    const std::string key_name = std::string(key.str().substr(0, 60));
    if (auto value = single_value(node, place)) {
      flat.values.emplace(std::string(key.str()), std::move(*value));
    } else if (node.is_table() && depth < kMaxTableDepth) {
      flatten(*node.as_table(), name.empty() ? std::string(key.str()) : fmt::format("{}.{}", name, key.str()),
              depth + 1, document);
    } else {
      throw InputError(fmt::format("{}: {}{}: expected a single value, found {}", place,
                                   name.empty() ? "" : fmt::format("[{}] ", name.substr(0, 60)), key_name,
                                   kind_name(node)));
    }
  }
}

}  // namespace

TomlDocument parse_toml(const std::string& text, const std::string& place) {
  check_lines(text, place);
  TomlDocument document;
  document.place = place;
  document.text = text;
  try {
    const toml::table table = toml::parse(text);
    flatten(table, "", 0, document);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}:{}:{}: is not TOML: {}", place, static_cast<int>(error.source().begin.line),
                                 static_cast<int>(error.source().begin.column), error.description().substr(0, 300)));
  }
  return document;
}

TomlDocument read_toml(const std::filesystem::path& path) {
  return parse_toml(read_text_file(path, kMaxTomlBytes), path.string());
}

TomlValue parse_toml_value(const std::string& text, const std::string& place) {
  if (text.size() > kMaxLineLength) throw InputError(fmt::format("{}: is too long", place.substr(0, 60)));
  if (text.find('\n') == std::string::npos) {
    try {
      const toml::table table = toml::parse("value = " + text);
      if (const toml::node* node = table.get("value"); node != nullptr && table.size() == 1)
        if (auto value = single_value(*node, place)) return *value;
    } catch (const toml::parse_error&) {
      // Not TOML: the text itself.
    }
  }
  return {text, place};
}

}  // namespace penstock
