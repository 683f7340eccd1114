#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/machine/card_and_host.h"
#include "shared/model/config_json.h"
#include "shared/policy/parameters.h"
#include "shared/scenario/policy_toml.h"
#include "shared/units.h"
#include "sim/front_desk.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

/// One entry: its name (or file), and what to say of it.
struct Entry {
  std::string name;
  std::string text;
  ordered_json json;
};

std::vector<fs::path> files_in(const fs::path& folder, const char* extension) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == extension) files.push_back(entry.path());
  if (error)
    throw InputError(fmt::format("{}: cannot be listed: {}; a catalogue is a folder such as scenarios", folder.string(),
                                 error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Entry> list_presets() {
  std::vector<Entry> entries;
  for (const PresetInfo& preset : presets())
    entries.push_back({preset.name,
                       preset.summary + "; " + preset.source,
                       {{"name", preset.name}, {"summary", preset.summary}, {"source", preset.source}}});
  return entries;
}

std::vector<Entry> list_models(const fs::path& folder) {
  std::vector<Entry> entries;
  for (const fs::path& file : files_in(folder / "models", ".json")) {
    const Model model = make_model(read_model_config(file));
    const ModelConfig& config = model.config;
    const Experts& experts = config.experts;
    const std::string mixture =
        experts.count == 0 ? ""
                           : fmt::format(" ({} of them for a token: {} of {} experts)",
                                         format_count(model.active_parameters()), experts.per_token, experts.count);
    entries.push_back(
        {config.name,
         fmt::format("{} parameters{}, {} layers of {}, vocabulary {}{}", format_count(model.parameters), mixture,
                     config.decoder_layers, config.hidden, config.vocabulary, config.tied_embeddings ? ", tied" : ""),
         {{"name", config.name},
          {"file", file.string()},
          {"parameters", model.parameters},
          {"decoder_layers", config.decoder_layers},
          {"hidden", config.hidden},
          {"vocabulary", config.vocabulary}}});
    if (experts.count > 0) entries.back().json["active_parameters"] = model.active_parameters();
  }
  return entries;
}

std::vector<Entry> list_hardware(const fs::path& folder) {
  std::vector<Entry> entries;
  for (const fs::path& file : files_in(folder / "hardware", ".toml")) {
    const Machine machine = read_hardware(file);
    const std::string nvme =
        machine.nvme.bytes > 0 ? ", NVMe " + format_bytes(static_cast<double>(machine.nvme.bytes)) : "";
    entries.push_back({file.stem().string(),
                       fmt::format("{}: HBM {}, DRAM {}{}, {} cores", machine.gpu.name,
                                   format_bytes(static_cast<double>(machine.gpu.hbm_bytes)),
                                   format_bytes(static_cast<double>(machine.dram_bytes)), nvme, machine.cpu.cores),
                       {{"name", file.stem().string()},
                        {"file", file.string()},
                        {"gpu", machine.gpu.name},
                        {"hbm_bytes", machine.gpu.hbm_bytes},
                        {"dram_bytes", machine.dram_bytes},
                        {"nvme_bytes", machine.nvme.bytes}}});
  }
  return entries;
}

/// Not every catalogue has them.
std::vector<fs::path> parts_in(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder, ignored) ? files_in(folder, ".toml") : std::vector<fs::path>{};
}

std::vector<Entry> list_cards(const fs::path& folder) {
  std::vector<Entry> entries;
  for (const fs::path& file : parts_in(folder / "cards")) {
    const Machine machine = read_card_and_host(file, {});
    const Gpu& gpu = machine.gpu;
    entries.push_back(
        {file.stem().string(),
         fmt::format("{}: HBM {}, {:.0f} W, usually in {}", gpu.name, format_bytes(static_cast<double>(gpu.hbm_bytes)),
                     gpu.watts, machine.host.stem().string()),
         {{"name", file.stem().string()},
          {"file", file.string()},
          {"gpu", gpu.name},
          {"hbm_bytes", gpu.hbm_bytes},
          {"watts", gpu.watts},
          {"host", machine.host.stem().string()}}});
  }
  return entries;
}

std::vector<Entry> list_hosts(const fs::path& folder) {
  std::vector<Entry> entries;
  for (const fs::path& file : parts_in(folder / "hosts")) {
    const HostFigures host = read_host_figures(file);
    entries.push_back(
        {file.stem().string(),
         fmt::format("{}: DRAM {} at {}, {} cores", host.name, format_bytes(static_cast<double>(host.dram_bytes)),
                     format_bandwidth(host.dram_bytes_per_second), host.cores),
         {{"name", file.stem().string()},
          {"file", file.string()},
          {"dram_bytes", host.dram_bytes},
          {"dram_bytes_per_second", host.dram_bytes_per_second},
          {"cores", host.cores}}});
  }
  return entries;
}

std::vector<Entry> list_scenarios(const fs::path& folder) {
  std::vector<Entry> entries;
  for (const fs::path& file : files_in(folder, ".toml")) {
    const Scenario scenario = read_scenario(file);
    entries.push_back(
        {scenario.name,
         fmt::format("{} on {}, {}, {} sequences of {} tokens per step", scenario.model.config.name,
                     scenario.machine.name, scenario.policy.name, scenario.sequences, scenario.sequence_length),
         {{"name", scenario.name},
          {"file", file.string()},
          {"model", scenario.model.config.name},
          {"machine", scenario.machine.name},
          {"policy", scenario.policy.name},
          {"sequences", scenario.sequences},
          {"sequence_length", scenario.sequence_length}}});
  }
  return entries;
}

const char* decides_text(Decides decides) {
  switch (decides) {
    case Decides::nothing: return "";
    case Decides::order_of_additions: return "order of additions";
    case Decides::numerics: break;
  }
  return "numerics";
}

std::vector<Entry> list_policy() {
  std::vector<Entry> entries;
  for (const ParameterText& parameter : parameter_texts()) {
    const std::string bits = decides_text(parameter.decides);
    ordered_json json = {{"key", parameter.key},
                         {"values", parameter.values},
                         {"meaning", parameter.meaning},
                         {"default", parameter.start},
                         {"decides", bits}};
    if (!parameter.other_key.empty()) json["other_key"] = parameter.other_key;
    entries.push_back({parameter.key,
                       fmt::format("{} ({}; default {}{})", parameter.meaning, parameter.values, parameter.start,
                                   bits.empty() ? "" : "; decides bits: " + bits),
                       std::move(json)});
  }
  return entries;
}

}  // namespace

