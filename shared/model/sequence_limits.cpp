#include "shared/model/sequence_limits.h"

#include <fmt/format.h>

#include <limits>

#include "shared/error.h"

namespace penstock {

std::int64_t longest_whole_attention(const ModelConfig& config) {
  const bool windowed = config.sliding_window > 0 && config.first_window_layer < config.decoder_layers;
  return windowed ? config.sliding_window : std::numeric_limits<std::int64_t>::max();
}

std::string window_reached(const ModelConfig& config, std::int64_t sequence_length) {
  const std::int64_t longest = longest_whole_attention(config);
  if (sequence_length <= longest) return "";
  return fmt::format(
      "{} tokens are more than the sliding window of {} within which {} attends, and attention is over the whole "
      "sequence here; expected at most {}{}",
      sequence_length, longest, config.name, longest,
      config.family == ModelFamily::mistral
          ? ", or a config.json with \"sliding_window\": null if the model has no window (without the key Mistral has "
            "one of 4096)"
          : "");
}

std::string rope_not_computed(const ModelConfig& config, std::int64_t sequence_length) {
  if (config.rope_scaling == RopeScaling::none || sequence_length <= config.rope_scaling_from) return "";
  const std::string_view name = rope_scaling_names()[static_cast<std::size_t>(config.rope_scaling)];
  const bool some = config.rope_scaling_from > 0;
  return fmt::format(
      "{} has rope_type \"{}\"{}, whose rotary frequencies the executor does not compute; expected \"default\" or "
      "\"llama3\"{}",
      config.name, name, some ? fmt::format(" for sequences of more than {} tokens", config.rope_scaling_from) : "",
      some ? fmt::format(", or sequences of at most {} tokens", config.rope_scaling_from) : "");
}

std::vector<std::string> length_notes(const ModelConfig& config, std::int64_t sequence_length) {
  std::vector<std::string> notes;
  if (const std::string why = rope_not_computed(config, sequence_length); !why.empty())
    notes.push_back(why + "; bytes and times do not depend on it");
  if (sequence_length > config.max_positions)
    notes.push_back(fmt::format(
        "sequences of {} tokens are longer than {}'s max_position_embeddings = {}; rotary positions go on beyond it",
        sequence_length, config.name, config.max_positions));
  return notes;
}

void require_computed(const ModelConfig& config, std::int64_t sequence_length, const std::string& place) {
  if (config.experts.balance > 0)
    throw InputError(
        fmt::format("{}: {} asks for the load-balancing loss of its experts (output_router_logits, with "
                    "router_aux_loss_coef = {}), which the executor does not compute; expected "
                    "\"output_router_logits\": false",
                    place, config.name, config.experts.balance));
  for (const std::string& why : {window_reached(config, sequence_length), rope_not_computed(config, sequence_length)})
    if (!why.empty()) throw InputError(place + ": " + why);
}

}  // namespace penstock
