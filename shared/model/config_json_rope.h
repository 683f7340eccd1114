// The rotary embedding of a config.json, in the spellings of transformers 4 and 5. Include only from .cpp files.
#pragma once

#include "shared/json_reader.h"
#include "shared/model/model.h"

namespace penstock {

/// Fills in rope_theta and the scaling with what transformers takes where a key is absent. Throws InputError: a type that
/// nobody knows, a figure out of range, two that contradict each other. REQUIRES: config.max_positions.
void read_rope(JsonObject& object, ModelConfig& config);

}  // namespace penstock
