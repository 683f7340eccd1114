// Whether what is to be written beside a folder has room there, found out before the work that it is of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/checkpoint_names.h"
#include "shared/file_calls.h"

namespace penstock::exec {

struct PlannedFile {
  std::string name;
  std::int64_t bytes = 0;
};

/// Throws DoesNotFit unless these files can be written into names.partial, beside what is there: held against what the
/// file system has free, and, but in memory, taken for a moment, which a quota and a limit of the file system show.
/// `what`: "a checkpoint of this run"; `beside`: stands behind what is free, may be empty. Throws InputError if what
/// was made to try it cannot be removed. REQUIRES: nothing is at names.partial.
void require_room(const CheckpointNames& names, std::span<const PlannedFile> files, std::string_view what,
                  std::string_view beside, FileCalls& calls);

}  // namespace penstock::exec
