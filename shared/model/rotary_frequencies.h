// How fast each pair of a head turns from one position to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/model/model.h"

namespace penstock {

/// f_i, i < head_dim / 2, of sequences of so many tokens: rope_theta^(-2i / head_dim), scaled as transformers 5.24.0 does
/// (its modeling_rope_utils.py):
///   llama3   wavelengths above original_positions / low_freq_factor are divided by the factor, those below
///            original_positions / high_freq_factor stay, and between them 1/factor and 1 are interpolated;
///   linear   all divided by the factor;
///   dynamic  of sequences of L > max_positions tokens, with rope_theta (factor L / max_positions - (factor - 1))^(d /
///            (d - 2)), d = head_dim;
///   yarn     Peng et al., "YaRN", 2023: pairs that turn more than high_freq_factor times in original_positions stay,
///            those that turn less than low_freq_factor times are divided by the factor, and between these two pairs
///            1 and 1/factor are interpolated. What is turned is multiplied by rope_attention_factor besides.
/// `longrope` and `proportional` are as if nothing were scaled: nobody trains with them.
std::vector<double> rotary_frequencies(const ModelConfig& config, std::int64_t sequence_length);

/// YaRN's factor of cosines and sines where config.json does not say it: 0.1 m ln(factor) + 1 of m = `mscale`, over that
/// of m = `mscale_all_dim`; of m = 1 unless both are given (not 0).
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim);

}  // namespace penstock
