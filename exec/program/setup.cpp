#include "exec/program/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "exec/cuda/backend.h"
#include "exec/host/backend.h"
#include "exec/numerics/cpu_target.h"
#include "exec/program/drive.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/pinning.h"
#include "shared/error.h"
#include "shared/standard_streams.h"
#include "shared/units.h"
#include "sim/front_desk.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

/// Where to look: `fit` counts with a drive that this run cannot use.
std::string what_takes_it(const Scenario& scenario) {
  const PolicyParameters& policy = scenario.policy;
  const Nvme& drive = scenario.machine.nvme;
  if (drive.bytes == 0 && drive.read_bytes_per_second <= 0 && !scenario.nvme_paths.empty())
    return fmt::format(
        "{} has no drive, so that none is planned with: `penstock-exec calibrate {} -o profile.json --nvme {}` measures "
        "machine.nvme_path's, and `run --profile profile.json` plans with it",
        scenario.machine.source, scenario.path.string(), scenario.nvme_paths.front().string());
  if (scenario.machine.nvme.bytes == 0 || !scenario.nvme_paths.empty() || policy.nvme_states != 0 ||
      policy.nvme_weights != 0)
    return "`penstock-sim fit` says what takes it";
  return "the NVMe is left out, for machine.nvme_path names no folder on it: `penstock-sim fit --set "
         "machine.nvme=\"0 B\"` says what takes it";
}

}  // namespace

std::string choose_backend(const Scenario& scenario, const std::string& name) {
  cpu_target();  // a wish that cannot be met is said before anything begins
  std::string chosen = name.empty() ? scenario.run.backend : name;
  if (chosen == "auto") chosen = !scenario.machine.gpu.is_host && cuda_device_available() ? "cuda" : "host";
  return chosen;
}

std::unique_ptr<Backend> open_backend(const Scenario& scenario, const std::string& name, const std::string& hbm_limit) {
  const std::int64_t limit = hbm_limit.empty() ? 0 : parse_bytes(hbm_limit, "--hbm-limit");
  if (!hbm_limit.empty() && limit < 1)
    throw InputError("--hbm-limit: expected more than zero, found \"" + hbm_limit + '"');
  const std::string chosen = choose_backend(scenario, name);
  const std::int64_t pinned = scenario.machine.pinned_bytes.value_or(-1);
  if (chosen == "cuda") {
    if (scenario.machine.gpu.is_host)
      throw InputError(fmt::format(
          "backend cuda: the scenario's machine \"{}\" has no GPU; name one with --set machine.hardware=FILE",
          scenario.machine.name));
    if (!cuda_device_available()) throw std::runtime_error("backend cuda: " + describe_cuda_devices());
    if (const std::string note = cuda_attention().note; !note.empty())
      tell(fmt::format("penstock-exec: note: {}\n", note));
    return make_cuda_backend({.device = 0,
                              .deterministic = scenario.run.deterministic,
                              .hbm_limit_bytes = limit,
                              .pinned_limit_bytes = pinned});
  }
  if (name.empty() && scenario.run.backend == "auto" && !scenario.machine.gpu.is_host)
    tell(fmt::format("backend host, the CPU in the GPU's place: {}\n", describe_cuda_devices()));
  return make_host_backend(
      {scenario.run.link_h2d_bytes_per_second, scenario.run.link_d2h_bytes_per_second, limit, pinned});
}

void limit_pinned(Scenario& scenario) {
  const std::int64_t limit = pinned_limit();
  if (limit < 0) return;
  std::optional<std::int64_t>& pinned = scenario.machine.pinned_bytes;
  pinned = std::min(pinned.value_or(limit), limit);
}

void limit_hbm(Scenario& scenario, const Backend& backend) {
  scenario.machine.gpu.hbm_bytes = std::min(usable_memory(scenario.machine).hbm, backend.arena_limit_bytes());
  scenario.machine.gpu.context_bytes = 0;
}

TierCapacities arena_room(const Scenario& scenario, const Backend& backend, std::int64_t host_bytes,
                          std::int64_t drive_bytes) {
  TierCapacities room = usable_memory(scenario.machine);
  std::int64_t rest = std::max<std::int64_t>(1, host_bytes);
  if (backend.is_host()) {
    room.hbm = std::min(room.hbm, std::max(rest - room.dram, rest / 2));
    rest -= room.hbm;
  }
  room.dram = std::min(room.dram, rest);
  room.nvme = std::min(room.nvme, drive_bytes);
  return room;
}

void require_tiers(const Schedule& schedule, const Scenario& scenario, const fs::path& file) {
  const std::string excess = sim::excess_text(sim::memory_on(schedule, scenario), scenario.machine);
  if (excess.empty()) return;
  throw DoesNotFit(sim::does_not_fit_text(scenario, excess) +
                   (file.empty() ? fmt::format("; {}.", what_takes_it(scenario)) : ""));
}

}  // namespace penstock::exec
