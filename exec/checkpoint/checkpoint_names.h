// Names beside a checkpoint's folder FOLDER, of which a save makes use.
//
//   FOLDER.partial   is being written; never a checkpoint
//   FOLDER.new       a finished checkpoint that is to take FOLDER's place; for a moment after it did, the one before
//   FOLDER.previous  the one before, where the file system cannot exchange two folders, until FOLDER.new is FOLDER
//   FOLDER.lock      held by the run that saves to FOLDER
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace penstock::exec {

struct CheckpointNames {
  std::filesystem::path folder, partial, finished, previous, lock, parent;
};

/// `given` without what stands behind its name (slashes, dots); if it is a link, of the folder that it leads to. Throws
/// InputError if it names no folder of its own ("..") or its links lead in a circle.
CheckpointNames checkpoint_names(const std::filesystem::path& given);

/// The same of a folder that is only read, which "." and ".." may name.
CheckpointNames names_to_read(const std::filesystem::path& given);

/// Whether a file of this name is part of a checkpoint, or the rest of one that was being written.
bool is_checkpoint_file(std::string_view name);

/// record_checksum of the run.json in `folder`; empty if there is none that can be read.
std::string record_checksum_in(const std::filesystem::path& folder);

/// Where to look for the checkpoint at `given`: FOLDER; or, if a save was cut off while FOLDER was not there,
/// FOLDER.new. Throws InputError if there is none, with what stands beside.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

}  // namespace penstock::exec
