#include "exec/runtime/limits.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// "Key:   123 kB" lines of /proc/meminfo, or "key 123" of memory.stat.
std::int64_t read_field(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

/// Path of this process's group below the controller's mount, from lines "4:cpu,cpuacct:/path"; version 2 has "0::/path".
fs::path own_group(const fs::path& root, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (controllers.find(fmt::format(",{},", controller)) != std::string::npos)
      return fs::path(line.substr(second + 1)).relative_path();
  }
  return {};
}

struct GroupFiles {
  std::vector<const char*> limits;
  const char* used;
  const char* reclaimable[2];  // keys of memory.stat: cache of files goes when memory is asked for
};

/// The limit that leaves least, from the process's own group up to the mount: one above it is shared with others.
void read_groups(const fs::path& mount, const fs::path& group, const GroupFiles& files, MemoryLimits& limits) {
  for (fs::path at = group;; at = at.parent_path()) {
    const fs::path folder = at.empty() ? mount : mount / at;
    for (const char* const file : files.limits) {
      const std::optional<std::int64_t> limit = read_number(folder / file);
      if (!limit || *limit >= limits.physical_bytes) continue;
      const std::int64_t used = std::max<std::int64_t>(0, read_number(folder / files.used).value_or(0) -
                                                              read_field(folder / "memory.stat", files.reclaimable[0]) -
                                                              read_field(folder / "memory.stat", files.reclaimable[1]));
      if (limits.container_bytes >= 0 && *limit - used >= limits.container_bytes - limits.container_used_bytes)
        continue;
      limits.container_bytes = *limit;
      limits.container_used_bytes = used;
    }
    if (at.empty()) return;
  }
}

/// Cores whose time a group lets its processes have, rounded up: quota over period, in microseconds. None: no limit.
std::optional<int> cores_of_quota(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<std::int64_t>((*quota - 1) / *period + 1, 1, std::numeric_limits<int>::max()));
}

/// The fewest from the process's own group up to the mount; threads beyond them would stand still together.
void read_quotas(const fs::path& mount, const fs::path& group, MemoryLimits& limits) {
  for (fs::path at = group;; at = at.parent_path()) {
    const fs::path folder = at.empty() ? mount : mount / at;
    std::optional<std::int64_t> quota = read_number(folder / "cpu.cfs_quota_us");  // version 1; -1 = none
    std::optional<std::int64_t> period = read_number(folder / "cpu.cfs_period_us");
    std::ifstream file(folder / "cpu.max");  // version 2: "200000 100000", or "max 100000"
    if (std::int64_t both[2] = {}; file >> both[0] >> both[1]) quota = both[0], period = both[1];
    if (const auto cores = cores_of_quota(quota, period)) limits.cores = std::min(limits.cores, *cores);
    if (at.empty()) return;
  }
}

}  // namespace

std::int64_t MemoryLimits::usable_bytes() const {
  const std::int64_t container =
      container_bytes < 0 ? std::numeric_limits<std::int64_t>::max() : container_bytes - container_used_bytes;
  return std::min(available_bytes, container);
}

MemoryLimits read_memory_limits(const fs::path& root) {
  MemoryLimits limits;
  limits.physical_bytes = read_field(root / "proc/meminfo", "MemTotal:") * 1024;
  limits.available_bytes = read_field(root / "proc/meminfo", "MemAvailable:") * 1024;
  read_groups(root / "sys/fs/cgroup", own_group(root, ""),
              {{"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}}, limits);
  read_groups(root / "sys/fs/cgroup/memory", own_group(root, "memory"),
              {{"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}},
              limits);
  limits.huge_page_bytes = read_number(root / "sys/kernel/mm/transparent_hugepage/hpage_pmd_size").value_or(0);
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY)
    limits.lockable_bytes = static_cast<std::int64_t>(locked.rlim_cur);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) limits.cores = std::max(1, CPU_COUNT(&cores));
  read_quotas(root / "sys/fs/cgroup", own_group(root, ""), limits);
  read_quotas(root / "sys/fs/cgroup/cpu", own_group(root, "cpu"), limits);
  return limits;
}

FreeMemory free_for_arena(std::int64_t bytes, bool pinned) {
  constexpr std::int64_t kSystemBytes = std::int64_t{256} << 20;
  // Half of what a run counts with for pinning (run_memory.cpp): what there is was free a moment ago.
  return {[] { return read_memory_limits().usable_bytes(); }, pinned ? kSystemBytes + bytes / 100 : bytes / 512};
}

std::int64_t host_arena_bytes(const Schedule& schedule, const std::vector<std::int64_t>& arena_bytes,
                              bool hbm_is_host) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < schedule.tiers.size(); ++i)
    if (schedule.tiers[i].kind == TierKind::dram || (hbm_is_host && schedule.tiers[i].kind == TierKind::hbm))
      bytes += arena_bytes[i];
  return bytes;
}

void require_host_memory(const Schedule& schedule, const std::vector<std::int64_t>& arena_bytes, bool hbm_is_host,
                         const BesideArenas& beside, const MemoryLimits& limits) {
  const std::int64_t arenas = host_arena_bytes(schedule, arena_bytes, hbm_is_host);
  const std::int64_t needed = arenas + beside.total(arenas);
  std::string parts;
  for (std::size_t i = 0; i < schedule.tiers.size(); ++i) {
    const TierKind kind = schedule.tiers[i].kind;
    if (kind == TierKind::nvme || (kind == TierKind::hbm && !hbm_is_host)) continue;
    parts += fmt::format("{}{} {:.2f} GiB", parts.empty() ? "" : ", ", kind == TierKind::hbm ? "HBM" : "DRAM",
                         static_cast<double>(arena_bytes[i]) / (1 << 30));
  }
  if (needed <= limits.usable_bytes()) return;
  const bool container = limits.usable_bytes() < limits.available_bytes;
  std::int64_t room = beside.largest_arenas(limits.usable_bytes());
  for (std::size_t i = 0; i < schedule.tiers.size(); ++i)
    if (hbm_is_host && schedule.tiers[i].kind == TierKind::hbm) room -= arena_bytes[i];
  const std::string set =
      room > 0 ? fmt::format(" What fits is planned with machine.dram = \"{} MiB\" and machine.reserve = \"0 B\".",
                             room >> 20)
               : std::string();
  throw DoesNotFit(fmt::format(
      "host memory: the run's arenas in it ({}) and {} beside them need {:.2f} GiB; {} leaves {:.2f} "
      "GiB, {:.2f} GiB too few. Nothing was started.{}",
      parts, format_bytes(static_cast<double>(beside.total(arenas))), static_cast<double>(needed) / (1 << 30),
      container ? "the container's limit" : "what is free on this machine",
      static_cast<double>(limits.usable_bytes()) / (1 << 30),
      static_cast<double>(needed - limits.usable_bytes()) / (1 << 30), set));
}

int usable_cores() {
  static const int cores = read_memory_limits().cores;
  return cores;
}

}  // namespace penstock::exec
