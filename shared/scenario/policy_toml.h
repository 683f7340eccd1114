// [policy] of a scenario: a preset by name, then any of its parameters overridden.
#pragma once

#include <set>
#include <string>

#include "shared/policy/parameters.h"
#include "shared/toml_reader.h"

namespace penstock {

/// Throws InputError: no such preset, unknown key, wrong type, value out of range. Contradictions between parameters
/// are make_schedule's to find.
PolicyParameters read_policy(const TomlDocument& document);

/// The keys that [policy] gives, but for the preset's name; synonyms under the name that policy_text writes. `keep` and
/// `activations` speak of all layers, so that `first_layers` and `keep_layers` are given with them.
std::set<std::string> given_parameters(const TomlDocument& document);

/// The [policy] table that read_policy reads back as these parameters, every key written out.
std::string policy_text(const PolicyParameters& policy);

}  // namespace penstock
