#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/cuda_machine.h"
#include "exec/calibrate/cuda_ops.h"
#include "exec/calibrate/host_passes.h"
#include "exec/calibrate/host_rounds.h"
#include "exec/cuda/backend.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/machine_name.h"
#include "shared/pinned_ring.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kSmallestCopy = std::int64_t{16} << 10, kLargestCopy = std::int64_t{256} << 20;
// Elements. Planes a power of two apart would fall into the same sets of the caches, which those of a model do not.
constexpr std::int64_t kSmallLayer = 4'100'000, kLargeLayer = 60'100'000;
constexpr double kLoadSeconds = 0.15;  // of AdamW at each combination in a round
constexpr int kRepeats = 3;            // of copies both ways
constexpr std::pair<bool, bool> kCopiesAtOnce[] = {{true, false}, {false, true}, {true, true}};  // h2d, d2h
constexpr std::int64_t kRingCopies[] = {256 << 10, 4 << 20, 32 << 20, 128 << 20, 512 << 20};
constexpr double kSettleSeconds = 3;  // until a GPU without a pause has settled
constexpr double kResponseSeconds = 1.5;
constexpr double kPacedSeconds = 1.5;
constexpr double kDuties[] = {0.5, 0.65, 0.8, 0.9};
constexpr double kLeastSlowdown = 0.005;  // less than this between burst and sustained is noise
constexpr std::int64_t kMostOptimizerElements = std::int64_t{256} << 20;

/// The kernel's text in a file of the driver, "NVRM version: NVIDIA UNIX ... 580.65.06 ..."; empty where there is none.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::size_t at = 0;
  for (std::string word; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    word = line.substr(at, end - at);
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
    at = end + 1;
  }
  return "";
}

/// Fills a profile figure by figure.
class CudaCalibration {
 public:
  CudaCalibration(std::span<const Scenario> scenarios, const CalibrationProgress& progress)
      : scenarios_(scenarios), progress_(progress), limits_(read_memory_limits()) {}

  Profile run() {
    Machine& machine = profile_.machine;
    machine.measured = true;
    machine.nvme = scenarios_.front().machine.nvme;
    machine.dram_bytes = limits_.usable_bytes();
    machine.cpu.cores = limits_.cores;
    machine.cpu.adamw_bytes_per_parameter = 26;
    names();
    link_and_dram();
    // What AdamW and copies get of the host's memory, before, amid and after the device's kernels.
    host_round(0.1);
    small_costs();
    host_round(0.28);
    kernels();
    host_round(0.97);
    rounds_.fill(machine.cpu, profile_.spread);
    profile_.date = utc_date();
    return std::move(profile_);
  }

 private:
  Gpu& gpu() { return profile_.machine.gpu; }
  void spread(const std::string& figure, double value) { profile_.spread[figure] = value; }

  void names() {
    cudaDeviceProp properties{};
    std::size_t free_bytes = 0, total_bytes = 0;
    PENSTOCK_CUDA(cudaGetDeviceProperties(&properties, 0));
    PENSTOCK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    gpu().name = properties.name;
    gpu().hbm_bytes = static_cast<std::int64_t>(total_bytes);
    const CudaMemory memory = measure_cuda_memory();
    gpu().context_bytes = memory.context_bytes + memory.later_bytes;
    const std::string driver = driver_version();
    profile_.host =
        fmt::format("{}, {} cores; {}{}; {}, cuBLASLt {}", cpu_name(), limits_.cores, device_description(),
                    driver.empty() ? "" : ", NVIDIA " + driver, Attention::name(), Matmul::library_version());
    profile_.machine.name =
        fmt::format("{} with {} ({} cores), calibrated", properties.name, cpu_name(), limits_.cores);
  }

  // --- the host and the link

  std::vector<int> thread_counts(int from) const {
    const int cores = limits_.cores;
    std::set<int> counts{cores * 3 / 4, cores - 1, cores};
    for (int threads = 1; threads < cores; threads *= 2) counts.insert(threads);
    for (const Scenario& scenario : scenarios_) counts.insert(std::min(scenario.policy.optimizer_threads, cores));
    counts.erase(counts.begin(), counts.lower_bound(std::max(1, from)));
    return {counts.begin(), counts.end()};
  }

  void link_and_dram() {
    Cpu& cpu = profile_.machine.cpu;
    progress_("DRAM by threads", 0.01);
    Triad triad;
    for (const int threads : thread_counts(1)) {
      const MeasuredRate rate = triad.run(threads);
      cpu.dram_by_threads.push_back({threads, rate.per_second});
      spread(fmt::format("dram {}", threads), rate.spread);
      cpu.dram_bytes_per_second = std::max(cpu.dram_bytes_per_second, rate.per_second);
    }
    {
      CudaCopies copies(gate_);
      curves(copies);
    }
    ring_curves();
  }

