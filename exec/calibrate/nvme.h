// What a drive can do, measured through the store that trains (exec/store): its queues, its transfers, its checksums.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "shared/machine/machine.h"

namespace penstock::exec {

struct MeasuredNvme {
  Nvme drive;                            // bytes: what the file system had free
  std::map<std::string, double> spread;  // of "nvme read", "nvme write", "nvme latency"
  std::vector<std::string> remarks;      // for people: a cache that filled up, zeros that are not stored, threads
};

/// How long is measured; shorter for tests.
struct NvmeEffort {
  double point_seconds = 0.3;  // each size and number of transfers, each way
  double fill_seconds = 20;    // writing the file
  double turns_seconds = 30;   // reading and writing by turns, long enough for most caches of a drive to fill up
  double both_seconds = 30;    // reading and writing at once
  std::int64_t most_bytes = std::int64_t{32} << 30;
};

/// Copies of 64 MiB with random contents in a file of half of what is free, most_bytes at most and what fill_seconds write:
/// as much as states of a run, since a drive, and what lies between it and a virtual machine, is faster with little. Then
/// read and written in transfers of 256 KiB to 16 MiB, 1 to 32 of them in flight; then, cut as is best (within 3 %, the
/// least in flight), by turns of 512 MiB, and both at once: the later half of each counts, pauses included. By turns, and
/// not only reads and then only writes, since that is how a step has them, and a drive is not done with what it was given
/// to write when the write has ended. Then 4 KiB are read at random places one after the other. `before`: the drive as it
/// was measured earlier, whose cut and points are kept. The
/// file has no name once it is made, so that it goes with the process however that ends.
/// Throws InputError before anything is written if the folder is missing, cannot be written, has less than 1 GiB free,
/// or lies in memory or on a file system without direct I/O; std::runtime_error with the system's reason if I/O fails.
MeasuredNvme measure_nvme(const std::filesystem::path& folder, const NvmeEffort& effort = {},
                          const Nvme* before = nullptr);

/// Bytes per second of the later half of equal copies, from the seconds that each took. A mean and not a median: a run
/// waits for a drive's pauses too. REQUIRES: not empty.
double later_rate(const std::vector<double>& seconds, double copy_bytes);
/// How much faster the first eighth of equal copies was than the last quarter, by their medians (1: not at all).
/// REQUIRES: at least 4 copies.
double faster_at_first(const std::vector<double>& seconds);

}  // namespace penstock::exec
