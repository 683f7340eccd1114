#include "shared/machine/card_and_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "shared/error.h"
#include "shared/machine/part_names.h"
#include "shared/toml_reader.h"
#include "shared/units.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRates[] = {"h2d", "d2h", "duplex_h2d", "duplex_d2h"};
constexpr double kPcie4[] = {25, 26, 21, 21};      // GB/s of 16 lanes; the header has where they are from
constexpr double kPcie5[] = {54, 55, 44.4, 44.4};  // likewise
constexpr const char* kLatency = "8 us";

/// [pcie] of a card or a host.
struct Slot {
  bool sxm = false;  // a module of a server's board, or a board for such
  int generation = 0, lanes = 0;
  std::map<std::string, TomlValue> limits;  // by the names of kRates, and "latency"
  std::string place;
};

std::optional<Slot> read_slot(const TomlDocument& part) {
  TomlSection section(part, "pcie");
  if (!section.exists()) return std::nullopt;
  Slot slot;
  slot.generation = static_cast<int>(section.integer("generation", 1, 8));
  slot.lanes = static_cast<int>(section.integer("lanes", 1, 16));
  if ((slot.lanes & (slot.lanes - 1)) != 0)
    section.fail("lanes", fmt::format("expected 1, 2, 4, 8 or 16, found {}", slot.lanes));
  if (section.has("sxm")) slot.sxm = section.boolean("sxm");
  for (const char* key : kRates)
    if (section.has(key)) {
      section.bandwidth(key);
      slot.limits.emplace(key, section.value(key));
    }
  if (section.has("latency")) {
    section.seconds("latency");
    slot.limits.emplace("latency", section.value("latency"));
  }
  section.finish();
  slot.place = section.place("generation");
  return slot;
}

/// What the standard's link of `generation` and `lanes` reaches in the rate of this index.
TomlValue standard_rate(int generation, int lanes, std::size_t rate, const std::string& place) {
  const int step = generation - static_cast<int>(std::lround(std::log2(16.0 / lanes)));  // as a generation of 16 lanes
  const double gigabytes = step >= 5 ? kPcie5[rate] * std::exp2(step - 5) : kPcie4[rate] * std::exp2(step - 4);
  return {fmt::format("{} GB/s", gigabytes), place};
}

double bandwidth_of(const TomlValue& value) { return parse_bandwidth(std::get<std::string>(value.value), value.place); }

/// The link of one slot in another; one of them may be missing.
std::map<std::string, TomlValue> link_between(const Slot& card, const std::optional<Slot>& host) {
  const int generation = host ? std::min(card.generation, host->generation) : card.generation;
  const int lanes = host ? std::min(card.lanes, host->lanes) : card.lanes;
  std::map<std::string, TomlValue> link;
  for (std::size_t rate = 0; rate < std::size(kRates); ++rate) {
    TomlValue least = standard_rate(generation, lanes, rate, card.place);
    const auto limit = [&](const TomlValue& other) {
      if (bandwidth_of(other) < bandwidth_of(least)) least = other;
    };
    if (const auto own = card.limits.find(kRates[rate]); own != card.limits.end()) limit(own->second);
    if (host)
      if (const auto own = host->limits.find(kRates[rate]); own != host->limits.end()) limit(own->second);
    if (rate >= 2) limit(link.at(kRates[rate - 2]));  // both at once are no faster than one
    link.emplace(kRates[rate], least);
  }
  link.emplace("latency", TomlValue{std::string(kLatency), card.place});
  for (const Slot* slot : {&card, host ? &*host : nullptr})
    if (slot != nullptr)
      if (const auto own = slot->limits.find("latency"); own != slot->limits.end()) link["latency"] = own->second;
  return link;
}

bool has_value(const TomlDocument& document, const std::string& table, const std::string& key) {
  const auto found = document.tables.find(table);
  return found != document.tables.end() && found->second.values.contains(key);
}

/// Whether what `document` itself says replaces this value of a part under another key.
bool replaced(const TomlDocument& document, const std::string& table, const std::string& key) {
  if (table == "dram" && key.starts_with("channel")) return has_value(document, "dram", "bandwidth");
  if (table == "cpu" && key == "adamw") return document.tables.contains("cpu.adamw_by_threads");
  return false;
}

