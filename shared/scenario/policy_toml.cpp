#include "shared/scenario/policy_toml.h"

#include <fmt/format.h>

#include "shared/error.h"
#include "shared/scenario/keep_layers_text.h"
#include "shared/units.h"

namespace penstock {
namespace {

// Of each kind of value: how it is read, how it is written, and what is said of it.

template <typename Integer>
void read(TomlSection& section, const std::string& key, const Count& kind, Integer& parameter) {
  parameter = static_cast<Integer>(section.integer(key, kind.low, kind.high));
}

void read(TomlSection& section, const std::string& key, const CountOrAll& kind, int& parameter) {
  const TomlValue& found = section.value(key);
  if (const auto* text = std::get_if<std::string>(&found.value)) {
    if (*text != "all")
      section.fail(key, fmt::format("expected \"all\" or a whole number from {} to {}, found {}", kind.low, kind.high,
                                    shown(found)));
    parameter = kind.all;
  } else {
    parameter = static_cast<int>(section.integer(key, kind.low, kind.high));
  }
}

void read(TomlSection& section, const std::string& key, Flag, bool& parameter) { parameter = section.boolean(key); }

template <typename Enum>
void read(TomlSection& section, const std::string& key, const OneOf& kind, Enum& parameter) {
  parameter = static_cast<Enum>(section.choice(key, kind.names));
}

void read(TomlSection& section, const std::string& key, const Real& kind, double& parameter) {
  parameter = section.number(key, kind.low, kind.high);
}

void read(TomlSection& section, const std::string& key, BurstSize, std::tuple<BurstKind&, std::int64_t&> parameter) {
  auto& [burst, bytes] = parameter;
  const TomlValue& found = section.value(key);
  const auto* text = std::get_if<std::string>(&found.value);
  if (text == nullptr)
    section.fail(key,
                 fmt::format("expected \"layer\", \"tensor\" or a size such as \"4 MiB\", found {}", shown(found)));
  bytes = 0;
  if (*text == "layer") {
    burst = BurstKind::layer;
  } else if (*text == "tensor") {
    burst = BurstKind::tensor;
  } else {
    burst = BurstKind::fixed;
    bytes = parse_bytes(*text, section.place(key) + ": neither \"layer\" nor \"tensor\"");
    // Below a page a copy is all latency, and a layer would be cut into millions of them.
    if (bytes < 4096) section.fail(key, fmt::format("expected at least 4 KiB, found {}", shown(found)));
  }
}

void read(TomlSection& section, const std::string& key, LayerRanges, std::vector<LayerKeep>& parameter) {
  parameter = parse_keep_layers(section.text(key), section.place(key));
}

template <typename Number>
std::string text(const Count&, Number value) {
  return fmt::format("{}", value);
}
std::string text(const CountOrAll& kind, int value) { return value == kind.all ? "\"all\"" : fmt::format("{}", value); }
std::string text(Flag, bool value) { return value ? "true" : "false"; }
template <typename Enum>
std::string text(const OneOf& kind, Enum value) {
  return fmt::format("\"{}\"", kind.names[static_cast<std::size_t>(value)]);
}
std::string text(const Real&, double value) { return fmt::format("{}", value); }
std::string text(BurstSize, std::tuple<const BurstKind&, const std::int64_t&> value) {
  const auto& [burst, bytes] = value;
  return burst == BurstKind::layer    ? "\"layer\""
         : burst == BurstKind::tensor ? "\"tensor\""
                                      : fmt::format("\"{} B\"", bytes);
}
std::string text(LayerRanges, const std::vector<LayerKeep>& value) {
  return fmt::format("\"{}\"", keep_layers_text(value));
}

std::string described(const Count& kind) { return fmt::format("{} to {}", kind.low, kind.high); }
std::string described(const CountOrAll& kind) { return fmt::format("{} to {}, \"all\"", kind.low, kind.high); }
std::string described(Flag) { return "true, false"; }
std::string described(const OneOf& kind) {
  std::string names;
  for (const std::string_view name : kind.names) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
  return names;
}
std::string described(const Real& kind) { return fmt::format("a number from {} to {}", kind.low, kind.high); }
std::string described(BurstSize) { return "\"layer\", \"tensor\", a size such as \"4 MiB\""; }
std::string described(LayerRanges) {
  return "ranges such as \"1-30 input_attention dram, 1-30*12 everything dram, 31-32 everything hbm\"";
}

PolicyParameters preset(TomlSection& section) {
  const std::string name = section.has("name") ? section.text("name") : PolicyParameters{}.name;
  try {
    return preset_parameters(name);
  } catch (const InputError& error) {
    section.fail("name", error.what());
  }
}

/// The key under which the parameter is given; nullptr if it is not. Both names become known ones.
const char* given_key(TomlSection& section, const ParameterAbout& about) {
  const bool has = section.has(about.key);
  if (about.other_key == nullptr || !section.has(about.other_key)) return has ? about.key : nullptr;
  if (has)
    section.fail(about.other_key,
                 fmt::format("is another name of {}, which stands there too; keep one of the two", about.key));
  return about.other_key;
}

}  // namespace

PolicyParameters read_policy(const TomlDocument& document) {
  TomlSection section(document, "policy");
  PolicyParameters policy = preset(section);
  each_parameter([&](const ParameterAbout& about, const auto& member, const auto& values) {
    const char* key = given_key(section, about);
    if (key == nullptr) return;
    if (about.needs != nullptr && !section.has(about.needs))
      section.fail(key, fmt::format("counts only with {0}, but {0} is not given; give it too", about.needs));
    auto&& parameter = member(policy);
    read(section, key, values, parameter);
  });
  section.finish();
  return policy;
}

std::set<std::string> given_parameters(const TomlDocument& document) {
  std::set<std::string> keys;
  const auto table = document.tables.find("policy");
  if (table == document.tables.end()) return keys;
  const auto& given = table->second.values;
  each_parameter([&](const ParameterAbout& about, const auto&, const auto&) {
    if (!given.contains(about.key) && (about.other_key == nullptr || !given.contains(about.other_key))) return;
    keys.insert(about.key);
    for (const char* settled : about.settles)
      if (settled != nullptr) keys.insert(settled);
  });
  return keys;
}

std::string policy_text(const PolicyParameters& policy) {
  std::string lines = fmt::format("[policy]\nname = \"{}\"\n", policy.name);
  each_parameter([&](const ParameterAbout& about, const auto& member, const auto& values) {
    lines += fmt::format("{} = {}\n", about.key, text(values, member(policy)));
  });
  return lines;
}

std::vector<ParameterText> parameter_texts() {
  std::vector<ParameterText> texts;
  const PolicyParameters start;
  each_parameter([&](const ParameterAbout& about, const auto& member, const auto& values) {
    texts.push_back({about.key, about.other_key == nullptr ? "" : about.other_key, described(values), about.meaning,
                     text(values, member(start)), about.decides});
  });
  return texts;
}

}  // namespace penstock
