// The table of policy parameters: whole, and read back as it is written.
#include "shared/scenario/policy_toml.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "shared/error.h"
#include "shared/units.h"

namespace penstock {
namespace {

struct Anything {
  template <typename T>
  operator T() const;
};

/// How many members an aggregate has: as many as it can be initialised by.
template <typename Aggregate, typename... Found>
constexpr std::size_t members() {
  if constexpr (requires { Aggregate{Found{}..., Anything{}}; })
    return members<Aggregate, Found..., Anything>();
  else
    return sizeof...(Found);
}

PolicyParameters parsed(const std::string& text) { return read_policy(parse_toml(text, "s.toml")); }

/// A value other than the default, that the parameter takes.
std::string other_value(const ParameterText& parameter) {
  if (parameter.values == "true, false") return parameter.start == "true" ? "false" : "true";
  if (parameter.key == "keep_layers") return "\"1-2 everything dram\"";
  if (parameter.values.starts_with('"')) {  // a name that is not the default
    std::string names = parameter.values;
    if (names.starts_with(parameter.start)) names.erase(0, parameter.start.size() + 2);
    return names.substr(0, names.find(','));
  }
  return parameter.start == "1" ? "2" : "1";
}

TEST(PolicyTable, HasARowForEveryMember) {
  std::size_t rows = 0;
  each_parameter([&](const ParameterAbout&, const auto& member, const auto&) {
    using Value = std::remove_cvref_t<decltype(member(std::declval<PolicyParameters&>()))>;
    rows += std::is_same_v<Value, std::tuple<BurstKind&, std::int64_t&>> ? 2 : 1;  // "4 MiB" is both
  });
  // All but the name; numerics and their chunking are rows of their own.
  EXPECT_EQ(rows, members<PolicyParameters>() - 2 + members<Numerics>() - 1 + members<Chunking>());
}

TEST(PolicyTable, KeysDiffer) {
  std::set<std::string> keys;
  for (const ParameterText& parameter : parameter_texts()) {
    EXPECT_TRUE(keys.insert(parameter.key).second) << parameter.key;
    if (!parameter.other_key.empty()) {
      EXPECT_TRUE(keys.insert(parameter.other_key).second) << parameter.other_key;
    }
  }
}

TEST(PolicyTable, EveryParameterIsReadAsItIsWritten) {
  const std::string start = policy_text(PolicyParameters{});
  for (const ParameterText& parameter : parameter_texts()) {
    const std::string value = other_value(parameter);
    const std::string line = parameter.key + " = " + value;
    const std::string needed =
        parameter.key.starts_with("first_") && parameter.key != "first_layers" && parameter.key != "first_group"
            ? "\nfirst_layers = 2"
            : "";
    const std::string text = policy_text(parsed("[policy]\n" + line + needed));
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
    EXPECT_NE(text, start) << line;
    EXPECT_EQ(policy_text(parsed(text)), text) << line;
    // That key alone, but for what was needed.
    EXPECT_EQ(given_parameters(parse_toml("[policy]\n" + line, "s.toml")).count(parameter.key), 1u) << line;
  }
}

TEST(PolicyTable, DefaultsAreThePresets) {
  const std::string start = policy_text(preset_parameters("penstock"));
  for (const ParameterText& parameter : parameter_texts())
    EXPECT_NE(start.find("\n" + parameter.key + " = " + parameter.start + "\n"), std::string::npos) << parameter.key;
}

TEST(PolicyTable, NumericsAndChunksDecideBits) {
  std::set<std::string> numerics, order;
  for (const ParameterText& parameter : parameter_texts()) {
    if (parameter.decides == Decides::numerics) numerics.insert(parameter.key);
    if (parameter.decides == Decides::order_of_additions) order.insert(parameter.key);
  }
  EXPECT_EQ(numerics,
            (std::set<std::string>{"states", "moments", "gradient_sum", "gradient_link", "sum_on_host", "clip"}));
  EXPECT_EQ(order, (std::set<std::string>{"mlp_chunk_tokens", "loss_chunk_tokens"}));
}

TEST(PolicyTable, WhatSpeaksOfAllLayersSettlesTheExceptions) {
  const auto given = [](const std::string& line) {
    return given_parameters(parse_toml("[policy]\n" + line, "s.toml"));
  };
  EXPECT_EQ(given("keep = \"everything\""), (std::set<std::string>{"keep", "first_layers", "keep_layers"}));
  EXPECT_EQ(given("optimizer_time = \"end\""), (std::set<std::string>{"optimizer_when"}));
  EXPECT_EQ(given("name = \"megatrain\""), std::set<std::string>{});
}

}  // namespace
}  // namespace penstock
