#include "exec/program/setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "exec/cuda/backend.h"
#include "exec/host/backend.h"
#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "shared/policy/parameters.h"
#include "shared/standard_streams.h"
#include "shared/toml_reader.h"
#include "shared/units.h"
#include "sim/planner/candidate_text.h"
#include "sim/planner/drive_use.h"
#include "sim/planner/open_policy.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

void require_same_workload(const Schedule& schedule, const Scenario& scenario, const fs::path& file) {
  const auto differ = [&](const char* what, const auto& in_file, const auto& in_scenario) {
    throw InputError(
        fmt::format("{}: the schedule is for {} {}, but {} has {}: give the scenario that it was planned from",
                    file.string(), what, in_file, scenario.path.string(), in_scenario));
  };
  ModelConfig model = schedule.model;
  model.name = scenario.model.config.name;  // names are for people
  if (!(model == scenario.model.config)) differ("model", schedule.model.name, scenario.model.config.name);
  if (schedule.micro_batch.sequence_length != scenario.sequence_length)
    differ("sequence length", schedule.micro_batch.sequence_length, scenario.sequence_length);
  const std::int64_t sequences = schedule.micro_batch.sequences * schedule.micro_batches;
  if (sequences != scenario.sequences) differ("sequences per step", sequences, scenario.sequences);
}

/// Where to look: `fit` counts with a drive that no run can use.
std::string what_takes_it(const Scenario& scenario) {
  const PolicyParameters& policy = scenario.policy;
  if (scenario.machine.nvme.bytes == 0 || policy.nvme_states != 0 || policy.nvme_weights != 0)
    return "`penstock-sim fit` says what takes it";
  return fmt::format("the NVMe is left out, for {}: `penstock-sim fit --set machine.nvme=\"0 B\"` says what takes it",
                     sim::kDriveIsSimulated);
}

}  // namespace

Scenario load_scenario(const fs::path& path, const std::vector<std::string>& overrides, const fs::path& profile) {
  std::vector<std::string> all = overrides;
  if (!profile.empty()) all.push_back("machine.profile=" + toml_quoted(fs::absolute(profile).string()));
  return read_scenario(path, all);
}

std::string choose_backend(const Scenario& scenario, const std::string& name) {
  const std::string& chosen = name.empty() ? scenario.run.backend : name;
  if (chosen != "auto") return chosen;
  return !scenario.machine.gpu.is_host && cuda_device_available() ? "cuda" : "host";
}

std::unique_ptr<Backend> open_backend(const Scenario& scenario, const std::string& name, const std::string& hbm_limit) {
  const std::int64_t limit = hbm_limit.empty() ? 0 : parse_bytes(hbm_limit, "--hbm-limit");
  if (!hbm_limit.empty() && limit < 1)
    throw InputError("--hbm-limit: expected more than zero, found \"" + hbm_limit + '"');
  const std::string chosen = choose_backend(scenario, name);
  if (chosen == "cuda") {
    if (scenario.machine.gpu.is_host)
      throw InputError(fmt::format(
          "backend cuda: the scenario's machine \"{}\" has no GPU; name one with --set machine.hardware=FILE",
          scenario.machine.name));
    if (!cuda_device_available()) throw std::runtime_error("backend cuda: " + describe_cuda_devices());
    return make_cuda_backend({.device = 0, .deterministic = scenario.run.deterministic, .hbm_limit_bytes = limit});
  }
  if (name.empty() && scenario.run.backend == "auto" && !scenario.machine.gpu.is_host)
    tell(fmt::format("backend host, the CPU in the GPU's place: {}\n", describe_cuda_devices()));
  return make_host_backend({scenario.run.link_h2d_bytes_per_second, scenario.run.link_d2h_bytes_per_second, limit});
}

void limit_hbm(Scenario& scenario, const Backend& backend) {
  scenario.machine.gpu.hbm_bytes = std::min(usable_memory(scenario.machine).hbm, backend.arena_limit_bytes());
  scenario.machine.gpu.context_bytes = 0;
}

TierCapacities arena_room(const Scenario& scenario, const Backend& backend, std::int64_t host_bytes) {
  TierCapacities room = usable_memory(scenario.machine);
  std::int64_t rest = std::max<std::int64_t>(1, host_bytes);
  if (backend.is_host()) {
    room.hbm = std::min(room.hbm, std::max(rest - room.dram, rest / 2));
    rest -= room.hbm;
  }
  room.dram = std::min(room.dram, rest);
  room.nvme = 0;
  return room;
}

Scenario within_room(const Scenario& scenario, const TierCapacities& room) {
  Scenario within = scenario;
  Machine& machine = within.machine;
  machine.gpu.hbm_bytes = room.hbm;
  machine.dram_bytes = room.dram;
  machine.nvme.bytes = room.nvme;
  machine.gpu.context_bytes = machine.reserve_bytes = 0;
  return within;
}

std::string planned_line(Scenario& scenario, const TierCapacities& room) {
  Scenario within = within_room(scenario, room);  // the schedule keeps the machine's capacities
  const std::string plan = sim::choose_open_policy(within);
  scenario.policy = within.policy;
  scenario.fixed = within.fixed;
  return plan.empty() ? plan : plan + "\n";
}

Schedule proved_schedule(const Scenario& scenario, const fs::path& file) {
  const PolicyInput input = scenario.policy_input();
  if (file.empty())
    if (const ArenaBytes arenas = arena_bytes(input); !fits(arenas, input))
      throw DoesNotFit(fmt::format("{}: policy {} does not fit: {}; {}.", scenario.path.string(), scenario.policy.name,
                                   sim::shortage_text(arenas, scenario.machine), what_takes_it(scenario)));
  Schedule schedule = file.empty() ? make_schedule(input) : read_schedule(file);
  if (!file.empty()) {
    require_same_workload(schedule, scenario, file);
    for (Tier& tier : schedule.tiers)
      if (tier.kind == TierKind::hbm)
        tier.capacity_bytes = std::min(tier.capacity_bytes, scenario.machine.gpu.hbm_bytes);
  }
  try {
    require_valid(schedule);
  } catch (const InputError& error) {
    if (file.empty()) throw;
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  }
  return schedule;
}

void require_no_drive(const Schedule& schedule, const Scenario& scenario, bool memory_stands_in, const fs::path& file) {
  if (memory_stands_in) return;
  if (const std::string why = sim::simulated_only(schedule, scenario, !file.empty()); !why.empty())
    throw InputError(fmt::format("{}: the schedule of policy {} is simulated only: {}",
                                 (file.empty() ? scenario.path : file).string(), schedule.policy, why));
}

StatusLine::StatusLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}
StatusLine::~StatusLine() { clear(); }

void StatusLine::show(const std::string& text) {
  if (!terminal_) return;
  tell("\r\033[K" + text);
  shown_ = true;
}
void StatusLine::clear() {
  if (shown_) tell("\r\033[K");
  shown_ = false;
}

}  // namespace penstock::exec
