// A config.json may ask for what the decoder does not compute: attention within a sliding window, rotary frequencies
// scaled otherwise than llama3's. Up to some length of a sequence that makes no difference; here is what that length
// is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/model/model.h"

namespace penstock {

/// Tokens of the longest sequence over all of which every layer attends: the window if a layer has one (a window as
/// long as the sequence hides nothing), otherwise INT64_MAX.
std::int64_t longest_whole_attention(const ModelConfig& config);

/// Why a sequence of so many tokens reaches the window, and what would be right; empty if it does not. Other
/// mathematics, and another number of FLOPs: whoever reads a scenario refuses it.
std::string window_reached(const ModelConfig& config, std::int64_t sequence_length);

/// Why rotary frequencies of so long a sequence are not those that the decoder computes; empty if they are. Bytes and
/// time do not depend on it: whoever trains refuses it.
std::string rope_not_computed(const ModelConfig& config, std::int64_t sequence_length);

/// What is to be said of sequences of this length where it is not refused: rope_not_computed, and that they are longer
/// than max_position_embeddings (rotary positions go on, as they do in transformers).
std::vector<std::string> length_notes(const ModelConfig& config, std::int64_t sequence_length);

/// Throws InputError, `place` first, unless training on such sequences is what the model's config.json means and the
/// executor computes it.
void require_computed(const ModelConfig& config, std::int64_t sequence_length, const std::string& place);

}  // namespace penstock
