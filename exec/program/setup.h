// The backend that the command line chooses, and what it can hold. (What comes before is sim/front_desk.h.)
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "exec/runtime/backend.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

/// host or cuda. `name`: host, cuda, auto (cuda if it can be used and the scenario's machine has a GPU), or empty: as
/// the scenario says. Throws InputError as cpu_target does.
std::string choose_backend(const Scenario& scenario, const std::string& name);

/// `name` as for choose_backend; `hbm_limit` as "24GiB", or empty. Throws InputError that says what is missing.
std::unique_ptr<Backend> open_backend(const Scenario& scenario, const std::string& name, const std::string& hbm_limit);

/// What the scenario's machine and the environment (exec/runtime/pinning.h) let a run pin, in the scenario from now on.
void limit_pinned(Scenario& scenario);

/// Leaves the scenario no more HBM than arenas may have on the backend, with nothing of it kept. REQUIRES: called
/// before what follows.
void limit_hbm(Scenario& scenario, const Backend& backend);

/// What arenas may take of each tier: what is usable of the scenario's machine, but no more than `host_bytes` in host
/// memory, of which on the host backend HBM is a part, and `drive_bytes` on NVMe (drive_room).
TierCapacities arena_room(const Scenario& scenario, const Backend& backend, std::int64_t host_bytes,
                          std::int64_t drive_bytes);

/// Throws DoesNotFit if an arena is larger than what it may take of its tier of the scenario's machine. `file`: where
/// the schedule was read; empty: the policy wrote it.
void require_tiers(const Schedule& schedule, const Scenario& scenario, const std::filesystem::path& file);

}  // namespace penstock::exec
