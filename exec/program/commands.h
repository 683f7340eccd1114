// The commands of penstock-exec. Each takes its options as parsed, writes its result to standard output (text, or JSON
// with `json`) and returns an exit code of shared/error.h. Errors are thrown.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/scenario/scenario_choice.h"

namespace penstock::exec {

struct RunCommandOptions {
  ScenarioFileChoice scenario;
  std::filesystem::path schedule;  // empty: the scenario's policy writes one
  int steps = 0;                   // 0: as the scenario says
  std::filesystem::path timeline, save, resume;
  bool is_auto_resume = false;             // `resume` is what was found, if anything was (run_start.h)
  std::vector<std::string> allow_changed;  // keys of a RunDescription that may differ from the checkpoint's
  std::filesystem::path record;            // penstock-recording/1, for `penstock-sim validate`; empty: none
  std::filesystem::path compare;           // folder for prediction, measurement and comparison; empty: none
  std::filesystem::path dump;              // folder for write_dump; empty: none
  std::filesystem::path export_to;         // folder for other programs; empty: as the scenario says
  std::string backend;                     // empty: as the scenario says
  std::string hbm_limit;                   // "24GiB"; empty: what the machine has
  std::optional<double> watchdog_seconds;  // none: see watchdog.h; 0: no watchdog
  bool json = false;
};
int run_command(const RunCommandOptions& options);

struct CalibrateCommandOptions {
  std::vector<std::filesystem::path> scenarios;
  std::vector<std::string> overrides;
  std::filesystem::path output;
  std::filesystem::path nvme;     // folder on the drive to measure; empty: its figures stay the scenario's
  std::filesystem::path profile;  // instead of scenarios: all but the drive's figures stay what they are there
  std::string backend;
  bool json = false;
};
int calibrate_command(const CalibrateCommandOptions& options);

struct ExportCommandOptions {
  std::filesystem::path checkpoint;  // or the folder of a run that saves every so many steps
  std::filesystem::path to, like;
  std::string type = "bf16";  // or fp32
  std::string shard;          // "5 GB"; empty: that
  bool json = false;
};
int export_command(const ExportCommandOptions& options);

struct DevicesCommandOptions {
  bool json = false;
};
int devices_command(const DevicesCommandOptions& options);

}  // namespace penstock::exec
