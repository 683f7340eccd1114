// How fast each pair of a head turns from one position to the next.
#pragma once

#include <vector>

#include "shared/model/model.h"

namespace penstock {

/// f_i, i < head_dim / 2: rope_theta^(-2i / head_dim), with Llama-3.1's scaling where rope_factor is not 1: wavelengths
/// above original_positions / low_freq_factor are divided by the factor, those below original_positions /
/// high_freq_factor stay, and between them 1/factor and 1 are interpolated.
std::vector<double> rotary_frequencies(const ModelConfig& config);

}  // namespace penstock
