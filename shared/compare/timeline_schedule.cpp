#include "shared/compare/timeline_schedule.h"

#include <fmt/format.h>

#include <system_error>

#include "shared/error.h"
#include "shared/ir/schedule_json.h"

namespace penstock {

namespace fs = std::filesystem;

void TimelineFiles::know(const Schedule& made) {
  if (!timeline.empty() && schedule.empty()) beside = schedule_beside(timeline, schedule_hash(made));
}

void TimelineFiles::add_to(CommandFiles& files) const {
  files.reads(schedule);
  files.writes(beside, "--timeline");
  files.writes(timeline, "--timeline");
}

void TimelineFiles::write(const Schedule& made, const Timeline& times) const {
  if (!beside.empty()) write_schedule(made, beside);
  if (!timeline.empty()) write_timeline(times, timeline);
}

fs::path schedule_beside(const fs::path& timeline, const std::string& hash) {
  return timeline.parent_path() / fmt::format("schedule-{}.json", hash);
}

fs::path find_schedule(const fs::path& predicted, const fs::path& measured, const std::string& hash) {
  const fs::path by_hash = schedule_beside(predicted, hash);
  const fs::path by_name = predicted.parent_path() / "schedule.json";
  std::error_code ignored;
  for (const fs::path& file : {by_hash, schedule_beside(measured, hash), by_name})
    if (fs::exists(file, ignored)) return file;
  throw InputError(
      fmt::format("neither {} nor {} is there: say which schedule both timelines ran, with --schedule FILE as `plan` "
                  "wrote it or --scenario FILE",
                  by_hash.string(), by_name.string()));
}

}  // namespace penstock
