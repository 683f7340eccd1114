#include "sim/cost/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/ir/host_pass_names.h"
#include "shared/machine/pinned_memory.h"
#include "shared/model/kernels.h"
#include "shared/pinned_ring.h"
#include "sim/cost/rates.h"

namespace penstock::sim {
namespace {

bool writes_next_boundary(const Op& op) {
  return std::any_of(op.writes.begin(), op.writes.end(), [&](const Access& access) {
    return access.value.tensor == TensorKind::boundary && access.value.layer == op.layer + 1;
  });
}

bool adds_to_gradient(const Op& op) {
  return std::any_of(op.reads.begin(), op.reads.end(),
                     [](const Access& access) { return access.value.tensor == TensorKind::gradient_sum; });
}

double bytes_of(const std::vector<Access>& accesses) {
  double bytes = 0;
  for (const Access& access : accesses) bytes += static_cast<double>(access.bytes);
  return bytes;
}

/// Of each template what is computed of its kernels, once: a schedule has a dozen templates and tens of thousands of ops.
template <typename T>
class PerTemplate {
 public:
  PerTemplate(const Schedule& schedule, const Model& model, const Software& software)
      : schedule_(schedule), model_(model), recomputes_output_(software.recomputes_output) {}

  /// What `make(kernels)` returned for the op's template.
  template <typename Make>
  const T& of(const Op& op, const Make& make) {
    const auto& work = std::get<TemplateWork>(op.work);
    const bool output = writes_next_boundary(op) || (recomputes_output_ && work.pass == Pass::recompute);
    const std::int64_t window = model_.layers[static_cast<std::size_t>(op.layer)].window;
    const Key key{work.kind, work.pass, work.keep, output, adds_to_gradient(op), op.micro_batch % chunks_, window};
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    const Numerics& numerics = schedule_.numerics;
    const ElementType gradient = numerics.sum_on_host ? numerics.gradient_link : numerics.gradient_sum;
    const std::vector<Kernel> kernels =
        template_kernels(model_, work.kind, work.pass, schedule_.shape_of(op.micro_batch), schedule_.layout(work.keep),
                         std::get<3>(key), std::get<4>(key), element_bytes(gradient), window);
    return made_.emplace(key, make(kernels)).first->second;
  }

 private:
  using Key =
      std::tuple<LayerKind, Pass, Keep, bool, bool, int, std::int64_t>;  // the last: chunk of its sequence, window
  const Schedule& schedule_;
  const int chunks_ = schedule_.chunks();
  const Model& model_;
  const bool recomputes_output_;
  std::map<Key, T> made_;
};

/// Prices ops one by one.
class CostModel {
 public:
  CostModel(const Schedule& schedule, const Model& model, const Machine& machine)
      : schedule_(schedule),
        machine_(machine),
        templates_(schedule, model, machine.software),
        directly_copied_bytes_(directly_copied_bytes(schedule, machine)),
        rings_are_measured_(std::any_of(machine.cpu.sharing.begin(), machine.cpu.sharing.end(),
                                        [](const DramSharing& point) { return point.through_rings; })),
        served_(schedule.lanes.size()) {
    for (const Op& op : schedule.ops)
      if (goes_through_ring(op)) served_[static_cast<std::size_t>(op.lane)] = true;
  }

  OpCost cost(const Op& op) {
    op_ = &op;
    on_gpu_ = is_gpu(schedule_.lanes[op.lane].kind);
    OpCost cost = std::visit([this](const auto& work) { return price(work); }, op.work);
    // A ring's thread waits and signals as host lanes do, whatever it copies.
    const bool served = served_[static_cast<std::size_t>(op.lane)];
    if (!on_gpu_ || machine_.gpu.is_host || served) cost.latency_seconds += machine_.host_op_seconds;
    if (on_gpu_ && !served) {
      cost.launch_seconds += machine_.gpu.op_launch_seconds;
      cost.latency_seconds += machine_.gpu.op_seconds;
    }
    if (machine_.gpu.is_host || served) cost.launch_seconds = 0;  // handing an op to a worker is its host_op_seconds
    return cost;
  }

 private:
  // --- on the GPU

  OpCost price(const TemplateWork&) {
    return templates_.of(*op_, [this](const std::vector<Kernel>& kernels) { return price_kernels(kernels); });
  }

