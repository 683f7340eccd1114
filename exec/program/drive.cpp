#include "exec/program/drive.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/runtime/bind.h"
#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "shared/standard_streams.h"
#include "sim/planner/drive_use.h"

namespace penstock::exec {
namespace {

/// Index of the tier, -1 if the schedule keeps nothing on NVMe.
int drive_tier(const Schedule& schedule) {
  const std::vector<std::int64_t> bytes = arena_bytes(schedule);
  for (std::size_t tier = 0; tier < bytes.size(); ++tier)
    if (schedule.tiers[tier].kind == TierKind::nvme && bytes[tier] > 0) return static_cast<int>(tier);
  return -1;
}

std::int64_t transfer_bytes(const Nvme& drive) {
  return drive.transfer_bytes > 0 ? drive.transfer_bytes : kDefaultTransferBytes;
}

std::vector<StoreRegion> regions_of(const Schedule& schedule, int tier) {
  std::vector<StoreRegion> regions;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.tier == tier) regions.push_back({buffer.name, buffer.offset_bytes, buffer.bytes});
  std::sort(regions.begin(), regions.end(),
            [](const StoreRegion& a, const StoreRegion& b) { return a.offset < b.offset; });
  return regions;
}

}  // namespace

std::int64_t drive_room(const Scenario& scenario, std::span<const WrittenBeside> beside) {
  if (scenario.nvme_paths.empty()) return 0;
  StorePlace place;
  place.folders = scenario.nvme_paths;
  const std::int64_t free_bytes = free_for_store(place, beside);
  const auto files = static_cast<std::int64_t>(place.folders.size());
  if (files == 1) return free_bytes;
  const std::int64_t stripe = transfer_bytes(scenario.machine.nvme);  // each file has whole ones
  return free_bytes / files / stripe * stripe * files;
}

void require_drive_path(const Schedule& schedule, const Scenario& scenario, const std::filesystem::path& file) {
  if (!scenario.nvme_paths.empty() || drive_tier(schedule) < 0) return;
  throw InputError(fmt::format("{}: the schedule of policy {} {}", (file.empty() ? scenario.path : file).string(),
                               schedule.policy, sim::needs_drive(schedule, scenario, !file.empty())));
}

std::unique_ptr<BlockStore> open_drive(const Schedule& schedule, const Scenario& scenario, const std::string& from,
                                       bool resumed) {
  const int tier = drive_tier(schedule);
  if (tier < 0) return nullptr;
  const Nvme& drive = scenario.machine.nvme;
  const int depth = drive.depth > 0 ? drive.depth : kDefaultDepth;
  StoreShape shape;
  shape.bytes = arena_bytes(schedule)[static_cast<std::size_t>(tier)];
  shape.transfer_bytes = transfer_bytes(drive);
  shape.regions = regions_of(schedule, tier);
  StorePlace place;
  place.folders = scenario.nvme_paths;
  place.schedule = schedule_hash(schedule);
  place.from = from;
  place.resumed = resumed;
  auto store = std::make_unique<BlockStore>(place, std::move(shape), make_io_queue(depth), make_io_queue(depth));
  const auto lanes = [&](LaneKind kind) {
    return std::count_if(schedule.lanes.begin(), schedule.lanes.end(),
                         [&](const Lane& lane) { return lane.kind == kind; });
  };
  for (auto more = std::max(lanes(LaneKind::nvme_read), lanes(LaneKind::nvme_write)); more > 1; --more)
    store->add_queues(make_io_queue(depth), make_io_queue(depth));
  for (const std::string& note : store->notes()) tell(fmt::format("penstock-exec: note: {}\n", note));
  return store;
}

}  // namespace penstock::exec
