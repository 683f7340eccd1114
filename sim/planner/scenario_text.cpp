#include "sim/planner/scenario_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "shared/catalogue.h"
#include "shared/scenario/policy_toml.h"
#include "shared/scenario/scenario.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

std::string value_text(const TomlValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return toml_quoted(*text);
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return fmt::format("{}", *number);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value.value)) {
    std::string texts;
    for (const std::string& text : *list) texts += (texts.empty() ? "" : ", ") + toml_quoted(text);
    return "[" + texts + "]";
  }
  return toml_number(std::get<double>(value.value));
}

/// The kinds of the catalogue that keys may name.
constexpr std::pair<std::string_view, CatalogueKind> kCatalogueKeys[] = {
    {"model.config", CatalogueKind::model},        {"machine.hardware", CatalogueKind::hardware},
    {"machine.card", CatalogueKind::card},         {"machine.host", CatalogueKind::host},
    {"machine.software", CatalogueKind::software}, {"cost.prices", CatalogueKind::prices}};
constexpr std::string_view kOtherPaths[] = {"machine.profile", "machine.nvme_path", "workload.data",     "data.file",
                                            "init.weights",    "eval.file",         "checkpoint.folder", "log.metrics"};

/// Whether the value is a name that means the same wherever the scenario lies. Cards and hosts go by many names.
bool is_catalogue_name(const std::string& key, const std::string& text, const fs::path& found, const fs::path& target) {
  std::error_code ignored;
  if (fs::path(text).has_parent_path() || fs::exists(target.parent_path() / text, ignored)) return false;
  for (const auto& [name, kind] : kCatalogueKeys) {
    if (key != name) continue;
    if ((kind == CatalogueKind::card || kind == CatalogueKind::host) && !text.ends_with(".toml")) return true;
    const auto own = in_catalogue(kind, text);
    return own && fs::equivalent(*own, found, ignored);
  }
  return false;
}

bool is_path(const std::string& key) {
  return std::any_of(std::begin(kCatalogueKeys), std::end(kCatalogueKeys),
                     [&](const auto& entry) { return entry.first == key; }) ||
         std::find(std::begin(kOtherPaths), std::end(kOtherPaths), key) != std::end(kOtherPaths);
}

/// A path of `source` (or of the command line) as `target` must write it.
std::string path_text(const std::string& key, const TomlValue& value, const fs::path& source, const fs::path& target) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value.value)) {
    std::string paths;
    for (const std::string& each : *list)
      paths += (paths.empty() ? "" : ", ") + path_text(key, {each, value.place}, source, target);
    return "[" + paths + "]";
  }
  const auto* text = std::get_if<std::string>(&value.value);
  if (text == nullptr || text->empty() || fs::path(*text).is_absolute()) return value_text(value);
  std::error_code ignored;
  const fs::path found = fs::absolute(scenario_path(key, value, source)).lexically_normal();
  if (*text == "random" && !fs::exists(found, ignored)) return value_text(value);  // [data].file: no file, random ids
  if (is_catalogue_name(key, *text, found, target)) return value_text(value);
  const fs::path relative = found.lexically_relative(fs::absolute(target).lexically_normal().parent_path());
  return toml_quoted(relative.empty() ? found.string() : relative.string());
}

/// `plan`: instead of what the document says of policy and micro-batch; may be null.
std::string tables_text(const TomlDocument& document, const fs::path& source, const fs::path& target,
                        const Candidate* plan) {
  std::string text;
  for (const char* name : {"model", "machine", "workload", "policy", "run", "init", "data", "optimizer", "checkpoint",
                           "eval", "log", "cost", "software"}) {
    if (plan != nullptr && std::string_view(name) == "policy") {
      text += policy_text(plan->parameters);
      continue;
    }
    const auto table = document.tables.find(name);
    if (table == document.tables.end()) continue;
    text += fmt::format("[{}]\n", name);
    for (const auto& [key, value] : table->second.values) {
      const std::string full = fmt::format("{}.{}", name, key);
      if (plan != nullptr && full == "workload.chunk_tokens") continue;  // behind micro_batch
      if (plan != nullptr && full == "workload.micro_batch") {
        text += fmt::format("micro_batch = {}\n", plan->micro_batch);
        if (plan->chunk_tokens > 0) text += fmt::format("chunk_tokens = {}\n", plan->chunk_tokens);
      } else
        text +=
            fmt::format("{} = {}\n", key, is_path(full) ? path_text(full, value, source, target) : value_text(value));
    }
  }
  return text;
}

}  // namespace

std::string scenario_text(const TomlDocument& document, const fs::path& source, const fs::path& target,
                          const Candidate& plan) {
  return fmt::format(
      "# The plan that `penstock-sim search` found for {}; every choice is written out under [policy].\n{}",
      source.filename().string(), tables_text(document, source, target, &plan));
}

std::string document_text(const TomlDocument& document, const fs::path& source, const fs::path& target) {
  return "# Written by `penstock-sim --scenario-out`.\n" + tables_text(document, source, target, nullptr);
}

}  // namespace penstock::sim
