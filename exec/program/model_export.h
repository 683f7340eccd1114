// A trained model's folder for other programs: at the end of a run, or of a checkpoint later.
#pragma once

#include <filesystem>
#include <string>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/model_folder.h"
#include "exec/program/commands.h"
#include "shared/command_files.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

/// As [checkpoint] says. Throws InputError if nothing says which folder's config.json and tokenizer go with the weights.
/// REQUIRES: RunOptions::checkpoint.export_to.
ModelFolderOptions export_options(const Scenario& scenario);

/// What an export reads and writes.
void add_export_files(const ModelFolderOptions& options, std::string_view option, CommandFiles& files);

/// "exported to FOLDER: ...", a line.
std::string exported_text(const ModelFolder& folder);

/// Reads all of the checkpoint, which must be the model's. Throws as ModelFolder and Checkpoint do.
void export_checkpoint(const Checkpoint& checkpoint, const Model& model, ModelFolder& folder);

}  // namespace penstock::exec
