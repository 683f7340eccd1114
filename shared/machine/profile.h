// The measured description of a machine, as `penstock-exec calibrate` writes it: a Machine, where and when it was
// measured, and the run-to-run spread of each figure.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "shared/machine/machine.h"

namespace penstock {

struct Profile {
  Machine machine;
  std::string date;                      // ISO 8601
  std::string host;                      // CPU model, GPU, driver
  std::map<std::string, double> spread;  // figure name -> (max - min) / median over repeats
};

/// Throws InputError naming the place: another format, a missing or unknown key, a figure out of range, a table that
/// does not ascend.
Profile read_profile_file(const std::filesystem::path& path);
/// Whole or not at all. Throws std::runtime_error if a figure is one that the reader would refuse (a rate of zero,
/// NaN).
void write_profile_file(const Profile& profile, const std::filesystem::path& path);

}  // namespace penstock
