#include "sim/planner/scenario_text.h"

#include <fmt/format.h>

#include <set>

#include "shared/scenario/policy_toml.h"
#include "shared/scenario/scenario.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

std::string value_text(const TomlValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return toml_quoted(*text);
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return fmt::format("{}", *number);
  return toml_number(std::get<double>(value.value));
}

/// A path of `source` (or of the command line) as `target` must write it.
std::string path_text(const std::string& key, const TomlValue& value, const fs::path& source, const fs::path& target) {
  const auto* text = std::get_if<std::string>(&value.value);
  if (text == nullptr || text->empty() || fs::path(*text).is_absolute()) return value_text(value);
  std::error_code ignored;
  const fs::path found = fs::absolute(scenario_path(key, value, source)).lexically_normal();
  if (*text == "random" && !fs::exists(found, ignored)) return value_text(value);  // [run].data: no file, random ids
  const fs::path relative = found.lexically_relative(fs::absolute(target).lexically_normal().parent_path());
  return toml_quoted(relative.empty() ? found.string() : relative.string());
}

}  // namespace

std::string scenario_text(const TomlDocument& document, const fs::path& source, const fs::path& target,
                          const Candidate& plan) {
  static const std::set<std::string> kPaths{"model.config",     "machine.hardware", "machine.profile",
                                            "machine.software", "run.data",         "run.weights"};
  std::string text =
      fmt::format("# The plan that `penstock-sim search` found for {}; every choice is written out under [policy].\n",
                  source.filename().string());
  for (const char* name : {"model", "machine", "workload", "policy", "run"}) {
    if (std::string_view(name) == "policy") {
      text += policy_text(plan.parameters);
      continue;
    }
    const auto table = document.tables.find(name);
    if (table == document.tables.end()) continue;
    text += fmt::format("[{}]\n", name);
    for (const auto& [key, value] : table->second.values) {
      const std::string full = fmt::format("{}.{}", name, key);
      if (full == "workload.micro_batch")
        text += fmt::format("micro_batch = {}\n", plan.micro_batch);
      else
        text += fmt::format("{} = {}\n", key,
                            kPaths.contains(full) ? path_text(full, value, source, target) : value_text(value));
    }
  }
  return text;
}

}  // namespace penstock::sim
