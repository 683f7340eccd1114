#include "shared/scenario/scenario_choice.h"

#include <fmt/format.h>

#include "shared/machine/machine.h"
#include "shared/standard_streams.h"
#include "shared/toml_reader.h"

namespace penstock {

std::vector<std::string> all_overrides(const ScenarioFileChoice& choice) {
  std::vector<std::string> overrides = choice.overrides;
  if (!choice.profile.empty())
    overrides.push_back("machine.profile=" + toml_quoted(std::filesystem::absolute(choice.profile).string()));
  return overrides;
}

Scenario read_scenario(const ScenarioFileChoice& choice) {
  if (!choice.profile.empty()) read_profile(choice.profile);  // its errors are said of the file, not of an override
  return read_scenario(choice.scenario, all_overrides(choice));
}

void say_notes(const Scenario& scenario, const std::string& program) {
  for (const std::string& note : scenario.notes) tell(fmt::format("{}: note: {}\n", program, note));
}

}  // namespace penstock
