// Checkpoints: a folder with
//   model.safetensors      bf16 weights under Hugging Face's names: what any other program can load
//   optimizer.safetensors  "master.NAME" (fp32), "moment_m.NAME", "moment_v.NAME" (fp32 or bf16)
//   run.json               what they are of, and that they belong together (checkpoint_record.h)
// Whole or not at all: written beside, fsynced, then exchanged with what was there. A run that resumes gives the bits
// of one that was never interrupted (random numbers are functions of seed and step, so those two are their whole
// state).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "exec/checkpoint/checkpoint_record.h"
#include "exec/checkpoint/state_source.h"
#include "exec/checkpoint/states.h"

namespace penstock::exec {

struct CheckpointInfo {
  std::int64_t step = 0;  // optimizer steps done
  RunDescription description;
};

/// Throws InputError if `folder` exists and is neither empty nor a checkpoint and nothing else, or its parent does not
/// exist: asked before a run, so that nothing is found out after it.
void check_save_target(const std::filesystem::path& folder);

/// Throws std::runtime_error with the system's reason; an older checkpoint then stays as it was.
void save_checkpoint(const std::filesystem::path& folder, const CheckpointInfo& info, const Schedule& schedule,
                     const Model& model, const StateReader& states);

/// Files that were opened together and belong together; another run may save to their folder meanwhile.
class Checkpoint : public StateSource {
 public:
  /// Throws InputError if `folder` is not a checkpoint, or its files are not those that its run.json was written with.
  explicit Checkpoint(const std::filesystem::path& folder);

  std::int64_t step() const { return record_.step; }
  const RunDescription& description() const { return record_.description; }
  /// Reads all of it. Throws InputError, with file and tensor, unless every tensor of the model is there, in its shape
  /// and type and as it was written, and nothing else.
  void verify(const Model& model) const;
  void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const override;
  std::string place(const ParameterTensor& tensor, StatePart part) const override;

 private:
  /// That of kWeightsFile, or kStatesFile.
  const SafetensorsFile& file_of(StatePart part) const;

  CheckpointRecord record_;
  SafetensorsFile weights_, states_;
  bool has_master_;
};

/// Waits out another run that replaces it at this moment. Throws InputError as Checkpoint does.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& folder);

}  // namespace penstock::exec
