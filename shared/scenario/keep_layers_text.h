// keep_layers of a scenario: "1-8 input_attention dram, 9-31*12 everything dram, 32 everything hbm".
//   RANGE KEEP TIER, ...   RANGE = FIRST, FIRST-LAST or FIRST-LAST/STEP; LAST may be left out for the model's
//                          last layer
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/policy/parameters.h"

namespace penstock {

/// Throws InputError that begins with `place` and names the part that is not understood.
std::vector<LayerKeep> parse_keep_layers(std::string_view text, const std::string& place);

/// What parse_keep_layers reads back.
std::string keep_layers_text(const std::vector<LayerKeep>& layers);

}  // namespace penstock
