// The scenario that reproduces a plan: the one that was searched, with micro_batch and [policy] as the planner chose.
#pragma once

#include <filesystem>
#include <string>

#include "shared/toml_reader.h"
#include "sim/planner/search_space.h"

namespace penstock::sim {

/// The text of a file to be written to `target`, whose folder decides how paths are written; names of the catalogue
/// stay names. `document` is that of `source` with its overrides. The same without a plan: `document` as it is, its
/// [published] left out.
std::string document_text(const TomlDocument& document, const std::filesystem::path& source,
                          const std::filesystem::path& target);

std::string scenario_text(const TomlDocument& document, const std::filesystem::path& source,
                          const std::filesystem::path& target, const Candidate& plan);

}  // namespace penstock::sim
