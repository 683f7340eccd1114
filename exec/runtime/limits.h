// What this process may use: physical memory and the container's limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/memory/arena.h"
#include "exec/runtime/run_memory.h"
#include "shared/ir/schedule.h"

namespace penstock::exec {

struct MemoryLimits {
  std::int64_t physical_bytes = 0;        // of the machine
  std::int64_t available_bytes = 0;       // free or reclaimable now (MemAvailable)
  std::int64_t container_bytes = -1;      // cgroup limit, the one that leaves least; -1 = none
  std::int64_t container_used_bytes = 0;  // of it, without what can be reclaimed (the file cache)
  std::int64_t lockable_bytes = -1;       // RLIMIT_MEMLOCK; -1 = unlimited
  std::int64_t huge_page_bytes = 0;       // size of a transparent huge page; 0 = none
  int cores = 1;                          // that this process may run on

  /// The most that this process can still allocate.
  std::int64_t usable_bytes() const;
};

/// `root` is "/" but in tests.
MemoryLimits read_memory_limits(const std::filesystem::path& root = "/");

/// MemoryLimits::cores, read once: how many threads of this process can run at a time.
int usable_cores();

/// What an arena of a run may take, by read_memory_limits: it leaves its page tables, and where it is pinned what the
/// driver needs for that and a little for the system.
FreeMemory free_for_arena(std::int64_t bytes, bool pinned);

/// The arenas that lie in host memory, together.
std::int64_t host_arena_bytes(const Schedule& schedule, const std::vector<std::int64_t>& arena_bytes, bool hbm_is_host);

/// Throws DoesNotFit if those arenas, and what the run needs beside them, exceed it: says by how much and whose limit
/// it is.
void require_host_memory(const Schedule& schedule, const std::vector<std::int64_t>& arena_bytes, bool hbm_is_host,
                         const BesideArenas& beside, const MemoryLimits& limits);

}  // namespace penstock::exec
