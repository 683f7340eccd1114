#include "shared/model/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace penstock {
namespace {

double llama3(const ModelConfig& config, double frequency) {
  const auto original = static_cast<double>(config.rope_original_positions);
  const double low = config.rope_low_freq_factor, high = config.rope_high_freq_factor;
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength > original / low) return frequency / config.rope_factor;
  if (wavelength < original / high) return frequency;
  const double share = (original / wavelength - low) / (high - low);
  return (1.0 - share) * frequency / config.rope_factor + share * frequency;
}

/// rope_theta of sequences of so many tokens.
double dynamic_theta(const ModelConfig& config, std::int64_t sequence_length) {
  const auto dim = static_cast<double>(config.head_dim), positions = static_cast<double>(config.max_positions);
  const double longer = std::max(1.0, static_cast<double>(sequence_length) / positions);
  return config.rope_theta * std::pow(config.rope_factor * longer - (config.rope_factor - 1.0), dim / (dim - 2.0));
}

/// YaRN: how much of each pair's frequency is divided by the factor.
class YarnRamp {
 public:
  explicit YarnRamp(const ModelConfig& config) {
    const auto dim = static_cast<double>(config.head_dim);
    const auto pair_that_turns = [&](double times) {
      return dim * std::log(static_cast<double>(config.rope_original_positions) / (times * 2.0 * std::numbers::pi)) /
             (2.0 * std::log(config.rope_theta));
    };
    first_ = pair_that_turns(config.rope_high_freq_factor);
    last_ = pair_that_turns(config.rope_low_freq_factor);
    if (config.rope_truncate) {
      first_ = std::floor(first_);
      last_ = std::ceil(last_);
    }
    first_ = std::max(first_, 0.0);
    last_ = std::min(last_, dim - 1.0);
    if (first_ == last_) last_ += 0.001;
  }
  double at(std::int64_t pair) const {
    return std::clamp((static_cast<double>(pair) - first_) / (last_ - first_), 0.0, 1.0);
  }

 private:
  double first_ = 0, last_ = 0;
};

}  // namespace

std::vector<double> rotary_frequencies(const ModelConfig& config, std::int64_t sequence_length) {
  const bool dynamic = config.rope_scaling == RopeScaling::dynamic;
  const double theta = dynamic ? dynamic_theta(config, sequence_length) : config.rope_theta;
  const YarnRamp ramp(config);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < config.head_dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
    double frequency = std::pow(theta, -exponent);
    switch (config.rope_scaling) {
      case RopeScaling::none:
        if (config.rope_factor != 1.0) frequency = llama3(config, frequency);
        break;
      case RopeScaling::linear: frequency /= config.rope_factor; break;
      case RopeScaling::yarn:
        frequency = frequency / config.rope_factor * ramp.at(i) + frequency * (1.0 - ramp.at(i));
        break;
      case RopeScaling::dynamic:
      case RopeScaling::longrope:
      case RopeScaling::proportional: break;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const auto of = [&](double m) { return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  return mscale != 0 && mscale_all_dim != 0 ? of(mscale) / of(mscale_all_dim) : of(1.0);
}

}  // namespace penstock
