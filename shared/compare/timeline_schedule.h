// Where a timeline's schedule lies. A timeline carries only its hash; `compare` needs all of it.
#pragma once

#include <filesystem>
#include <string>

#include "shared/command_files.h"
#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock {

/// What `--schedule` and `--timeline` of a command name, in both programs.
struct TimelineFiles {
  std::filesystem::path schedule;  // read; empty: the policy writes it
  std::filesystem::path timeline;  // written; empty: not wanted
  std::filesystem::path beside;    // written, see below; empty: nowhere, or not known yet

  /// Finds out `beside` where the timeline's schedule has no file of its own.
  void know(const Schedule& made);
  void add_to(CommandFiles& files) const;
  /// The schedule and the timeline, where they are wanted.
  void write(const Schedule& made, const Timeline& times) const;
};

/// For a timeline whose schedule has no file of its own: schedule-HASH.json beside it. The name stands for the content,
/// so that runs which write into one folder share the file or have one each, and never replace another's.
std::filesystem::path schedule_beside(const std::filesystem::path& timeline, const std::string& hash);

/// The schedule of both timelines: as above beside either, or schedule.json beside the first, where `plan -o` may have
/// put it. Throws InputError if there is none of them.
std::filesystem::path find_schedule(const std::filesystem::path& predicted, const std::filesystem::path& measured,
                                    const std::string& hash);

}  // namespace penstock
