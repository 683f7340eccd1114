// [policy] of a scenario: a preset by name, then any of its parameters overridden.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "shared/policy/parameters.h"
#include "shared/toml_reader.h"

namespace penstock {

/// A row of the table of parameters (each_parameter), in words.
struct ParameterText {
  std::string key, other_key;   // other_key: read as well; empty: none
  std::string values, meaning;  // meaning: with code in backquotes
  std::string start;            // as TOML: the default, that of the preset `penstock`
  Decides decides = Decides::nothing;
};
std::vector<ParameterText> parameter_texts();

/// Throws InputError: no such preset, unknown key, wrong type, value out of range. Contradictions between parameters
/// are make_schedule's to find.
PolicyParameters read_policy(const TomlDocument& document);

/// The keys that [policy] gives, but for the preset's name; synonyms under the name that policy_text writes, and what
/// they settle with them (ParameterAbout::settles).
std::set<std::string> given_parameters(const TomlDocument& document);

/// The [policy] table that read_policy reads back as these parameters, every key written out.
std::string policy_text(const PolicyParameters& policy);

}  // namespace penstock
