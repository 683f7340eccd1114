// What a scenario says of a training run beyond its steps: [init], [data], [optimizer], [checkpoint], [eval], [log].
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace penstock {

/// [init]: what training starts from.
struct InitOptions {
  std::filesystem::path weights;  // safetensors; empty: random
  std::uint64_t seed = 1;         // of random weights
};

/// How rows are made of a file of tokens.
enum class Packing {
  automatic,  // packed where the file has documents or tokens that are not trained on
  packed,     // whole documents, each of which attends to itself alone
  windows     // at random places of one text
};
inline constexpr std::string_view kPackings[] = {"auto", "packed", "windows"};

/// [data]: what is trained on.
struct DataOptions {
  std::filesystem::path file;  // tokens, or text whose bytes are the tokens; empty: see exec/data
  std::string kind = "auto";   // auto | nanogpt: what nothing in the file tells
  Packing packing = Packing::automatic;
  std::uint64_t seed = 1;  // order of the rows
};

/// [eval]: the loss on data that is not trained on.
struct EvalOptions {
  std::filesystem::path file;  // empty: there is no evaluation
  std::string kind = "auto";   // as DataOptions::kind
  std::int64_t every = 0;      // steps
  int steps = 1;               // of rows, as many as a step trains on, in each evaluation

  bool is_asked() const { return every > 0; }
};

/// Which parameters AdamW's weight decay takes; biases and weights of norms are vectors.
enum class Decay { all, matrices, matrices_and_embeddings };
inline constexpr std::string_view kDecays[] = {"all", "matrices", "matrices_and_embeddings"};

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
  bool copy = true;              // of the states, in memory, if there is room: training does not wait for the disk then
  std::filesystem::path folder;  // where --save is left out; empty: nowhere
  // A folder for other programs, written once all steps are trained:
  std::filesystem::path export_to;                  // where --export is left out; empty: none
  std::filesystem::path export_like;                // with config.json and tokenizer; empty: that of the weights
  bool export_fp32 = false;                         // else bf16
  std::int64_t export_shard_bytes = 5'000'000'000;  // of tensors in one file
};

}  // namespace penstock
