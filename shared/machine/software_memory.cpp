#include "shared/machine/software_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "shared/error.h"
#include "shared/toml_reader.h"

namespace penstock {
namespace {

constexpr std::string_view kTable = "memory.";
constexpr std::int64_t kMostElements = 1'000'000'000'000;
constexpr std::array<std::string_view, 2> kTiers{"hbm", "dram"};
constexpr std::array<std::string_view, 4> kPieces{"all", "layer", "tensor", "sub_group"};
/// In the order of Counted, behind `nothing`.
constexpr std::array<std::string_view, 11> kCounted{"parameters", "largest_tensor", "largest_layer", "embedding",
                                                    "head",       "logits",         "chunk_logits",  "activations",
                                                    "scores",     "layer_scores",   "layer_mlp"};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

class MemoryReader {
 public:
  MemoryReader(const TomlDocument& document, SoftwareMemory& memory) : document_(document), memory_(memory) {}

  void read() {
    read_settings();
    for (const auto& [name, table] : document_.tables)
      if (name.starts_with(kTable)) {
        MemoryItem item = read_item(name);
        std::erase_if(memory_.items, [&](const MemoryItem& other) { return other.name == item.name; });
        memory_.items.push_back(std::move(item));
      }
  }

 private:
  void read_settings() {
    TomlSection section(document_, "settings");
    for (const std::string& key : section.keys()) {
      const bool is_flag = std::holds_alternative<bool>(section.value(key).value);
      const std::int64_t value = is_flag ? section.boolean(key) : section.integer(key, 0, kMostElements);
      memory_.settings[key] = {value, is_flag};
    }
  }

  /// A setting of this file, of the kind that is needed.
  void require_setting(const TomlSection& section, const std::string& key, const std::string& name, bool is_flag) {
    const auto found = memory_.settings.find(name);
    if (found != memory_.settings.end() && found->second.is_flag == is_flag) return;
    section.fail(key, fmt::format("expected {} of [settings], found \"{}\"", is_flag ? "a flag" : "a number", name));
  }

  void read_conditions(TomlSection& section, MemoryItem& item) {
    if (!section.has("when")) return;
    for (std::string name : split(section.text("when"))) {
      const bool wanted = !name.starts_with("not ");
      if (!wanted) name = name.substr(4);
      require_setting(section, "when", name, true);
      item.conditions.emplace_back(name, wanted);
    }
  }

  void read_elements(TomlSection& section, MemoryItem& item) {
    const std::string text = section.text("elements");
    const auto found = std::find(kCounted.begin(), kCounted.end(), text);
    if (found != kCounted.end()) {
      item.counted = static_cast<Counted>(found - kCounted.begin() + 1);
    } else if (memory_.settings.contains(text)) {
      require_setting(section, "elements", text, false);
      item.counted = Counted::setting;
      item.setting = text;
    } else {
      section.fail("elements", fmt::format("expected one of \"{}\" or a number of [settings], found \"{}\"",
                                           fmt::join(kCounted, "\", \""), text));
    }
    if (item.counted == Counted::chunk_logits) require_setting(section, "elements", "loss_chunk_tokens", false);
    if (section.has("pieces")) {
      item.pieces = static_cast<MemoryPieces>(section.choice("pieces", kPieces));
      if (item.counted != Counted::parameters) section.fail("pieces", "is for elements = \"parameters\" only");
      if (item.pieces == MemoryPieces::sub_group) require_setting(section, "pieces", "sub_group_size", false);
    }
  }

  MemoryItem::Times read_times(TomlSection& section, const std::string& key) {
    if (!section.has(key)) return std::int64_t{1};
    if (!std::holds_alternative<std::string>(section.value(key).value)) return section.integer(key, 1, 1000);
    const std::string name = section.text(key);
    require_setting(section, key, name, false);
    return name;
  }

  MemoryItem read_item(const std::string& name) {
    TomlSection section(document_, name);
    MemoryItem item;
    item.name = name.substr(kTable.size());
    item.cause = section.text("cause");
    item.tier = kTiers[static_cast<std::size_t>(section.choice("tier", kTiers))];
    if (section.has("presets")) item.presets = split(section.text("presets"));
    if (section.has("phases")) item.phases = split(section.text("phases"));
    read_conditions(section, item);
    if (section.has("instead_of")) item.instead_of = section.text("instead_of");
    const bool fixed = section.has("bytes");
    if (fixed == section.has("elements"))
      section.fail(fixed ? "elements" : "bytes", "give one of the two, `bytes` or `elements` with `bytes_each`");
    if (fixed) {
      item.bytes = section.bytes("bytes", 1);
    } else {
      read_elements(section, item);
      item.bytes_each = section.number("bytes_each", -1000, 1000);
      if (section.has("at_most")) {
        item.at_most = section.text("at_most");
        require_setting(section, "at_most", item.at_most, false);
      }
      if (section.has("shared_by")) {
        item.shared_by = section.text("shared_by");
        require_setting(section, "shared_by", item.shared_by, false);
      }
      if (section.has("power_of_two")) item.power_of_two = section.boolean("power_of_two");
      if (section.has("rounding_only")) item.rounding_only = section.boolean("rounding_only");
      if (item.rounding_only && !item.power_of_two) section.fail("rounding_only", "needs power_of_two = true");
    }
    item.together = read_times(section, "together");
    item.times = read_times(section, "times");
    section.finish();
    return item;
  }

  const TomlDocument& document_;
  SoftwareMemory& memory_;
};

}  // namespace

SoftwareMemory read_software_memory(const std::filesystem::path& path) {
  const TomlDocument document = read_toml(path);
  SoftwareMemory memory;
  memory.path = path;
  TomlSection top(document, "");
  memory.name = top.text("name");
  if (top.has("memory_of")) {
    const std::filesystem::path other = path.parent_path() / top.text("memory_of");
    const TomlDocument first = read_toml(other);
    if (TomlSection(first, "").has("memory_of"))
      throw InputError(fmt::format("{}: memory_of: refers to a third file; refer to that one", other.string()));
    MemoryReader(first, memory).read();
  }
  MemoryReader(document, memory).read();
  return memory;
}

}  // namespace penstock
