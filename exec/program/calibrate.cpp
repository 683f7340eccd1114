#include "exec/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exec/program/commands.h"
#include "exec/program/setup.h"
#include "exec/runtime/recorder.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

void print_profile(const Profile& profile, const std::string& output, double seconds) {
  const Machine& machine = profile.machine;
  fmt::print("{}, measured in {}\n", profile.host, format_seconds(seconds));
  fmt::print("matmul      {} at best, {} shapes\n", format_flops(machine.gpu.matmul_flops_per_second),
             machine.gpu.matmuls.size());
  for (const ThreadRate& rate : machine.cpu.dram_by_threads)
    fmt::print("DRAM        {} with {} threads\n", format_bandwidth(rate.per_second), rate.threads);
  for (const ThreadRate& rate : machine.cpu.adamw_by_threads)
    fmt::print("AdamW       {:.3f} Gparam/s with {} threads\n", rate.per_second * 1e-9, rate.threads);
  fmt::print("link        h2d {}, d2h {}\n", format_bandwidth(machine.link.h2d.bytes_per_second),
             format_bandwidth(machine.link.d2h.bytes_per_second));
  fmt::print("signalling  {}\n", format_seconds(machine.host_op_seconds));
  const auto widest = std::max_element(profile.spread.begin(), profile.spread.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (widest != profile.spread.end())
    fmt::print("spread      {:.1f} % at most ({})\n", widest->second * 100, widest->first);
  fmt::print("wrote {}\n", output);
}

}  // namespace

int calibrate_command(const CalibrateCommandOptions& options) {
  const Scenario scenario = load_scenario(options.scenario, options.overrides, {});
  const std::filesystem::path folder = options.output.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw InputError(fmt::format("{}: the folder {} does not exist", options.output.string(), folder.string()));
  if (choose_backend(scenario, options.backend) == "cuda")
    throw InputError("calibrate: this build measures the host backend only (--backend host)");
  StatusLine status;
  const std::int64_t start = now_ns();
  const Profile profile = calibrate_host(scenario, [&status](const std::string& what, double share) {
    status.show(fmt::format("{:3.0f} %  {}", share * 100, what));
  });
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
    print_profile(profile, options.output.string(), seconds);
  }
  return kExitDone;
}

}  // namespace penstock::exec
