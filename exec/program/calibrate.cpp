#include "exec/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "exec/calibrate/nvme.h"
#include "exec/cuda/backend.h"
#include "exec/program/commands.h"
#include "exec/program/setup.h"
#include "exec/runtime/recorder.h"
#include "shared/command_files.h"
#include "shared/error.h"
#include "shared/status_line.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

void print_profile(const Profile& profile, const std::optional<MeasuredNvme>& nvme, const std::string& output,
                   double seconds) {
  const Machine& machine = profile.machine;
  fmt::print("{}, measured in {}\n", profile.host, format_seconds(seconds));
  const Gpu& gpu = machine.gpu;
  fmt::print("matmul      {} at best, {} products", format_flops(gpu.matmul_flops_per_second), gpu.matmuls.size());
  if (gpu.matmul_burst_flops_per_second > gpu.matmul_flops_per_second)
    fmt::print("; {} in a burst", format_flops(gpu.matmul_burst_flops_per_second));
  fmt::print("\n");
  if (!gpu.power.empty())
    fmt::print("power       the way from burst to sustained takes {}\n", format_seconds(gpu.power_settle_seconds));
  for (const PowerPoint& point : gpu.power)
    fmt::print(
        "power       {:.1f} % slower without a pause: busy for {:.0f} % of the time, {:.0f} % of the way to it\n",
        point.slowdown * 100, point.duty * 100, point.share * 100);
  for (const AttentionPoint& point : gpu.attentions)
    fmt::print("attention   {} x {}: forward {}, backward {}\n", point.sequences, point.length,
               format_seconds(point.forward_seconds), format_seconds(point.backward_seconds));
  if (!gpu.is_host)
    fmt::print("HBM         {}; a launch takes {} per kernel, {} per op\n", format_bandwidth(gpu.hbm_bytes_per_second),
               format_seconds(gpu.launch_seconds), format_seconds(gpu.op_launch_seconds));
  for (const ThreadRate& rate : machine.cpu.dram_by_threads)
    fmt::print("DRAM        {} with {} threads\n", format_bandwidth(rate.per_second), rate.threads);
  for (const ThreadRate& rate : machine.cpu.adamw_by_threads)
    fmt::print("AdamW       {:.3f} Gparam/s with {} threads\n", rate.per_second * 1e-9, rate.threads);
  fmt::print("link        h2d {}, d2h {}\n", format_bandwidth(machine.link.h2d.bytes_per_second),
             format_bandwidth(machine.link.d2h.bytes_per_second));
  if (machine.link.duplex_h2d_bytes_per_second > 0)
    fmt::print("both ways   h2d {}, d2h {}\n", format_bandwidth(machine.link.duplex_h2d_bytes_per_second),
               format_bandwidth(machine.link.duplex_d2h_bytes_per_second));
  if (machine.link.ring_h2d.bytes_per_second > 0)
    fmt::print("not pinned  h2d {}, d2h {}\n", format_bandwidth(machine.link.ring_h2d.bytes_per_second),
               format_bandwidth(machine.link.ring_d2h.bytes_per_second));
  for (const DramSharing& sharing : machine.cpu.sharing)
    fmt::print("beside      AdamW {:>2} threads {:.3f} Gparam/s, h2d {}, d2h {}\n", sharing.cpu_threads,
               sharing.cpu_bytes_per_second / machine.cpu.adamw_bytes_per_parameter * 1e-9,
               sharing.h2d ? format_bandwidth(sharing.h2d_bytes_per_second) : "-",
               sharing.d2h ? format_bandwidth(sharing.d2h_bytes_per_second) : "-");
  if (nvme) {
    fmt::print("NVMe        read {}, write {}, at once {} and {}; latency {}, {} free\n",
               format_bandwidth(machine.nvme.read_bytes_per_second),
               format_bandwidth(machine.nvme.write_bytes_per_second),
               format_bandwidth(machine.nvme.both_read_bytes_per_second),
               format_bandwidth(machine.nvme.both_write_bytes_per_second), format_seconds(machine.nvme.latency_seconds),
               format_bytes_gib(static_cast<double>(machine.nvme.bytes)));
    for (const std::string& remark : nvme->remarks) fmt::print("NVMe        {}\n", remark);
  }
  fmt::print("signalling  {}\n", format_seconds(machine.host_op_seconds));
  const auto widest = std::max_element(profile.spread.begin(), profile.spread.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (widest != profile.spread.end())
    fmt::print("spread      {:.1f} % at most ({})\n", widest->second * 100, widest->first);
  fmt::print("wrote {}\n", output);
}

/// Throws InputError where what is asked for is not measured, or nothing is.
void check_options(const CalibrateCommandOptions& options) {
  if (options.profile.empty()) {
    if (options.scenarios.empty())
      throw InputError("calibrate: expected a SCENARIO, or --profile and --nvme to measure only the drive");
    return;
  }
  if (options.nvme.empty())
    throw InputError("calibrate --profile: only a drive is measured into a profile; expected --nvme FOLDER");
  if (!options.scenarios.empty() || !options.overrides.empty() || !options.backend.empty())
    throw InputError(
        "calibrate --profile: all but the drive stays as it is there; leave out SCENARIO, --set and --backend");
}

void check_backend(const std::vector<Scenario>& scenarios, const std::string& backend) {
  const bool cuda = choose_backend(scenarios.front(), backend) == "cuda";
  if (cuda && !cuda_device_available()) throw std::runtime_error("backend cuda: " + describe_cuda_devices());
  if (!cuda && scenarios.size() > 1)
    throw InputError(
        "calibrate: the host backend is measured for one scenario at a time (--backend cuda takes several)");
}

Profile calibrate_machine(const std::vector<Scenario>& scenarios, const std::string& backend,
                          const CalibrationProgress& progress) {
  const bool cuda = choose_backend(scenarios.front(), backend) == "cuda";
  return cuda ? calibrate_cuda(scenarios, progress) : calibrate_host(scenarios.front(), progress);
}

void put_drive(const MeasuredNvme& nvme, Profile& profile) {
  const double endurance = profile.machine.nvme.endurance_bytes;  // nothing that could be measured
  profile.machine.nvme = nvme.drive;
  profile.machine.nvme.endurance_bytes = endurance;
  for (const auto& [figure, spread] : nvme.spread) profile.spread[figure] = spread;
}

}  // namespace

