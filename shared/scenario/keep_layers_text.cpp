#include "shared/scenario/keep_layers_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "shared/error.h"
#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

constexpr int kMostLayers = 4096;

/// Takes words and numbers from the front of a text.
class Reader {
 public:
  Reader(std::string_view text, const std::string& place) : rest_(text), place_(place) {}

  bool at_end() const { return rest_.find_first_not_of(' ') == std::string_view::npos; }
  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  int layer() {
    skip_spaces();
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 1 || value > kMostLayers)
      fail(fmt::format("a number from 1 to {}", kMostLayers));
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  bool at_number() {
    skip_spaces();
    return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
  }
  int choice(std::span<const std::string_view> names) {
    skip_spaces();
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" ,"));
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == word) {
        rest_.remove_prefix(word.size());
        return static_cast<int>(i);
      }
    fail(fmt::format("one of {}", fmt::join(names, ", ")));
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw InputError(fmt::format(
        "{}: expected {} at \"{}\", as in \"1-8 input_attention dram, 9-31*12 everything dram, 32 everything hbm\"",
        place_, expected, rest_.empty() ? "the end" : rest_.substr(0, 40)));
  }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(' '))); }

  std::string_view rest_;
  const std::string& place_;
};

LayerKeep read_one(Reader& reader) {
  LayerKeep layers;
  layers.first = layers.last = reader.layer();
  if (reader.take('-')) layers.last = reader.at_number() ? reader.layer() : -1;
  if (layers.last >= 0 && layers.last < layers.first)
    reader.fail(fmt::format("a range that does not end before it begins ({}-{})", layers.first, layers.last));
  if (reader.take('*')) layers.count = reader.layer();
  layers.keep = static_cast<Keep>(reader.choice(keep_names()));
  layers.activations = static_cast<TierKind>(reader.choice(tier_names()));
  return layers;
}

}  // namespace

std::vector<LayerKeep> parse_keep_layers(std::string_view text, const std::string& place) {
  std::vector<LayerKeep> layers;
  Reader reader(text, place);
  while (!reader.at_end()) {
    layers.push_back(read_one(reader));
    if (!reader.at_end() && !reader.take(',')) reader.fail("a comma");
  }
  return layers;
}

std::string keep_layers_text(const std::vector<LayerKeep>& layers) {
  std::string text;
  for (const LayerKeep& kept : layers) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", kept.first);
    if (kept.last != kept.first) text += kept.last < 0 ? "-" : fmt::format("-{}", kept.last);
    if (kept.count != 0) text += fmt::format("*{}", kept.count);
    text += fmt::format(" {} {}", keep_names()[static_cast<std::size_t>(kept.keep)],
                        tier_names()[static_cast<std::size_t>(kept.activations)]);
  }
  return text;
}

}  // namespace penstock
