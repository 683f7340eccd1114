// What a run computed, for another program to check: tokens, losses, and the gradients of the last step.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exec/data/tokens.h"
#include "exec/memory/memory.h"
#include "exec/runtime/bound_op.h"
#include "shared/ir/schedule.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// The files of a dump, in a folder that is made if need be.
inline const std::vector<std::string> kDumpFiles{
    "tokens.i32", "labels.i32", "document_starts.i32", "expert_choices.i32", "gradients.safetensors", "run.json"};

/// Asked before a run of `steps` steps. Throws InputError if the schedule does not keep every gradient to the end of
/// the step, or if the drive of `folder` has less room than a dump takes.
void require_dumpable(const std::filesystem::path& folder, const Schedule& schedule, const Model& model, int steps);

/// Writes into `folder` (created if need be):
///   tokens.i32            int32 little-endian [steps, sequences, BatchShape::token_row]
///   labels.i32, document_starts.i32   of packed rows, the same [steps, sequences, sequence_length]
///   expert_choices.i32    of mixtures of experts, if the last step's only micro-batch was kept whole: [layers with experts,
///                         tokens, per token], what each token chose, best first
///   gradients.safetensors finished gradients of the last step, before clipping, Hugging Face names, fp32 or bf16
///   run.json              (last) mean loss per step, shape of the tokens, what the rows are, settings of AdamW
/// Throws InputError without a report. REQUIRES: require_dumpable.
void write_dump(const std::filesystem::path& folder, const Schedule& schedule, const Model& model,
                const TierMemories& memories, const TokenSource& tokens, const AdamHyper& hyper,
                const std::vector<StepReport>& reports);

}  // namespace penstock::exec
