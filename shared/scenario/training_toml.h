// [optimizer], [checkpoint] and [log] of a scenario, as RunOptions have them.
#pragma once

#include "shared/scenario/scenario.h"
#include "shared/toml_reader.h"

namespace penstock {

/// AdamW's settings and the learning rate, which may also stand in [run]. REQUIRES: `run.steps` are read. Throws
/// InputError, for a key that stands in both tables or has no effect, too.
void read_optimizer(const TomlDocument& document, TomlSection& run_section, RunOptions& run);

/// `scenario`: whose folder paths are relative to, unless they are given with --set.
void read_checkpoint(const TomlDocument& document, const std::filesystem::path& scenario, RunOptions& run);
void read_log(const TomlDocument& document, const std::filesystem::path& scenario, RunOptions& run);

}  // namespace penstock
