#include "shared/model/sequence_limits.h"

#include <fmt/format.h>

#include "shared/error.h"

namespace penstock {

std::string rope_not_computed(const ModelConfig& config, std::int64_t sequence_length, BatchKind rows) {
  const std::string_view name = rope_scaling_names()[static_cast<std::size_t>(config.rope_scaling)];
  switch (config.rope_scaling) {
    case RopeScaling::none:
    case RopeScaling::linear:
    case RopeScaling::yarn: return "";
    case RopeScaling::dynamic:
      if (rows == BatchKind::windows || sequence_length <= config.max_positions) return "";
      return fmt::format(
          "{} has rope_type \"dynamic\", which scales by the longest document that was ever seen, and rows of {} tokens "
          "hold documents of more than max_position_embeddings = {}; expected rows of at most so many, or packing = "
          "\"windows\"",
          config.name, sequence_length, config.max_positions);
    case RopeScaling::longrope:
    case RopeScaling::proportional: break;
  }
  return fmt::format(
      "{} has rope_type \"{}\", whose rotary frequencies the executor does not compute; expected one of \"default\", "
      "\"llama3\", \"linear\", \"dynamic\", \"yarn\"",
      config.name, name);
}

std::string cut_not_computed(const ModelConfig& config) {
  if (!balances(config)) return "";
  return fmt::format(
      "{} asks for the load-balancing loss of its experts (output_router_logits), which is of whole sequences, and "
      "chunks do not have them; expected chunk_tokens = 0, or \"output_router_logits\": false",
      config.name);
}

std::vector<std::string> length_notes(const ModelConfig& config, std::int64_t sequence_length, BatchKind rows) {
  std::vector<std::string> notes;
  if (const std::string why = rope_not_computed(config, sequence_length, rows); !why.empty())
    notes.push_back(why + "; bytes and times do not depend on it");
  if (sequence_length > config.max_positions)
    notes.push_back(fmt::format(
        "sequences of {} tokens are longer than {}'s max_position_embeddings = {}; rotary positions go on beyond it",
        sequence_length, config.name, config.max_positions));
  return notes;
}

void require_computed(const ModelConfig& config, std::int64_t sequence_length, BatchKind rows,
                      const std::string& place) {
  if (const std::string why = rope_not_computed(config, sequence_length, rows); !why.empty())
    throw InputError(place + ": " + why);
}

}  // namespace penstock
