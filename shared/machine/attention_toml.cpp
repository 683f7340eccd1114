#include "shared/machine/attention_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace penstock {
namespace {

constexpr std::string_view kForward = "forward_", kBackward = "backward_", kDeterministic = "deterministic_backward_";
constexpr int kMostHeadDim = 1024;

/// The head dimension behind `prefix`; 0 if the key is another one.
int head_dim_of(TomlSection& section, const std::string& key, std::string_view prefix) {
  if (!key.starts_with(prefix)) return 0;
  int head_dim = 0;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data() + prefix.size(), end, head_dim);
  if (error != std::errc{} || stop != end || head_dim < 1 || head_dim > kMostHeadDim)
    section.fail(key, fmt::format("the key ends in a head dimension, from 1 to {}", kMostHeadDim));
  return head_dim;
}

}  // namespace

AttentionRates read_attention_rates(const TomlDocument& document, const std::string& table) {
  AttentionRates rates;
  TomlSection section(document, table);
  if (section.keys().empty()) return rates;  // also where only [attention.CARD] is there
  const auto length = [&](const char* key, double otherwise) {
    return section.has(key) ? static_cast<double>(section.integer(key, 0, 1 << 20)) : otherwise;
  };
  rates.half_length = length("half_length", 0);
  rates.backward_half_length = length("backward_half_length", rates.half_length);
  for (const std::string& key : section.keys()) {
    const int head_dim = head_dim_of(section, key, kForward);
    if (head_dim == 0) continue;
    AttentionRate rate{head_dim, section.flops(key), 0, 0};
    rate.backward = section.flops(fmt::format("{}{}", kBackward, head_dim));
    const std::string deterministic = fmt::format("{}{}", kDeterministic, head_dim);
    rate.deterministic_backward = section.has(deterministic) ? section.flops(deterministic) : rate.backward;
    rates.by_head_dim.push_back(rate);
  }
  section.finish();
  if (rates.by_head_dim.empty())
    section.fail("forward_128", "is missing: a table of attention has a rate by head dimension");
  std::sort(rates.by_head_dim.begin(), rates.by_head_dim.end(),
            [](const AttentionRate& a, const AttentionRate& b) { return a.head_dim < b.head_dim; });
  return rates;
}

}  // namespace penstock
