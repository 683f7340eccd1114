#include "shared/model/rotary_frequencies.h"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace penstock {

std::vector<double> rotary_frequencies(const ModelConfig& config) {
  std::vector<double> frequencies;
  const auto original = static_cast<double>(config.rope_original_positions);
  const double low = config.rope_low_freq_factor, high = config.rope_high_freq_factor;
  for (std::int64_t i = 0; i < config.head_dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
    double frequency = std::pow(config.rope_theta, -exponent);
    if (config.rope_factor != 1.0) {
      const double wavelength = 2.0 * std::numbers::pi / frequency;
      if (wavelength > original / low) {
        frequency /= config.rope_factor;
      } else if (wavelength >= original / high) {
        const double share = (original / wavelength - low) / (high - low);
        frequency = (1.0 - share) * frequency / config.rope_factor + share * frequency;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace penstock