  OpCost price_kernels(const std::vector<Kernel>& kernels) const {
    if (machine_.gpu.hbm_bytes_per_second <= 0) missing("gpu.hbm");
    if (machine_.gpu.matmul_flops_per_second <= 0) missing("gpu.matmul");
    OpCost cost;
    double bytes = 0, launches = 0, sustained = 0;
    for (const Kernel& kernel : kernels) {
      const KernelSeconds seconds = kernel_seconds(machine_.gpu, kernel);
      const double count = static_cast<double>(kernel.count);
      cost.fluid_seconds += count * seconds.burst;
      sustained += count * seconds.sustained;
      bytes += count * static_cast<double>(kernel.bytes);
      launches += count;
    }
    cost.sustained_extra_seconds = std::max(0.0, sustained - cost.fluid_seconds);  // less is noise of the measurement
    cost.launch_seconds = launches * machine_.gpu.launch_seconds + machine_.software.launch_op_seconds;
    if (machine_.gpu.is_host) {
      use(cost, kCores, cost.fluid_seconds);  // one core
      use(cost, kDram, bytes);
    } else {
      use_hbm(cost, bytes);
    }
    return cost;
  }

  /// What caches served does not count: an op that is measured alone runs at its own speed when it is alone.
  void use_hbm(OpCost& cost, double bytes) const {
    use(cost, kHbm, std::min(bytes, cost.fluid_seconds * machine_.gpu.hbm_bytes_per_second));
  }

  /// One kernel that does nothing but move bytes in HBM; none where calibration has none of the kind.
  OpCost hbm_pass(double bytes, std::optional<KernelId> id = std::nullopt) const {
    if (machine_.gpu.hbm_bytes_per_second <= 0) missing("gpu.hbm");
    OpCost cost;
    Kernel kernel;
    kernel.id = id;
    kernel.bytes = static_cast<std::int64_t>(bytes);
    const KernelSeconds seconds = kernel_seconds(machine_.gpu, kernel);
    cost.fluid_seconds = seconds.burst;
    cost.sustained_extra_seconds = std::max(0.0, seconds.sustained - seconds.burst);
    use_hbm(cost, bytes);
    cost.launch_seconds = machine_.gpu.launch_seconds;
    return cost;
  }

  // --- on the host

  /// `traffic` bytes of DRAM on `threads` threads.
  OpCost host_pass(double traffic, HostPassCost pass, int threads) const {
    if (pass.seconds_per_byte <= 0) missing("cpu.dram");
    OpCost cost;
    const double seconds = traffic * pass.seconds_per_byte;
    cost.latency_seconds = pass.fixed_seconds;
    cost.fluid_seconds = seconds;
    cost.traffic = TrafficClass::cpu;
    cost.threads = threads;
    use(cost, kDram, traffic);
    use(cost, kCpuTraffic, traffic);
    use(cost, kCores, seconds * std::min(threads, std::max(1, machine_.cpu.cores)));
    return cost;
  }
  OpCost host_pass(double traffic, int threads, std::string_view name = "") const {
    HostPassCost pass = host_pass_cost(machine_.cpu, name, threads);
    if (const double most = machine_.software.pass_bytes_per_second; most > 0 && pass.seconds_per_byte > 0)
      pass.seconds_per_byte = std::max(pass.seconds_per_byte, 1 / most);
    return host_pass(traffic, pass, threads);
  }
  bool in_hbm() const { return on_gpu_ && !machine_.gpu.is_host; }
  OpCost pass(double traffic, int threads) const { return in_hbm() ? hbm_pass(traffic) : host_pass(traffic, threads); }

  OpCost price(const OptimizerWork& work) const {
    const double elements = static_cast<double>(work.elements);
    const double traffic = elements * optimizer_bytes_per_parameter(schedule_.numerics);
    if (in_hbm()) return hbm_pass(traffic, KernelId::adamw);
    return host_pass(traffic, adamw_cost(machine_.cpu, schedule_.numerics, work.threads), work.threads);
  }
  OpCost price(const AccumulateWork& work) const {
    const Numerics& numerics = schedule_.numerics;
    return in_hbm() ? hbm_pass(accessed())
                    : host_pass(
                          accessed(), work.threads,
                          accumulate_pass_name(numerics.gradient_link, numerics.gradient_sum, !adds_to_gradient(*op_)));
  }
  OpCost price(const FinishGradientWork& work) const {
    const Numerics& numerics = schedule_.numerics;
    return in_hbm()
               ? hbm_pass(accessed(), KernelId::finish_gradient)
               : host_pass(accessed(), work.threads, finish_pass_name(numerics.gradient_sum, numerics.gradient_link));
  }
  OpCost price(const HostPassWork& work) const {
    return host_pass(static_cast<double>(work.traffic_bytes), work.threads);
  }
  OpCost price(const InputWork&) const { return pass(bytes_of(op_->writes), 1); }
  OpCost price(const StepScalarsWork&) const { return fixed(); }
  OpCost price(const ReportWork&) const { return fixed(); }
  OpCost price(const WaitWork&) const { return {}; }

