// [init], [data], [optimizer], [checkpoint], [eval] and [log] of a scenario, as RunOptions have them.
#pragma once

#include "shared/scenario/scenario.h"
#include "shared/toml_reader.h"

namespace penstock {

/// All throw InputError, for a key that has no effect too. REQUIRES: whatever is a path to read is read.
void read_init(TomlSection& section, RunOptions& run);
void read_data(TomlSection& section, RunOptions& run);
void read_eval(TomlSection& section, RunOptions& run);

/// AdamW's settings and the learning rate. REQUIRES: `run.steps` are read; `has_steps`: the scenario says them.
void read_optimizer(const TomlDocument& document, bool has_steps, RunOptions& run);

/// `scenario`: whose folder paths are relative to, unless they are given with --set.
void read_checkpoint(const TomlDocument& document, const std::filesystem::path& scenario, RunOptions& run);
void read_log(const TomlDocument& document, const std::filesystem::path& scenario, RunOptions& run);

}  // namespace penstock
