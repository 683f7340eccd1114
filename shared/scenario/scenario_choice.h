// A scenario as a command line chooses it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/scenario/scenario.h"

namespace penstock {

/// A scenario file with what the command line changes in it.
struct ScenarioFileChoice {
  std::filesystem::path scenario;
  std::filesystem::path profile;       // empty: the machine that the scenario names
  std::vector<std::string> overrides;  // "key=value"
};

/// The overrides of which --profile is one.
std::vector<std::string> all_overrides(const ScenarioFileChoice& choice);

/// Throws InputError as the other read_scenario does; what is wrong with the profile is said of that file.
Scenario read_scenario(const ScenarioFileChoice& choice);

/// On standard error, in the name of `program`.
void say_notes(const Scenario& scenario, const std::string& program);

}  // namespace penstock