  OpCost fixed() const {
    OpCost cost;
    if (on_gpu_) cost.launch_seconds = machine_.gpu.launch_seconds;
    return cost;
  }
  double accessed() const { return bytes_of(op_->reads) + bytes_of(op_->writes); }

  // --- copies

  TierKind tier(const Access& access) const { return schedule_.tiers[schedule_.buffers[access.buffer].tier].kind; }

  OpCost price(const CopyWork& work) const {
    const TierKind from = tier(op_->reads[0]), to = tier(op_->writes[0]);
    if (from == TierKind::nvme || to == TierKind::nvme) return nvme(from == TierKind::nvme);
    if (from == to) return pass(2 * static_cast<double>(op_->reads[0].bytes), work.threads);
    const bool upload = to == TierKind::hbm;
    const LinkDirection& direction = upload ? machine_.link.h2d : machine_.link.d2h;
    if (direction.bytes_per_second <= 0 && direction.curve.empty()) missing(upload ? "link.h2d" : "link.d2h");
    if (goes_through_ring(*op_)) return ring_copy(upload, direction);
    OpCost cost =
        copy(work, copy_seconds(direction, work.bursts), direction.curve.empty() ? direction.latency_seconds : 0);
    const double bytes = static_cast<double>(op_->reads[0].bytes);
    cost.traffic = upload ? TrafficClass::upload : TrafficClass::download;
    use(cost, upload ? kLinkH2d : kLinkD2h, bytes);
    if (machine_.gpu.is_host) {
      // A memcpy: reads and writes DRAM, with the part of one core that its rate needs.
      use(cost, kDram, 2 * bytes);
      use(cost, kCores, std::min(cost.fluid_seconds, 2 * bytes / dram_rate(machine_.cpu, 1)));
    } else {
      use(cost, kDram, bytes);
      use(cost, kHbm, bytes);
    }
    return cost;
  }

  // --- copies of memory that is not pinned

  static std::int64_t directly_copied_bytes(const Schedule& schedule, const Machine& machine) {
    std::int64_t arena_bytes = 0;
    for (const Buffer& buffer : schedule.buffers)
      if (schedule.tiers[buffer.tier].kind == TierKind::dram)
        arena_bytes = std::max(arena_bytes, buffer.offset_bytes + buffer.bytes);
    return penstock::directly_copied_bytes(arena_bytes, machine);
  }

  /// Is it a GPU lane's copy of host memory that lies behind what is pinned?
  bool goes_through_ring(const Op& op) const {
    if (!machine_.pinned_bytes || !std::holds_alternative<CopyWork>(op.work)) return false;
    const auto is_behind = [this](const Access& access) {
      const Buffer& buffer = schedule_.buffers[access.buffer];
      return schedule_.tiers[buffer.tier].kind == TierKind::dram &&
             buffer.offset_bytes + access.offset_bytes + access.bytes > directly_copied_bytes_;
    };
    const Access &from = op.reads[0], &to = op.writes[0];
    return is_gpu(schedule_.lanes[op.lane].kind) && tier(from) != tier(to) && (is_behind(from) || is_behind(to));
  }

