#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/host_kernels.h"
#include "exec/calibrate/host_machine.h"
#include "exec/calibrate/host_passes.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/machine_name.h"
#include "shared/model/kernels.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kLargestCopy = std::int64_t{16} << 20;  // 64 bytes x 8^6
constexpr std::int64_t kLargestPass = std::int64_t{16} << 20;  // elements; beyond it a pass goes by its bytes

/// A kernel and how often its op executes it.
struct Occurrence {
  Kernel kernel;
  std::int64_t chunks = 1;
};

void add_op(const std::vector<Kernel>& kernels, std::vector<Occurrence>& all) {
  std::map<std::string_view, std::int64_t> chunks;
  for (const Kernel& kernel : kernels) chunks[kernel.name] += kernel.count;
  for (const Kernel& kernel : kernels) all.push_back({kernel, chunks[kernel.name]});
}

/// The kernels of every pass that a schedule of the scenario's policy can have.
std::vector<Occurrence> kernels_of(const Scenario& scenario) {
  const BatchShape batch{scenario.micro_batch, scenario.sequence_length};
  const LayoutOptions layout{scenario.policy.keep, scenario.policy.numerics.chunking, 0};
  std::vector<Occurrence> all;
  for (const LayerKind kind : {LayerKind::embedding, LayerKind::decoder, LayerKind::head})
    for (const Pass pass : {Pass::forward, Pass::recompute, Pass::backward, Pass::loss}) {
      const bool decoder = kind == LayerKind::decoder, head = kind == LayerKind::head;
      if (head != (pass == Pass::loss) || (pass == Pass::recompute && !decoder)) continue;
      for (const bool flag : {false, true})
        add_op(template_kernels(scenario.model, kind, pass, batch, layout, flag, flag), all);
    }
  return all;
}

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
      const MeasuredRate rate = measure_adamw(scenario_.model.layers[1].state_elements, threads);
      cpu.adamw_by_threads.push_back({threads, rate.per_second});
      profile_.spread[fmt::format("adamw {}", threads)] = rate.spread;
    }
  }

  /// Sums and finished gradients: one thread where the GPU's lane has them, the optimizer's threads where its lane has.
  void gradients() {
    progress_("gradients", 0.85);
    const int wanted = scenario_.policy.optimizer_threads;
    const int optimizer = std::clamp(wanted > 0 ? wanted : limits_.cores - 1, 1, limits_.cores);
    const std::int64_t elements = std::min(scenario_.model.layers[1].state_elements, kLargestPass);
    for (const int threads : std::set{1, optimizer}) {
      HostPasses passes(std::max(kBeyondCaches, elements * HostPasses::kBytes));
      keep(passes.gradients(elements, threads), profile_);
    }
  }

  // --- kernels

  void kernels() {
    const BatchShape batch{scenario_.micro_batch, scenario_.sequence_length};
    const Numerics& numerics = scenario_.policy.numerics;
    HostKernels host(scenario_.model, batch, numerics.sum_on_host ? numerics.gradient_link : numerics.gradient_sum);
    const std::vector<Occurrence> all = kernels_of(scenario_);
    std::map<std::tuple<std::string_view, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>, double> known;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [kernel, chunks] = all[i];
      const auto [entry, is_new] =
          known.try_emplace({kernel.name, kernel.m, kernel.n, kernel.k, kernel.bytes, kernel.accumulates}, 0.0);
      if (is_new) {
        progress_(std::string(kernel.name), 0.05 + 0.75 * static_cast<double>(i) / static_cast<double>(all.size()));
        const Measured measured = measure_cpu([&] { host.run_op(kernel, chunks); },
                                              {.least = 9, .most = 1000, .enough_seconds = 0.2, .limit_seconds = 3});
        entry->second = std::max(1e-9, measured.seconds / static_cast<double>(chunks));
        double& spread = profile_.spread[std::string(kernel.name)];
        spread = std::max(spread, measured.spread);
      }
      collect(kernel, entry->second, is_new);
    }
    finish_kernels();
  }

  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>;

  /// Matmuls are known by shape alone: two of one shape give their mean, weighted by how often they occur.
  void collect(const Kernel& kernel, double seconds, bool is_new) {
    if (kernel.kind == KernelKind::matmul)
      return matmuls_[{kernel.m, kernel.n, kernel.k, kernel.accumulates}].push_back(seconds);
    if (!is_new) return;
    Gpu& gpu = profile_.machine.gpu;
    if (kernel.kind == KernelKind::elementwise)
      return gpu.elementwise.push_back({std::string(kernel.name), static_cast<double>(kernel.bytes), seconds});
    if (gpu.attentions.empty())
      gpu.attentions.push_back({kernel.sequences, kernel.length, kernel.heads, kernel.kv_heads, kernel.head_dim, 0, 0});
    (kernel.kind == KernelKind::attention_forward ? gpu.attentions[0].forward_seconds
                                                  : gpu.attentions[0].backward_seconds) = seconds;
  }

  void finish_kernels() {
    Gpu& gpu = profile_.machine.gpu;
    gpu.matmul_flops_per_second = 0;
    for (const auto& [shape, seconds] : matmuls_) {
      const auto& [m, n, k, accumulates] = shape;
      const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
      gpu.matmuls.push_back({m, n, k, accumulates, mean});
      gpu.matmul_flops_per_second =
          std::max(gpu.matmul_flops_per_second,
                   2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / mean);
    }
    gpu.matmul_burst_flops_per_second = 0;  // a core has no power limit that these runs would reach
    gpu.launch_seconds = 0;                 // part of host_op
    // What bounds a kernel by its bytes: one core's DRAM rate, or more where caches serve it.
    gpu.hbm_bytes_per_second = profile_.machine.cpu.dram_by_threads.front().per_second;
    for (const ElementwisePoint& point : gpu.elementwise)
      if (point.seconds > 1e-8)
        gpu.hbm_bytes_per_second = std::max(gpu.hbm_bytes_per_second, point.bytes / point.seconds);
    std::sort(gpu.elementwise.begin(), gpu.elementwise.end(),
              [](const auto& a, const auto& b) { return std::tie(a.name, a.bytes) < std::tie(b.name, b.bytes); });
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
  std::map<Shape, std::vector<double>> matmuls_;
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
