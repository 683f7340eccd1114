// From the command line's choice to a backend and a proved schedule that fits it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exec/runtime/backend.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

/// A scenario with overrides and, if given, another machine's profile.
Scenario load_scenario(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                       const std::filesystem::path& profile);

/// host or cuda. `name`: host, cuda, auto (cuda if it can be used and the scenario's machine has a GPU), or empty: as
/// the scenario says.
std::string choose_backend(const Scenario& scenario, const std::string& name);

/// `name` as for choose_backend; `hbm_limit` as "24GiB", or empty. Throws InputError that says what is missing.
std::unique_ptr<Backend> open_backend(const Scenario& scenario, const std::string& name, const std::string& hbm_limit);

/// Leaves the scenario no more HBM than arenas may have on the backend, with nothing of it kept. REQUIRES: called
/// before what follows.
void limit_hbm(Scenario& scenario, const Backend& backend);

/// What arenas may take of each tier: what is usable of the scenario's machine, but no more than `host_bytes` in host
/// memory, of which on the host backend HBM is a part. No NVMe: the executor does no I/O.
TierCapacities arena_room(const Scenario& scenario, const Backend& backend, std::int64_t host_bytes);

/// The scenario on a machine that has `room` and nothing else.
Scenario within_room(const Scenario& scenario, const TierCapacities& room);

/// choose_open_policy (sim/planner/open_policy.h) for arenas of at most `room`. Returns what was planned as a line to
/// be printed, empty if nothing was.
std::string planned_line(Scenario& scenario, const TierCapacities& room);

/// The scenario's schedule as its policy writes it, or the one in `file`. Throws InputError if it does not pass the
/// checker or is for another workload, DoesNotFit if a tier is too small.
Schedule proved_schedule(const Scenario& scenario, const std::filesystem::path& file);

/// No backend does I/O on a drive. Throws InputError if the schedule (of `scenario`'s policy, or read from `file`)
/// keeps something on one, unless memory may stand in for it as for everything else (the host backend), where a run is
/// about numbers and not about time.
void require_no_drive(const Schedule& schedule, const Scenario& scenario, bool memory_stands_in,
                      const std::filesystem::path& file);

/// A line on standard error while something runs, only on a terminal; gone at the end of the scope.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  bool terminal_ = false;
  bool shown_ = false;
};

}  // namespace penstock::exec
