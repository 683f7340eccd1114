// A question without a scenario file: `--model`, `--gpu` and what else the command line says make a scenario, which is
// then answered as any other and may be written to a file that gives the same answer. And what `--tokens` and the like
// put into [cost] of any scenario.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/scenario/cost_keys.h"
#include "shared/toml_reader.h"

namespace penstock {
struct ModelConfig;
}

namespace penstock::sim {

/// As typed; empty or 0: not given.
struct Question {
  std::string model;       // a folder with a config.json, such a file, or a name of the catalogue
  std::string gpu, host;   // cards and hosts (shared/machine/part_names.h)
  std::string hardware;    // instead of both: a hardware file or a name of the catalogue
  std::string ram, drive;  // sizes
  std::int64_t sequence_length = 0;
  int sequences = 0;
  std::string tokens_per_step;

  /// The options that were given, as "--gpu"; none: there is no question.
  std::vector<std::string> given() const;
};

/// What `--tokens` and its like say, as typed.
struct CostOptions {
  std::string tokens, epochs, data_tokens, rent, price, life, electricity, watts;
  std::filesystem::path prices;
};

/// The config.json that `model` means. Throws InputError, beginning with `place`, with the nearest.
std::filesystem::path model_config_file(const std::string& model, const std::string& place);

/// The scenario's keys, each with its option as its place; paths begin in `folder`. `profile`: the machine is that of a profile, not of --gpu or --hardware.
/// What was chosen because nobody said it, nor --set in `overrides`, which are put in by the caller, stands in `notes`, in
/// one line. Throws InputError.
TomlDocument question_document(const Question& question, bool profile, const std::filesystem::path& folder,
                               const std::vector<std::string>& overrides, std::vector<std::string>& notes);

/// Puts them into [cost], in the place of what contradicts them there.
void put_cost(const CostOptions& cost, TomlDocument& document);

/// The same alone, for commands without a scenario.
CostKeys cost_keys(const CostOptions& cost);

/// Tokens of a step where nobody says how many: as `shop`, 160 sequences of 1024.
inline constexpr std::int64_t kUsualTokensPerStep = 163'840;
inline constexpr std::int64_t kUsualSequenceLength = 1024;
/// That, or as many as the model has positions.
std::int64_t usual_sequence_length(const ModelConfig& config);

}  // namespace penstock::sim
