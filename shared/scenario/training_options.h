// What a scenario says of a training run beyond its steps: [optimizer], [checkpoint], [log].
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace penstock {

/// How the learning rate goes on after its warm-up; exec/training/learning_rate.h has the formulas.
enum class RateSchedule {
  constant,
  linear,  // down to the final rate
  cosine,  // half a cosine down to it
  wsd      // warm-up, stable, then linear over the last steps
};
inline constexpr std::string_view kRateSchedules[] = {"constant", "linear", "cosine", "wsd"};

struct RateOptions {
  RateSchedule schedule = RateSchedule::constant;
  // Not of a constant rate:
  std::int64_t total_steps = 0;  // from this step on it is final_rate
  double final_rate = 0;
  std::int64_t decay_steps = 0;  // of wsd: the last of total_steps
};

struct CheckpointOptions {
  std::int64_t every = 0;        // steps; 0: only at the end
  int keep = 2;                  // the newest ones
  std::filesystem::path folder;  // where --save is left out; empty: nowhere
  // A folder for other programs, written once all steps are trained:
  std::filesystem::path export_to;                  // where --export is left out; empty: none
  std::filesystem::path export_like;                // with config.json and tokenizer; empty: that of the weights
  bool export_fp32 = false;                         // else bf16
  std::int64_t export_shard_bytes = 5'000'000'000;  // of tensors in one file
};

}  // namespace penstock
