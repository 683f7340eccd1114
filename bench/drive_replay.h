// What a drive does in the pattern of a schedule's steps, without the machine that the schedule is for: its copies on
// NVMe are made through the store, at the places and in the order that they have, and every other op only takes the time
// that was predicted for it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace penstock::exec {

struct ReplayOptions {
  std::filesystem::path folder;     // on the drive
  std::filesystem::path schedule;   // as `plan` writes it
  std::filesystem::path predicted;  // its timeline, as `simulate --timeline` writes it
  std::filesystem::path timeline;   // what was measured is written there, for `penstock-sim compare`; empty: nowhere
  std::filesystem::path json;       // likewise the figures that are printed
  std::int64_t transfer_bytes = 0;
  int depth = 0;
  int steps = 4;  // the first is no part of the figures
};

/// Prints the step and each drive lane's rate while it is busy, predicted and replayed. Fills the store first. Throws
/// InputError for files that are not of one another, a schedule that keeps nothing on NVMe, or a folder as the store
/// does.
void replay(const ReplayOptions& options);

}  // namespace penstock::exec
