// Writes ops into a schedule: lanes that exist because something uses them, copies cut into bursts, launch-thread waits.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shared/policy/plan.h"
#include "shared/policy/schedule_builder.h"

namespace penstock {

/// A place that holds one value: bytes of a buffer from `offset` on.
struct Place {
  int buffer = -1;
  std::int64_t offset = 0;
};

/// Equal buffers, one for each position of a group.
struct PlaceRow {
  int first = -1;
  int step = 0;  // buffers from one position's to the next

  /// Positions in their order.
  void add(int position, const Place& place) {
    if (position == 0) first = place.buffer;
    if (position == 1) step = place.buffer - first;
  }
  Place at(int position) const { return {first + position * step, 0}; }
};

class Writer {
 public:
  Writer(const Plan& plan, Schedule header, ScheduleBuilder::Makes makes);

  ScheduleBuilder& builder() { return builder_; }
  const Plan& plan() const { return plan_; }

  template <typename... Args>
  Place buffer(TierKind tier, std::int64_t bytes, fmt::format_string<Args...> name, const Args&... args) {
    const auto text = [&] { return fmt::vformat(name, fmt::make_format_args(args...)); };
    return {builder_.add_buffers(repeats_, tier, bytes, tier == TierKind::nvme, text), 0};
  }
  /// In DRAM, for copies to and from NVMe.
  template <typename... Args>
  Place drive_staging(std::int64_t bytes, fmt::format_string<Args...> name, const Args&... args) {
    const auto text = [&] { return fmt::vformat(name, fmt::make_format_args(args...)); };
    return {builder_.add_buffers(repeats_, TierKind::dram, bytes, true, text), 0};
  }
  /// Calls `make(layer)` for every layer, which places the same buffers for layers that are alike. Where places alone
  /// are made, the first of them stands for all.
  template <typename Make>
  void for_each_layer(const Make& make) {
    for (const auto& [first, last] : plan_.alike) {
      const bool once = builder_.makes() == ScheduleBuilder::Makes::places;
      if (once) repeats_ = last - first + 1;
      for (int layer = first; layer <= (once ? first : last); ++layer) make(layer);
    }
    repeats_ = 1;
  }
  /// Likewise for every position of a group.
  template <typename Make>
  void for_each_position(int positions, const Make& make) {
    const bool once = builder_.makes() == ScheduleBuilder::Makes::places;
    if (once) repeats_ = positions;
    for (int position = 0; position < (once ? 1 : positions); ++position) make(position);
    repeats_ = 1;
  }
  static Access access(const Place& place, std::int64_t bytes, const Value& value) {
    return {place.buffer, place.offset, bytes, value};
  }

  /// Index of the lane, made at its first use.
  int compute() { return lane("compute", LaneKind::gpu_compute); }
  int optimizer_gpu() { return lane("optimizer", LaneKind::gpu_compute); }
  int adam() { return lane("adam", LaneKind::host); }
  int accumulate() { return lane("accumulate", LaneKind::host); }
  int input() { return lane("input", LaneKind::host); }
  int h2d();
  int d2h();

  int add(Op op);
  /// Copies of a layer's parameters, states or gradients follow the policy's bursts; others go in one.
  int copy(const std::string& name, bool to_device, Phase phase, const Access& from, const Access& to);
  int read_nvme(const std::string& name, Phase phase, const Access& from, const Access& to);
  int write_nvme(const std::string& name, Phase phase, const Access& from, const Access& to);
  /// What passes of a step wait for has lanes of its own on the drive: a lane works in list order, and all updates of
  /// the step before, with their reads and writes, would come first.
  int fetch_from_nvme(const std::string& name, Phase phase, const Access& from, const Access& to);
  int evict_to_nvme(const std::string& name, Phase phase, const Access& from, const Access& to);
  /// Within DRAM, on the lane of host updates and with their threads.
  int copy_on_host(const std::string& name, Phase phase, const Access& from, const Access& to);
  int wait(const std::string& name, int op, int layer, Phase phase);
  /// Last op on `lane`, -1 if it has none.
  int last_on(int lane) const;
  int next_id() const { return static_cast<int>(builder_.schedule().ops.size()); }

 private:
  int lane(const std::string& name, LaneKind kind);
  int copy_on(int lane, const std::string& name, Phase phase, const Access& from, const Access& to);
  std::vector<Burst> bursts(const Value& value, std::int64_t bytes) const;
  std::vector<Burst> tensor_bursts(const Value& value, std::int64_t bytes) const;

  const Plan& plan_;
  ScheduleBuilder builder_;
  int repeats_ = 1;  // of each buffer
  std::map<std::string, int> lanes_;
  std::vector<int> last_on_lane_;
};

/// "forward 3 #0"; the micro-batch only where there is one.
std::string op_name(const std::string& what, int layer, int micro_batch = -1);

}  // namespace penstock
