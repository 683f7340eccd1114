// The table of attention rates that hardware and software files share:
//   [attention]
//   forward_128 = "640 TFLOP/s"                  by head dimension; causal, FLOPs of half the square
//   backward_128 = "480 TFLOP/s"
//   deterministic_backward_128 = "450 TFLOP/s"   left out: as backward
//   half_length = 340                            sequences of so many tokens run at half these rates; left out: 0
//   backward_half_length = 1000                  left out: as half_length
#pragma once

#include <string>

#include "shared/machine/machine.h"
#include "shared/toml_reader.h"

namespace penstock {

/// Empty rates if there is no such table. Throws InputError for a rate without its other half, or an unknown key.
AttentionRates read_attention_rates(const TomlDocument& document, const std::string& table);

}  // namespace penstock