int calibrate_command(const CalibrateCommandOptions& options) {
  check_options(options);
  std::vector<Scenario> scenarios;
  CommandFiles files;
  std::optional<Profile> earlier;
  if (!options.profile.empty()) {
    earlier = read_profile_file(options.profile);
    files.reads({options.profile});
  }
  for (const std::filesystem::path& path : options.scenarios) {
    scenarios.push_back(read_scenario({path, {}, options.overrides}));
    files.reads(scenarios.back().files);
  }
  files.writes(options.output, "-o");
  files.check();
  if (!scenarios.empty()) check_backend(scenarios, options.backend);
  StatusLine status;
  const std::int64_t start = now_ns();
  const CalibrationProgress progress = [&status](const std::string& what, double share) {
    status.show(fmt::format("{:3.0f} %  {}", share * 100, what));
  };
  std::optional<MeasuredNvme> nvme;
  if (!options.nvme.empty()) {
    progress("NVMe", 0);
    nvme = measure_nvme(options.nvme, {}, earlier ? &earlier->machine.nvme : nullptr);
  }
  Profile profile = earlier ? *earlier : calibrate_machine(scenarios, options.backend, progress);
  if (nvme) put_drive(*nvme, profile);
  status.clear();
  write_profile_file(profile, options.output);
  const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
  if (options.json) {
    const nlohmann::ordered_json json = {{"format", "penstock-calibration/1"},
                                         {"profile", options.output.string()},
                                         {"host", profile.host},
                                         {"seconds", seconds},
                                         {"spread", profile.spread}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_profile(profile, nvme, options.output.string(), seconds);
  }
  return kExitDone;
}

}  // namespace penstock::exec