  void host_round(double done) {
    progress_("AdamW by threads", done);
    std::int64_t elements = 0;
    for (const Scenario& scenario : scenarios_)
      elements = std::max(elements, scenario.model.largest_decoder().state_elements);
    AdamwLoad adamw(elements);
    adamw.run(limits_.cores, 0.1);
    for (const int threads : thread_counts(1)) rounds_.add_adamw(threads, adamw.run(threads, kLoadSeconds));
    passes(done);
    {
      CudaCopies copies(gate_);
      for (const int threads : thread_counts(limits_.cores / 4))
        for (const auto& [h2d, d2h] : kCopiesAtOnce)
          rounds_.add(sharing({.cpu_threads = threads, .h2d = h2d, .d2h = d2h}, copies, adamw, done));
    }
    CudaRingCopies copies(ring_threads(limits_.cores));
    rounds_.add(sharing({.h2d = true, .d2h = true, .through_rings = true}, copies, adamw, done));
    for (const int threads : threads_beside_rings())
      for (const auto& [h2d, d2h] : kCopiesAtOnce)
        rounds_.add(
            sharing({.cpu_threads = threads, .h2d = h2d, .d2h = d2h, .through_rings = true}, copies, adamw, done));
  }

  /// As many as an optimizer has by itself, that number without the threads of a ring, half of the cores, and what the
  /// scenarios say.
  std::set<int> threads_beside_rings() const {
    const int cores = limits_.cores;
    std::set<int> counts{cores / 2, cores - 1 - ring_threads(cores), cores - 1};
    for (const Scenario& scenario : scenarios_) counts.insert(std::min(scenario.policy.optimizer_threads, cores));
    counts.erase(counts.begin(), counts.lower_bound(1));
    return counts;
  }

  /// What a schedule's optimizer lane does, on as many threads as it will have.
  void passes(double done) {
    progress_("passes of the host", done);
    std::int64_t largest = kSmallLayer;
    std::set<int> counts;
    for (const Scenario& scenario : scenarios_) {
      for (const Layer& layer : scenario.model.layers) largest = std::max(largest, layer.state_elements);
      const int wanted = scenario.policy.optimizer_threads;
      counts.insert(std::clamp(wanted > 0 ? wanted : limits_.cores - 1, 1, limits_.cores));
    }
    largest = std::min(largest, kLargeLayer);
    for (const int threads : counts)
      for (const std::int64_t elements : std::set{kSmallLayer, largest}) {
        // Anew: the low bits of one layout would be denormal floats of another, and arithmetic on those is slow.
        HostPasses passes(2 * kLargeLayer * HostPasses::kBytes);
        keep(passes.adamw(elements, threads));
        keep(passes.gradients(elements, threads));
      }
  }

  void keep(const std::vector<MeasuredPass>& passes) {
    for (const MeasuredPass& pass : passes) {
      rounds_.add(pass.point);
      double& widest = profile_.spread[pass.point.name];
      widest = std::max(widest, pass.spread);
    }
  }

  void curves(CudaCopies& copies) {
    Link& link = profile_.machine.link;
    for (const bool h2d : {true, false}) {
      const char* const name = h2d ? "h2d" : "d2h";
      LinkDirection& direction = h2d ? link.h2d : link.d2h;
      progress_(fmt::format("copies {}", name), 0.1);
      for (std::int64_t bytes = kSmallestCopy; bytes <= kLargestCopy; bytes *= 4) {
        const Measured measured = copies.curve_point(h2d, bytes);
        direction.curve.push_back({static_cast<double>(bytes), measured.seconds});
        spread(fmt::format("{} {}", name, bytes), measured.spread);
      }
      direction.bytes_per_second = direction.curve.back().bytes / direction.curve.back().seconds;
      direction.latency_seconds = direction.curve.front().seconds;
    }
    progress_("copies both ways", 0.13);
    const CudaCopies::Rates both = median_rates(
        [&] { return copies.beside(true, true, [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }); },
        "duplex");
    link.duplex_h2d_bytes_per_second = std::min(both.h2d, link.h2d.bytes_per_second);
    link.duplex_d2h_bytes_per_second = std::min(both.d2h, link.d2h.bytes_per_second);
  }

  void ring_curves() {
    progress_("copies through rings", 0.14);
    CudaRingCopies copies(ring_threads(limits_.cores));
    Link& link = profile_.machine.link;
    for (const bool h2d : {true, false}) {
      LinkDirection& ring = h2d ? link.ring_h2d : link.ring_d2h;
      for (const std::int64_t bytes : kRingCopies) {
        const Measured measured = copies.curve_point(h2d, bytes);
        ring.curve.push_back({static_cast<double>(bytes), measured.seconds});
        spread(fmt::format("{} through a ring {}", h2d ? "h2d" : "d2h", bytes), measured.spread);
      }
      ring.bytes_per_second = ring.curve.back().bytes / ring.curve.back().seconds;
    }
  }

  CudaCopies::Rates median_rates(const std::function<CudaCopies::Rates()>& measure_once, const std::string& name) {
    std::vector<double> up, down;
    for (int i = 0; i < kRepeats; ++i) {
      const CudaCopies::Rates rates = measure_once();
      up.push_back(rates.h2d);
      down.push_back(rates.d2h);
    }
    const Measured h2d = summarise(std::move(up)), d2h = summarise(std::move(down));
    spread(name, std::max(h2d.spread, d2h.spread));
    return {h2d.seconds, d2h.seconds};
  }

