#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <vector>

#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/host_machine.h"
#include "exec/calibrate/host_ops.h"
#include "exec/calibrate/host_passes.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/machine_name.h"
#include "shared/model/kernels.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kLargestCopy = std::int64_t{16} << 20;  // 64 bytes x 8^6
constexpr std::int64_t kLargestPass = std::int64_t{16} << 20;  // elements; beyond it a pass goes by its bytes

/// Fills a profile figure by figure.
class HostCalibration {
 public:
  HostCalibration(const Scenario& scenario, const CalibrationProgress& progress)
      : scenario_(scenario), progress_(progress), limits_(read_memory_limits()) {}

  Profile run() {
    Machine& machine = profile_.machine;
    machine = scenario_.machine;  // capacities are chosen, not measured
    machine.measured = true;
    machine.gpu.is_host = true;
    machine.gpu.matmuls.clear();
    machine.gpu.attentions.clear();
    machine.gpu.elementwise.clear();
    machine.cpu.cores = limits_.cores;
    machine.cpu.sharing.clear();
    machine.cpu.passes.clear();
    dram();
    kernels();
    adamw();
    gradients();
    link();
    progress_("signalling", 0.98);
    const Measured signal = measure_signal();
    machine.host_op_seconds = signal.seconds;
    profile_.spread["host_op"] = signal.spread;
    profile_.date = utc_date();
    profile_.host = fmt::format("{}, {} cores", cpu_name(), limits_.cores);
    machine.name = fmt::format("{} ({} cores), calibrated", cpu_name(), limits_.cores);
    return std::move(profile_);
  }

 private:
  std::vector<int> thread_counts() const {
    std::vector<int> counts;
    for (int threads = 1; threads < limits_.cores; threads *= 2) counts.push_back(threads);
    counts.push_back(limits_.cores);
    return counts;
  }

  void dram() {
    Cpu& cpu = profile_.machine.cpu;
    cpu.dram_by_threads.clear();
    for (const int threads : thread_counts()) {
      progress_(fmt::format("DRAM, {} threads", threads), 0.02);
      const MeasuredRate rate = measure_dram(threads);
      cpu.dram_by_threads.push_back({threads, rate.per_second});
      profile_.spread[fmt::format("dram {}", threads)] = rate.spread;
      cpu.dram_bytes_per_second = std::max(cpu.dram_bytes_per_second * (threads > 1), rate.per_second);
    }
  }

  void adamw() {
    Cpu& cpu = profile_.machine.cpu;
    cpu.adamw_by_threads.clear();
    cpu.adamw_bytes_per_parameter = 26;
    for (const int threads : thread_counts()) {
      progress_(fmt::format("AdamW, {} threads", threads), 0.8);
      const MeasuredRate rate = measure_adamw(scenario_.model.largest_decoder().state_elements, threads);
      cpu.adamw_by_threads.push_back({threads, rate.per_second});
      profile_.spread[fmt::format("adamw {}", threads)] = rate.spread;
    }
  }

  /// Sums and finished gradients: one thread where the GPU's lane has them, the optimizer's threads where its lane has.
  void gradients() {
    progress_("gradients", 0.85);
    const int wanted = scenario_.policy.optimizer_threads;
    const int optimizer = std::clamp(wanted > 0 ? wanted : limits_.cores - 1, 1, limits_.cores);
    const std::int64_t elements = std::min(scenario_.model.largest_decoder().state_elements, kLargestPass);
    for (const int threads : std::set{1, optimizer}) {
      HostPasses passes(std::max(kBeyondCaches, elements * HostPasses::kBytes));
      keep(passes.gradients(elements, threads), profile_);
    }
  }

  // --- kernels

  void kernels() {
    Gpu& gpu = profile_.machine.gpu;
    KernelTables tables;
    HostOps(scenario_).measure(tables,
                               [&](const std::string& op, double share) { progress_(op, 0.05 + 0.75 * share); });
    tables.require_all(scenario_);
    const double efficiency = gpu.elementwise_efficiency;
    tables.fill(gpu, profile_.spread);
    gpu.elementwise_efficiency = efficiency;
    gpu.matmul_burst_flops_per_second = 0;  // a core has no power limit that these runs would reach
    gpu.launch_seconds = 0;                 // part of host_op
    // What bounds a kernel by its bytes: one core's DRAM rate, or more where caches serve it.
    gpu.hbm_bytes_per_second = profile_.machine.cpu.dram_by_threads.front().per_second;
    for (const ElementwisePoint& point : gpu.elementwise)
      if (point.seconds > 1e-6)
        gpu.hbm_bytes_per_second = std::max(gpu.hbm_bytes_per_second, point.bytes / point.seconds);
  }

  // --- copies

  void link() {
    Link& link = profile_.machine.link;
    const RunOptions& run = scenario_.run;
    direction("h2d", run.link_h2d_bytes_per_second, link.h2d);
    direction("d2h", run.link_d2h_bytes_per_second, link.d2h);
    const DuplexRates both = measure_duplex(kLargestCopy, run.link_h2d_bytes_per_second, run.link_d2h_bytes_per_second);
    link.duplex_h2d_bytes_per_second = std::min(both.h2d, link.h2d.bytes_per_second);
    link.duplex_d2h_bytes_per_second = std::min(both.d2h, link.d2h.bytes_per_second);
    progress_("copies through a ring", 0.96);
    const HostBackendOptions options{run.link_h2d_bytes_per_second, run.link_d2h_bytes_per_second};
    const MeasuredRate up = measure_ring(true, options), down = measure_ring(false, options);
    link.ring_h2d.bytes_per_second = up.per_second;
    link.ring_d2h.bytes_per_second = down.per_second;
    profile_.spread["ring"] = std::max(up.spread, down.spread);
  }
  void direction(const std::string& name, double throttle, LinkDirection& direction) {
    direction.curve.clear();
    for (std::int64_t bytes = 64; bytes <= kLargestCopy; bytes *= 8) {
      progress_(fmt::format("copies {}, {} bytes", name, bytes), 0.9);
      const Measured measured = measure_copy(bytes, throttle);
      direction.curve.push_back({static_cast<double>(bytes), measured.seconds});
      profile_.spread[fmt::format("{} {}", name, bytes)] = measured.spread;
    }
    direction.bytes_per_second = direction.curve.back().bytes / direction.curve.back().seconds;
    direction.latency_seconds = direction.curve.front().seconds;
  }

  const Scenario& scenario_;
  const CalibrationProgress& progress_;
  const MemoryLimits limits_;
  Profile profile_;
};

}  // namespace

std::string utc_date() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Profile calibrate_host(const Scenario& scenario, const CalibrationProgress& progress) {
  return HostCalibration(scenario, progress).run();
}

}  // namespace penstock::exec
