// run.json of a checkpoint ("penstock-checkpoint/2"): what the states are of, and which files belong to it.
//
//   {"format", "step": optimizer steps done, "decides": RunDescription, key by key,
//    "replaces": checksum of the run.json that stood in the folder, or "": save_target.h says what for,
//    "files": {name: {"bytes", "header_crc32"}}: FileIdentity of the two files beside it,
//    "crc32": of this file's bytes, taken with eight zeros in this place}
//
// So a flipped bit anywhere in a checkpoint is found, and so is a file from another one: this file's bytes have a
// checksum in it, it has those of the two headers, and they have those of every tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "exec/checkpoint/run_description.h"
#include "exec/checkpoint/safetensors.h"
#include "shared/error.h"

namespace penstock::exec {

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kStatesFile = "optimizer.safetensors";
inline constexpr const char* kRecordFile = "run.json";
inline constexpr std::string_view kCheckpointFiles[] = {kWeightsFile, kStatesFile, kRecordFile};

struct CheckpointRecord {
  std::int64_t step = 0;
  RunDescription description;
  std::string replaces;  // record_checksum of the checkpoint in whose place it was to go; empty: none
  std::map<std::string, FileIdentity> files;  // of kWeightsFile and kStatesFile
};

std::string record_text(const CheckpointRecord& record);

/// A record that is as it was written, by a version of Penstock that describes runs otherwise: not damaged, so nothing
/// to pass over.
struct OtherVersion : InputError {
  using InputError::InputError;
};

/// Throws InputError if `text` is not a record as it was written, OtherVersion if it is one that cannot be read; `place`
/// starts the message.
CheckpointRecord parse_record(const std::string& text, const std::string& place);

/// Tells one record from others, damaged ones too.
std::string record_checksum(const std::string& text);

/// The bytes of run.json in `folder`. Throws InputError if it cannot be read.
std::string read_record_text(const std::filesystem::path& folder);

}  // namespace penstock::exec
