// Reads what a page carries: the JSON beside a widget, and packed numbers as timeline.js reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock {

/// The `which`-th widget's data, from 1.
inline nlohmann::json data_of(const std::string& html, int which = 1) {
  const std::string start = "<script type=\"application/json\" id=data-" + std::to_string(which) + ">";
  const std::size_t from = html.find(start) + start.size();
  return nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
}

inline std::vector<std::uint64_t> packed_numbers(const std::string& base64) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : base64) {
    if (c == '=') break;
    group = group << 6 | static_cast<std::uint32_t>(kDigits.find(c));
    if ((bits += 6) < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 255);
  }
  std::vector<std::uint64_t> numbers;
  std::uint64_t value = 0;
  int shift = 0;
  for (const char c : bytes) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(c) & 127) << shift;
    shift += 7;
    if (static_cast<unsigned char>(c) >= 128) continue;
    numbers.push_back(value);
    value = 0;
    shift = 0;
  }
  return numbers;
}

inline std::int64_t signed_number(std::uint64_t zigzag) {
  return zigzag % 2 ? -static_cast<std::int64_t>(zigzag / 2) - 1 : static_cast<std::int64_t>(zigzag / 2);
}

struct UnpackedBar {
  std::int64_t op = 0;
  double start = 0, end = 0;
  std::uint64_t count = 0;
};
/// Of one lane of a timeline's data.
inline std::vector<UnpackedBar> unpacked_bars(const nlohmann::json& timeline, int side, int lane) {
  const auto numbers = packed_numbers(timeline.at("sides").at(side).at("lanes").at(lane).at("bars").get<std::string>());
  const double tick = timeline.at("tick");
  std::vector<UnpackedBar> bars;
  std::int64_t op = 0, now = 0;
  for (std::size_t i = 0; i + 3 < numbers.size(); i += 4) {
    op += signed_number(numbers[i]);
    now += signed_number(numbers[i + 1]);
    UnpackedBar bar{op, static_cast<double>(now) * tick, 0, numbers[i + 3]};
    now += static_cast<std::int64_t>(numbers[i + 2]);
    bar.end = static_cast<double>(now) * tick;
    bars.push_back(bar);
  }
  return bars;
}

}  // namespace penstock
