// `penstock-exec run --compare`: predicts before the run, compares after it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/compare/comparison.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {

/// The files that a comparison writes into `folder`: schedule.json only if it is not `schedule_file`, what was read.
std::vector<std::string> comparison_files(const std::filesystem::path& folder,
                                          const std::filesystem::path& schedule_file);

class RunComparison {
 public:
  /// Simulates `schedule` on the scenario's machine and makes the folder. Throws InputError if the machine lacks a
  /// figure, if fewer than 2 steady periods would be measured (`recorded_steps`, of which the scenario's warm-up is
  /// left out), or if the folder cannot be. `schedule_file`: what was read, if it was; in the folder it stays as it is.
  RunComparison(const Scenario& scenario, const Schedule& schedule, int recorded_steps, std::filesystem::path folder,
                std::filesystem::path schedule_file);

  /// Leaves schedule.json, predicted.json, measured.json, comparison.json and report.html in the folder. Throws InputError if the
  /// run was stopped too early.
  Comparison finish(const Schedule& schedule, const Timeline& measured) const;

 private:
  std::filesystem::path folder_, schedule_file_;
  std::string scenario_text_;
  Timeline predicted_;
};

}  // namespace penstock::exec
