// What a drive can do: direct I/O (no page cache) on a temporary file in a folder of it, in blocks of 16 MiB, several
// in flight, as a step's bursts are.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/calibrate/host_machine.h"
#include "shared/machine/machine.h"

namespace penstock::exec {

struct MeasuredNvme {
  Nvme drive;                            // bytes: what the file system had free
  std::map<std::string, double> spread;  // of "nvme read", "nvme write", "nvme latency"
};

/// Writes random contents for at most 4 s and 2 GiB (half of what is free, if that is less), 512 MiB at least, reads
/// them back likewise, then reads 4 KiB at random places one after the other. The file has no name once it is made, so
/// that it goes with the process however that ends.
/// Throws InputError before anything is written if the folder is missing, cannot be written, has less than 1 GiB free,
/// or lies in memory or on a file system without direct I/O; std::runtime_error with the system's reason if I/O fails.
MeasuredNvme measure_nvme(const std::filesystem::path& folder);

/// The rate of blocks of `block_bytes` that were done at `ends` (seconds, in any order), median over slices of
/// `slice_blocks`. The slices begin with the end of block number `in_flight`: the first ones had the drive to fill.
/// REQUIRES: more than in_flight + slice_blocks - 1 ends.
MeasuredRate rate_of_blocks(std::vector<double> ends, double block_bytes, int in_flight, int slice_blocks);

}  // namespace penstock::exec
