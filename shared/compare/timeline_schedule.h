// Where a timeline's schedule lies. A timeline carries only its hash; `compare` needs all of it.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// For a timeline whose schedule has no file of its own: schedule-HASH.json beside it. The name stands for the content,
/// so that runs which write into one folder share the file or have one each, and never replace another's.
std::filesystem::path schedule_beside(const std::filesystem::path& timeline, const std::string& hash);

/// The schedule of both timelines: as above beside either, or schedule.json beside the first, where `plan -o` may have
/// put it. Throws InputError if there is none of them.
std::filesystem::path find_schedule(const std::filesystem::path& predicted, const std::filesystem::path& measured,
                                    const std::string& hash);

}  // namespace penstock
