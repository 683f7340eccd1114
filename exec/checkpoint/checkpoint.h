// Checkpoints: a folder with
//   model.safetensors      bf16 weights under Hugging Face's names: what any other program can load
//   optimizer.safetensors  "master.NAME" (fp32), "moment_m.NAME", "moment_v.NAME" (fp32 or bf16)
//   run.json               "penstock-checkpoint/1": step, seed, states, model
// Each tensor has a checksum in its file's header, verified when the checkpoint is opened; older ones have none.
// Whole or not at all: written beside, fsynced, then exchanged with what was there. A run that resumes gives the bits
// of one that was never interrupted (random numbers are functions of seed and step, so those two are their whole
// state).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "exec/checkpoint/state_source.h"
#include "exec/checkpoint/states.h"

namespace penstock::exec {

struct CheckpointInfo {
  std::int64_t step = 0;  // optimizer steps done
  std::uint64_t seed = 0;
};

/// Throws InputError if `folder` exists and is neither empty nor a checkpoint and nothing else, or its parent does not
/// exist: asked before a run, so that nothing is found out after it.
void check_save_target(const std::filesystem::path& folder);

/// Throws std::runtime_error with the system's reason; an older checkpoint then stays as it was.
void save_checkpoint(const std::filesystem::path& folder, const CheckpointInfo& info, const Schedule& schedule,
                     const Model& model, const StateReader& states);

struct Checkpoint {
  CheckpointInfo info;
  std::unique_ptr<StateSource> states;
};
/// Throws InputError if it is not a checkpoint of this model, or is damaged: then with the file and the tensor.
Checkpoint open_checkpoint(const std::filesystem::path& folder, const Model& model);

}  // namespace penstock::exec