int list(const ListOptions& options) {
  ordered_json result = {{"format", "penstock-list/1"}};
  std::string text;
  fs::path catalogue;
  if (options.what != "presets" && options.what != "policy") {
    catalogue = options.folder.empty() ? catalogue_folder() : options.folder;
    text = fmt::format("catalogue {}\n", catalogue.string());
    result["catalogue"] = catalogue.string();
  }
  const auto add = [&](const std::string& kind, const auto& entries_of) {
    if (!options.what.empty() && options.what != kind) return;
    const std::vector<Entry> entries = entries_of();
    std::size_t width = 0;
    for (const Entry& entry : entries) width = std::max(width, entry.name.size());
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", kind);
    result[kind] = ordered_json::array();
    for (const Entry& entry : entries) {
      text += fmt::format("  {:<{}}  {}\n", entry.name, width, entry.text);
      result[kind].push_back(entry.json);
    }
  };
  add("presets", list_presets);
  if (options.what == "policy") add("policy", list_policy);  // long, and of use to few
  add("models", [&] { return list_models(catalogue); });
  add("hardware", [&] { return list_hardware(catalogue); });
  add("cards", [&] { return list_cards(catalogue); });
  add("hosts", [&] { return list_hosts(catalogue); });
  add("scenarios", [&] { return list_scenarios(catalogue); });
  fmt::print("{}", options.json ? json_text(result) : text);
  return kExitDone;
}

}  // namespace penstock::sim