void join(TomlDocument& document, const TomlDocument& part, bool curves) {
  const TomlDocument own = document;
  for (const auto& [name, table] : part.tables) {
    if (name.empty() || name == "pcie" || (name.starts_with("link.") && !curves)) continue;
    TomlTable& joined = document.tables[name];
    if (joined.place.empty()) joined.place = table.place;
    for (const auto& [key, value] : table.values)
      if (!replaced(own, name, key)) joined.values.emplace(key, value);
  }
}

struct Part {
  fs::path file;
  TomlDocument document;
  std::string name;  // for people
  std::optional<Slot> slot;
};

Part read_part(const fs::path& file, const std::vector<std::string>& tables, std::string* usual_host) {
  Part part{file, read_toml(file), {}, {}};
  check_tables(part.document, tables);
  TomlSection top(part.document, "");
  part.name = top.text("name");
  if (usual_host != nullptr) {
    *usual_host = top.text("host");
    if (top.has("aliases")) top.text("aliases");
  }
  top.finish();
  part.slot = read_slot(part.document);
  return part;
}

Part read_card(const fs::path& file, std::string& usual_host) {
  return read_part(file, {"accuracy", "gpu", "attention", "power", "pcie", "link", "link.h2d_curve", "link.d2h_curve"},
                   &usual_host);
}

Part read_host(const fs::path& file) {
  return read_part(file,
                   {"dram", "cpu", "cpu.adamw_by_threads", "cpu.dram_by_threads", "sharing.", "power", "pcie", "nvme"},
                   nullptr);
}

void require_slot(const Part& card, const Part& host, const std::string& usual_host) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(
        fmt::format("{}: {} {}; such a card is usually in {}", card.file.string(), card.name, why, usual_host));
  };
  if (!card.slot && host.file.stem() != usual_host)
    refuse(fmt::format("is one module with its host and goes into no slot of {} ({})", host.name, host.file.string()));
  if (card.slot && !host.slot) refuse(fmt::format("finds no slot in {} ({})", host.name, host.file.string()));
  if (card.slot && card.slot->sxm && !host.slot->sxm)
    refuse(
        fmt::format("is a module of a server's board and goes into no slot of {} ({})", host.name, host.file.string()));
}

/// The card and its link, and the host where there is one, join what `document` says.
void join_parts(TomlDocument& document, const std::optional<Part>& card, const std::optional<Part>& host) {
  bool whole_link = true;  // the card's own
  if (card && card->slot) {
    const std::map<std::string, TomlValue> own = link_between(*card->slot, {});
    const std::map<std::string, TomlValue> link = link_between(*card->slot, host ? host->slot : std::nullopt);
    for (const char* key : {"h2d", "d2h"})
      whole_link = whole_link && bandwidth_of(own.at(key)) == bandwidth_of(link.at(key));
    TomlTable& table = document.tables["link"];
    if (table.place.empty()) table.place = card->slot->place;
    for (const auto& [key, value] : link) table.values.emplace(key, value);
  }
  if (card) join(document, card->document, whole_link);
  if (host) join(document, host->document, true);
}

}  // namespace

void compose(TomlDocument& document, const fs::path& folder, Machine& machine) {
  TomlSection top(document, "");
  std::optional<Part> card, host;
  std::string usual_host;
  if (top.has("card")) {
    card = read_card(find_card(top.text("card"), folder, top.place("card")), usual_host);
    machine.card = card->file;
  }
  if (top.has("host")) {
    host = read_host(find_host(top.text("host"), folder, top.place("host")));
    machine.host = host->file;
  }
  if (card && host) require_slot(*card, *host, usual_host);
  join_parts(document, card, host);
}

Machine read_card_and_host(const fs::path& card_file, const fs::path& host_file) {
  std::string usual_host;
  const Part card = read_card(card_file, usual_host);
  const Part host = read_host(
      host_file.empty() ? find_host(usual_host, card_file.parent_path(), card_file.string() + ": host") : host_file);
  require_slot(card, host, usual_host);
  TomlDocument document = parse_toml(fmt::format("name = {}\n", toml_quoted(card.name + ", " + host.name)),
                                     fmt::format("{} and {}", card_file.string(), host.file.string()));
  join_parts(document, card, host);
  Machine machine = machine_of(document);
  machine.card = card_file;
  machine.host = host.file;
  return machine;
}

}  // namespace penstock
