#include "shared/model/frozen_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "shared/error.h"

namespace penstock {
namespace {

constexpr std::string_view kEmbedding = "embed_tokens", kNorm = "norm", kProjection = "lm_head", kLayers = "layers.";

struct Range {
  std::int64_t first = 0, last = 0;
};

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || text.front() == '-')
    return std::nullopt;
  return value;
}

/// Of what stands behind "layers.".
std::optional<Range> range_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = whole_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : whole_number(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return Range{*first, *last};
}

[[noreturn]] void refuse_name(const std::string& name) {
  const std::string_view rest = std::string_view(name).substr(std::min(name.size(), kLayers.size()));
  const std::size_t dot = rest.find('.');
  if (name.starts_with(kLayers) && dot != std::string_view::npos && range_of(rest.substr(0, dot)))
    throw InputError(fmt::format("\"{}\" names a part of a layer; whole layers can be frozen: \"layers.{}\"", name,
                                 rest.substr(0, dot)));
  throw InputError(
      fmt::format("\"{}\" is nothing that can be frozen; expected \"embed_tokens\", \"layers.3\", "
                  "\"layers.0-15\", \"norm\" or \"lm_head\"",
                  name));
}

}  // namespace

void check_frozen_layers(const ModelConfig& config) {
  const std::vector<int>& frozen = config.frozen_layers;
  const int head = static_cast<int>(config.decoder_layers) + 1;
  for (std::size_t i = 0; i < frozen.size(); ++i)
    if (frozen[i] < 0 || frozen[i] > head || (i > 0 && frozen[i] <= frozen[i - 1]))
      throw InputError(fmt::format("frozen layer {}: expected ascending layers from 0 to {}", frozen[i], head));
  if (config.tied_embeddings &&
      std::binary_search(frozen.begin(), frozen.end(), 0) != std::binary_search(frozen.begin(), frozen.end(), head))
    throw InputError(
        "the embedding of this model is its output projection, whose gradient comes with the final norm's: freeze "
        "\"embed_tokens\" and \"norm\" together, or neither");
}

std::vector<int> frozen_layers(const std::vector<std::string>& names, const ModelConfig& config) {
  const auto head = static_cast<int>(config.decoder_layers) + 1;
  std::set<int> layers;
  bool norm = false, projection = false;
  for (const std::string& name : names) {
    if (name == kEmbedding) {
      layers.insert(0);
    } else if (name == kNorm) {
      norm = true;
    } else if (name == kProjection) {
      projection = true;
    } else {
      const auto range =
          name.starts_with(kLayers) ? range_of(std::string_view(name).substr(kLayers.size())) : std::nullopt;
      if (!range) refuse_name(name);
      if (range->first > range->last || range->last >= config.decoder_layers)
        throw InputError(fmt::format("\"{}\": the model has the layers 0 to {}", name, config.decoder_layers - 1));
      for (std::int64_t layer = range->first; layer <= range->last; ++layer) layers.insert(static_cast<int>(layer) + 1);
    }
  }
  if (config.tied_embeddings && projection) layers.insert(0);
  if (!config.tied_embeddings && norm != projection)
    throw InputError(
        fmt::format("\"{}\": final norm and output projection are one layer; freeze \"norm\" and "
                    "\"lm_head\" together, or neither",
                    norm ? kNorm : kProjection));
  if (norm) layers.insert(head);
  ModelConfig frozen = config;
  frozen.frozen_layers.assign(layers.begin(), layers.end());
  check_frozen_layers(frozen);
  if (static_cast<int>(layers.size()) == head + 1) throw InputError("everything is frozen, and nothing would train");
  return frozen.frozen_layers;
}

ModelConfig with_decoder_layers(ModelConfig config, std::int64_t layers) {
  const int before = static_cast<int>(config.decoder_layers) + 1, head = static_cast<int>(layers) + 1;
  std::vector<int> frozen;
  for (const int layer : config.frozen_layers)
    if (layer == before)
      frozen.push_back(head);
    else if (layer < head)
      frozen.push_back(layer);
  if (static_cast<int>(frozen.size()) == head + 1) frozen.pop_back();  // the head, that something trains
  if (config.tied_embeddings && !frozen.empty() && frozen.front() == 0 && frozen.back() != head)
    frozen.erase(frozen.begin());
  if (config.sliding_window > 0) {
    std::vector<int> windows;
    for (std::int64_t i = 0; i < layers; ++i)
      if (std::binary_search(config.window_layers.begin(), config.window_layers.end(),
                             static_cast<int>(i % config.decoder_layers)))
        windows.push_back(static_cast<int>(i));
    config.window_layers = std::move(windows);
    if (config.window_layers.empty()) config.sliding_window = 0;
  }
  config.decoder_layers = layers;
  std::erase_if(config.experts.dense_layers, [layers](int layer) { return layer >= layers; });
  config.frozen_layers = std::move(frozen);
  return config;
}

std::string frozen_text(const ModelConfig& config) {
  const auto head = static_cast<int>(config.decoder_layers) + 1;
  std::string text;
  const auto add = [&](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
  const std::vector<int>& frozen = config.frozen_layers;
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    if (frozen[i] == 0) {
      add(std::string(kEmbedding));
      continue;
    }
    if (frozen[i] == head) {
      add(std::string(kNorm));
      if (!config.tied_embeddings) add(std::string(kProjection));
      continue;
    }
    const int first = frozen[i];
    while (i + 1 < frozen.size() && frozen[i + 1] == frozen[i] + 1 && frozen[i + 1] < head) ++i;
    add(first == frozen[i] ? fmt::format("{}{}", kLayers, first - 1)
                           : fmt::format("{}{}-{}", kLayers, first - 1, frozen[i] - 1));
  }
  return text;
}

}  // namespace penstock
