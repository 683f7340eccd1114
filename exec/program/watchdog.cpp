#include "exec/program/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "shared/error.h"
#include "shared/machine/machine.h"
#include "shared/model/model.h"
#include "shared/units.h"
#include "sim/cost/cost_model.h"

namespace penstock::exec {
namespace {

constexpr double kSlowFlops = 1e9;
constexpr double kSlowBytes = 1e9;
constexpr double kSlowDriveBytes = 1e8;

/// A direction of the link, slowed down to a throttle if there is one.
LinkDirection throttled(LinkDirection direction, double throttle) {
  if (throttle <= 0) return direction;
  direction.bytes_per_second = std::min(direction.bytes_per_second, throttle);
  direction.curve.clear();
  return direction;
}

/// The machine that the host backend runs on, as slow as it may be unless it was measured.
Machine host_machine(const Scenario& scenario) {
  Machine machine = scenario.machine;
  if (!machine.measured || !machine.gpu.is_host) {
    Gpu slow;
    slow.hbm_bytes_per_second = kSlowBytes;
    slow.matmul_flops_per_second = kSlowFlops;
    slow.is_host = true;
    machine.gpu = slow;
    machine.cpu = {};
    machine.cpu.cores = 1;
    machine.cpu.dram_bytes_per_second = kSlowBytes;
    machine.cpu.adamw_by_threads = {{1, kSlowBytes / machine.cpu.adamw_bytes_per_parameter}};
    machine.link = {{kSlowBytes, 0, {}}, {kSlowBytes, 0, {}}, 0, 0};
    machine.nvme.read_bytes_per_second = machine.nvme.write_bytes_per_second = kSlowDriveBytes;
    machine.nvme.both_read_bytes_per_second = machine.nvme.both_write_bytes_per_second = 0;
    machine.software = {};
  }
  machine.link.h2d = throttled(machine.link.h2d, scenario.run.link_h2d_bytes_per_second);
  machine.link.d2h = throttled(machine.link.d2h, scenario.run.link_d2h_bytes_per_second);
  return machine;
}

}  // namespace

Watchdog watchdog_of(std::optional<double> given, const Schedule& schedule, const Scenario& scenario,
                     bool is_host_backend) {
  if (given) return {*given, "the limit of --watchdog"};
  const std::string floor =
      fmt::format("at least {}; --watchdog SECONDS sets another, 0 none", format_seconds(kWatchdogSeconds));
  std::vector<sim::OpCost> costs;
  try {
    costs = sim::op_costs(schedule, scenario.model, is_host_backend ? host_machine(scenario) : scenario.machine);
  } catch (const InputError&) {
    return {kWatchdogSeconds,
            "the limit where the machine lacks figures to predict by; --watchdog SECONDS sets another, 0 none"};
  }
  const auto longest = std::max_element(costs.begin(), costs.end(), [](const sim::OpCost& a, const sim::OpCost& b) {
    return a.solo_seconds() < b.solo_seconds();
  });
  if (longest == costs.end()) return {kWatchdogSeconds, floor};
  const Op& op = schedule.ops[static_cast<std::size_t>(longest - costs.begin())];
  return {std::max(kWatchdogSeconds, kWatchdogFactor * longest->solo_seconds()),
          fmt::format("the limit: {:.0f} times the {} that op \"{}\" should take at most, {}", kWatchdogFactor,
                      format_seconds(longest->solo_seconds()), op.name, floor)};
}

}  // namespace penstock::exec
