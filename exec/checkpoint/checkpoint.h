// Checkpoints: a folder with
//   model.safetensors      bf16 weights under Hugging Face's names: what any other program can load
//   optimizer.safetensors  "master.NAME" (fp32), "moment_m.NAME", "moment_v.NAME" (fp32 or bf16)
//   run.json               what they are of, and that they belong together (checkpoint_record.h)
// Within the files tensors lie layer by layer, in the order in which the run's steps update them (state_updates.h).
// Whole or not at all: save_target.h says how. A run that resumes gives the bits of one that was never interrupted
// (random numbers are functions of seed and step, so those two are their whole state).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint_record.h"
#include "exec/checkpoint/save_target.h"
#include "exec/checkpoint/state_source.h"
#include "exec/checkpoint/states.h"

namespace penstock::exec {

struct CheckpointInfo {
  std::int64_t step = 0;  // optimizer steps done
  RunDescription description;
};

/// Of model.safetensors and optimizer.safetensors, for SaveTarget::require_room.
std::vector<std::int64_t> checkpoint_file_bytes(const Schedule& schedule, const Model& model);
/// Of both together, before there is a schedule.
std::int64_t checkpoint_bytes(const Numerics& numerics, const Model& model);

/// Throws std::runtime_error: with the system's reason, or with tensor and index of a value that is not finite, since a
/// bad state never takes a good one's place. An older checkpoint then stays as it was; a new one that is whole is kept
/// beside it. `has_read`: called for each layer, in state_updates' order, once its states have been read for good.
void save_checkpoint(SaveTarget& target, const CheckpointInfo& info, const Schedule& schedule, const Model& model,
                     const StateReader& states, const std::function<void(int layer)>& has_read = {});

/// Files that were opened together and belong together; another run may save to their folder meanwhile.
class Checkpoint : public StateSource {
 public:
  /// Throws InputError if `folder` is not a checkpoint, or its files are not those that its run.json was written with.
  explicit Checkpoint(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t step() const { return record_.step; }
  const RunDescription& description() const { return record_.description; }
  /// Reads all of it. Throws InputError, with file and tensor, unless every tensor of the model is there, in its shape
  /// and type and as it was written, and nothing else.
  void verify(const Model& model) const;
  void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const override;
  std::string place(const ParameterTensor& tensor, StatePart part, std::int64_t index) const override;

 private:
  /// That of kWeightsFile, or kStatesFile.
  const SafetensorsFile& file_of(StatePart part, const ParameterTensor& tensor) const;

  std::filesystem::path folder_;
  CheckpointRecord record_;
  SafetensorsFile weights_, states_;
  bool has_master_;
};

/// The one that find_checkpoint finds, whole, even if another run replaces it at this moment. Throws InputError as
/// both do.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& folder);

}  // namespace penstock::exec