  /// Threads move a piece each between memory and slots while the link moves others: whichever is slower sets the rate.
  /// If that is the link, it waits for the first piece (or the last is moved after it). If it is the threads, one of them,
  /// woken late, ends a piece after the others, and the link moves that one.
  OpCost ring_copy(bool upload, const LinkDirection& direction) const {
    const Access& access = op_->reads[0];
    const auto bytes = static_cast<double>(access.bytes);
    const auto piece = static_cast<double>(ring_piece_bytes(access.bytes));
    const int threads = machine_.gpu.is_host ? 1 : ring_threads(machine_.cpu.cores);
    const LinkDirection& ring = upload ? machine_.link.ring_h2d : machine_.link.ring_d2h;
    const double moving = dram_rate(machine_.cpu, threads) / 2;  // a byte is read and written
    if (moving <= 0) missing("cpu.dram");
    const double on_link = transfer_seconds(direction, piece);
    const double on_host = piece / moving;  // of all threads together
    const double moved = ring.bytes_per_second > 0 ? piece / ring.bytes_per_second : on_host;
    OpCost cost;
    cost.latency_seconds = moved > on_link ? on_link + (threads - 1) * on_host : threads * on_host;
    cost.fluid_seconds = bytes / piece * std::max(on_link, moved);
    if (!ring.curve.empty()) {  // all of it was measured: what its ends take beside the rest is no more than half
      const double seconds = transfer_seconds(ring, bytes);
      cost.latency_seconds = std::min(cost.latency_seconds, seconds / 2);
      cost.fluid_seconds = seconds - cost.latency_seconds;
    }
    use(cost, upload ? kLinkH2d : kLinkD2h, bytes);
    use(cost, kDram, (machine_.gpu.is_host ? kRingDramPasses + 1 : kRingDramPasses) * bytes);
    if (rings_are_measured_)  // beside other copies and threads, where cores are short too
      cost.traffic = upload ? TrafficClass::ring_upload : TrafficClass::ring_download;
    else
      use(cost, kCores, std::min(cost.fluid_seconds, bytes / moving) * threads);
    if (!machine_.gpu.is_host) use(cost, kHbm, bytes);
    return cost;
  }

  /// One range, whatever its bursts: the store cuts it as the drive likes it.
  OpCost nvme(bool reads) const {
    const auto bytes = static_cast<double>(padded_for_drive(op_->reads[0].bytes));
    const double rate = drive_rate(machine_.nvme, reads, bytes);
    if (rate <= 0) missing(reads ? "nvme.read" : "nvme.write");
    OpCost cost;
    cost.latency_seconds = machine_.nvme.latency_seconds;
    cost.fluid_seconds = bytes / rate;
    cost.demand[reads ? kNvmeRead : kNvmeWrite] = 1;
    use(cost, kDram, 2 * bytes);  // moved, and once more for the checksums
    return cost;
  }

  /// The first transfer's latency uses nothing; later ones overlap other traffic and belong to the average rate.
  OpCost copy(const CopyWork& work, double seconds, double latency) const {
    OpCost cost;
    cost.latency_seconds = std::min(latency, seconds);
    cost.fluid_seconds = seconds - cost.latency_seconds;
    if (!on_gpu_) return cost;
    std::int64_t transfers = 0;
    for (const Burst& burst : work.bursts) transfers += burst.count;
    cost.launch_seconds = static_cast<double>(transfers) * machine_.gpu.launch_seconds;
    return cost;
  }

  /// `amount` of a resource, spread evenly over the op's fluid part.
  void use(OpCost& cost, Resource resource, double amount) const {
    if (cost.fluid_seconds > 0) cost.demand[resource] = amount / cost.fluid_seconds;
  }

  [[noreturn]] void missing(const char* figure) const {
    const std::string_view hint =
        std::string_view(figure).starts_with("nvme")
            ? "; a machine's file has a drive's rates in [nvme], and `penstock-exec calibrate "
              "--nvme FOLDER` measures them"
            : "";
    throw InputError(
        fmt::format("{}: {} has no rate, but the op \"{}\" needs one{}", machine_.source, figure, op_->name, hint));
  }

  const Schedule& schedule_;
  const Machine& machine_;
  PerTemplate<OpCost> templates_;
  const std::int64_t directly_copied_bytes_;
  const bool rings_are_measured_;
  std::vector<bool> served_;  // by lane: its copies are a thread's (exec/runtime/served_lane.h), for one needs a ring
  const Op* op_ = nullptr;
  bool on_gpu_ = false;
};

}  // namespace

std::vector<OpCost> op_costs(const Schedule& schedule, const Model& model, const Machine& machine) {
  CostModel costs(schedule, model, machine);
  std::vector<OpCost> result;
  result.reserve(schedule.ops.size());
  for (const Op& op : schedule.ops) result.push_back(costs.cost(op));
  return result;
}

double executed_flops(const Schedule& schedule, const Model& model) {
  PerTemplate<double> templates(schedule, model, {});
  double flops = 0;
  for (const Op& op : schedule.ops)
    if (std::holds_alternative<TemplateWork>(op.work)) flops += templates.of(op, kernel_flops);
  return flops;
}

}  // namespace penstock::sim
