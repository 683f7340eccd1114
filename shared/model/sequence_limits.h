// A config.json may ask for rotary frequencies that the decoder does not compute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock {

/// Why rotary frequencies of such rows are not those that the decoder computes, and what would be right; empty if they
/// are. Bytes and time do not depend on it: whoever trains refuses it.
std::string rope_not_computed(const ModelConfig& config, std::int64_t sequence_length, BatchKind rows);

/// Why sequences of such a model are not trained on in chunks, and what would be right; empty if they are.
std::string cut_not_computed(const ModelConfig& config);

/// What is to be said of such rows where it is not refused: rope_not_computed, and that they are longer than
/// max_position_embeddings (rotary positions go on, as they do in transformers).
std::vector<std::string> length_notes(const ModelConfig& config, std::int64_t sequence_length, BatchKind rows);

/// Throws InputError, `place` first, unless training on such rows is what the model's config.json means and the executor
/// computes it.
void require_computed(const ModelConfig& config, std::int64_t sequence_length, BatchKind rows,
                      const std::string& place);

}  // namespace penstock