  /// AdamW, if there are threads for it, beside copies. (Few threads do not crowd anybody: directly copied, from a quarter
  /// of the cores on.)
  template <class Copies>
  DramSharing sharing(DramSharing shared, Copies& copies, AdamwLoad& adamw, double done) {
    progress_(sharing_name(shared), done);
    double parameters = 0;
    const CudaCopies::Rates rates = copies.beside(shared.h2d, shared.d2h, [&] {
      if (shared.cpu_threads > 0)
        parameters = adamw.run(shared.cpu_threads, kLoadSeconds);
      else
        std::this_thread::sleep_for(std::chrono::duration<double>(kLoadSeconds));
    });
    shared.cpu_bytes_per_second = parameters * profile_.machine.cpu.adamw_bytes_per_parameter;
    shared.h2d_bytes_per_second = rates.h2d;
    shared.d2h_bytes_per_second = rates.d2h;
    return shared;
  }

  // --- the device

  void small_costs() {
    progress_("launches and signals", 0.25);
    const MeasuredRate hbm = measure_hbm(gate_, stream_.get());
    gpu().hbm_bytes_per_second = hbm.per_second;
    spread("hbm", hbm.spread);
    const OpOverhead overhead = measure_op_overhead(gate_, stream_.get());
    gpu().op_launch_seconds = overhead.launch_seconds;
    gpu().op_seconds = overhead.device_seconds;
    const Measured round_trip = measure_round_trip();
    profile_.machine.host_op_seconds = round_trip.seconds;
    spread("host_op", round_trip.spread);
    std::int64_t elements = 0;
    for (const Scenario& scenario : scenarios_)
      elements = std::max(elements, scenario.model.largest_decoder().state_elements);
    measure_device_optimizer(std::min(elements, kMostOptimizerElements), gate_, stream_.get(), tables_);
  }

  void kernels() {
    const double each = 0.65 / static_cast<double>(scenarios_.size());
    for (std::size_t i = 0; i < scenarios_.size(); ++i) {
      const Scenario& scenario = scenarios_[i];
      const double done = 0.3 + each * static_cast<double>(i);
      const std::string name =
          fmt::format("{}, {} x {} tokens", scenario.model.config.name, scenario.micro_batch, scenario.sequence_length);
      progress_(name + ": building", done);
      CudaTemplates templates(scenario.run.deterministic);
      CudaOps ops(scenario, templates, gate_, stream_.get());
      progress_(name + ": bursts", done + 0.2 * each);
      ops.measure_burst(tables_);
      if (i == 0) {
        const Measured launch = ops.launch_per_kernel();
        gpu().launch_seconds = launch.seconds;
        spread("launch", launch.spread);
      }
      if (powered_.insert(scenario.model.config.name).second) {
        progress_(name + ": power by duty", done + 0.4 * each);
        power(ops);
      }
      progress_(name + ": without a pause", done + 0.7 * each);
      ops.measure_sustained(tables_, kSettleSeconds);
    }
    for (const Scenario& scenario : scenarios_) tables_.require_all(scenario);
    tables_.fill(gpu(), profile_.spread);
  }

  /// How a layer goes from its burst to its sustained speed: how fast, and how far where there are pauses.
  void power(CudaOps& ops) {
    const CudaOps::Response response = ops.measure_response(kResponseSeconds);
    const double slowdown = response.full_seconds / response.burst_seconds - 1;
    if (slowdown < kLeastSlowdown) return;
    gpu().power_settle_seconds = response.settle_seconds;
    PowerPoint last;
    for (const double duty : kDuties) {
      const CudaOps::Paced paced = ops.measure_paced(duty, kPacedSeconds);
      const double share = (paced.op_seconds / response.burst_seconds - 1) / slowdown;
      if (paced.duty <= last.duty || paced.duty >= 1) continue;
      last = {paced.duty, std::clamp(share, last.share, 1.0), slowdown};
      gpu().power.push_back(last);
    }
    std::sort(gpu().power.begin(), gpu().power.end(), [](const PowerPoint& a, const PowerPoint& b) {
      return std::pair{a.slowdown, a.duty} < std::pair{b.slowdown, b.duty};
    });
  }

  std::span<const Scenario> scenarios_;
  const CalibrationProgress& progress_;
  const MemoryLimits limits_;
  Gate gate_;
  StreamHandle stream_;
  KernelTables tables_;
  HostRounds rounds_;
  std::set<std::string> powered_;  // models whose power curve is known
  Profile profile_;
};

}  // namespace

Profile calibrate_cuda(std::span<const Scenario> scenarios, const CalibrationProgress& progress) {
  if (const std::string reason = why_no_device(); !reason.empty())
    throw std::runtime_error("calibrate: needs a CUDA device: " + reason);
  PENSTOCK_CUDA(cudaSetDevice(0));
  return CudaCalibration(scenarios, progress).run();
}

}  // namespace penstock::exec
