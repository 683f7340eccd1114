#include "sim/planner/step_bound.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "shared/model/kernels.h"
#include "shared/policy/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/rates.h"
#include "sim/engine/power.h"
#include "sim/planner/step_traffic.h"

namespace penstock::sim {
namespace {

class BoundCounter {
 public:
  BoundCounter(const Plan& plan, const Machine& machine)
      : plan_(plan), machine_(machine), traffic_(step_traffic(plan)) {}

  StepBound bound() {
    count_visits();
    count_gpu_passes();
    count_host();
    return result();
  }

 private:
  double m() const { return static_cast<double>(plan_.micro_batches); }
  bool on_host() const { return plan_.parameters.numerics.sum_on_host; }
  std::int64_t window(int layer) const { return plan_.model.layers[static_cast<std::size_t>(layer)].window; }

  std::int64_t gradient_element_bytes() const {
    const Numerics& numerics = plan_.parameters.numerics;
    return element_bytes(on_host() ? numerics.gradient_link : numerics.gradient_sum);
  }

  /// Something for each kind of pass over a layer: there are a dozen and thousands of visits.
  template <typename Value>
  class PerPass {
   public:
    /// `make()` the first time.
    template <typename Make>
    const Value& get(const Layer& layer, Keep keep, Pass pass, bool writes_output, bool accumulates, const Make& make) {
      const auto at = [](auto value) { return static_cast<std::size_t>(value); };
      std::optional<Value>& value =
          values_[at(layer.kind)][at(layer.window > 0)][at(keep)][at(pass)][at(writes_output)][at(accumulates)];
      if (!value) value = make();
      return *value;
    }

   private:
    std::optional<Value> values_[kLayerKinds.size()][2][kKeeps.size()][kAllPasses.size()][2]
                                [2];  // by LayerKind, window, Keep, Pass
  };

  struct Seconds {
    double burst = 0, extra = 0;
    double at(double share) const { return burst + share * extra; }
  };
  /// Of one pass of a micro-batch over a layer.
  struct PassSeconds {
    double sustained = 0;
    Seconds seconds;
  };

  const PassSeconds& pass_seconds(int layer, Pass pass, bool writes_output, bool accumulates) {
    return passes_.get(plan_.model.layers[static_cast<std::size_t>(layer)], plan_.keep(layer), pass, writes_output,
                       accumulates, [&] {
                         PassSeconds sum;
                         for (const Kernel& kernel : kernels(layer, pass, writes_output, accumulates)) {
                           const auto count = static_cast<double>(kernel.count);
                           const KernelSeconds one = kernel_seconds(machine_.gpu, kernel);
                           sum.sustained += count * one.sustained;
                           sum.seconds.burst += count * std::min(one.burst, one.sustained);
                           sum.seconds.extra += count * std::max(0.0, one.sustained - one.burst);
                         }
                         sum.sustained /= chunks();
                         sum.seconds.burst /= chunks();
                         sum.seconds.extra /= chunks();
                         return sum;
                       });
  }
  double template_seconds(int layer, Pass pass, bool writes_output, bool accumulates) {
    return pass_seconds(layer, pass, writes_output, accumulates).sustained;
  }
  /// The cheaper of overwriting gradients and adding to them.
  Seconds least_seconds(int layer, Pass pass, bool writes_output) {
    const Seconds overwriting = pass_seconds(layer, pass, writes_output, false).seconds;
    const Seconds adding = pass_seconds(layer, pass, writes_output, true).seconds;
    return adding.at(1) < overwriting.at(1) ? adding : overwriting;
  }

  double chunks() const { return static_cast<double>(plan_.chunks); }
  /// Of a micro-batch, or of all chunks of a sequence.
  std::vector<Kernel> kernels(int layer, Pass pass, bool writes_output, bool accumulates) const {
    std::vector<Kernel> all;
    for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
      const std::vector<Kernel> of_chunk =
          template_kernels(plan_.model, plan_.kind(layer), pass, plan_.shape(chunk), plan_.layout(layer), writes_output,
                           accumulates, gradient_element_bytes(), window(layer));
      all.insert(all.end(), of_chunk.begin(), of_chunk.end());
    }
    return all;
  }

  /// Every group makes the same visits; together they see each micro-batch once.
  void count_visits() {
    const std::vector<Visit>& visits = plan_.visits;
    for (std::size_t begin = 0, end = 0; begin < visits.size(); begin = end) {
      for (end = begin + 1; end < visits.size() && compute_the_same(visits[begin], visits[end]);) ++end;
      count_compute(visits[begin], end - begin);
    }
  }

  bool compute_the_same(const Visit& a, const Visit& b) const {
    return a.kind == b.kind && a.writes_output == b.writes_output && plan_.kind(a.layer) == plan_.kind(b.layer) &&
           window(a.layer) == window(b.layer) && plan_.keep(a.layer) == plan_.keep(b.layer) &&
           plan_.trains(a.layer) == plan_.trains(b.layer);
  }

  /// `count` visits like this one: to the sum of all, and to the decoder layers of a phase or what is outside of both.
  /// One is added after the other, since a product would be another number in the last bits.
  void count_compute(const Visit& visit, std::size_t count) {
    std::array<double, 3> compute;  // at most a recompute and a backward pass of two parts
    std::array<Seconds, 2> of_micro_batch;
    std::size_t parts = 0, passes = 0;
    const auto phase_pass = [&](Pass of) {
      of_micro_batch[passes++] = least_seconds(visit.layer, of, visit.writes_output);
    };
    const auto run = [&](Pass of, bool writes_output) {
      compute[parts++] = m() * template_seconds(visit.layer, of, writes_output, false);
      phase_pass(of);
    };
    const auto run_backward = [&](Pass of) {
      const double overwrites = on_host() ? m() : 1;
      compute[parts++] = overwrites * template_seconds(visit.layer, of, false, false);
      compute[parts++] = (m() - overwrites) * template_seconds(visit.layer, of, false, true);
      phase_pass(of);
    };
    Seconds* phase = &outside_;
    switch (visit.kind) {
      case VisitKind::forward:
        run(Pass::forward, true);
        if (visit.layer > 0) phase = &forward_;
        break;
      case VisitKind::loss: run_backward(plan_.loss_pass()); break;
      case VisitKind::embedding_backward: run_backward(Pass::backward); break;
      case VisitKind::recompute:
        run(Pass::recompute, visit.writes_output);
        phase = &backward_;
        break;
      case VisitKind::redo_backward: run(Pass::recompute, visit.writes_output); [[fallthrough]];
      case VisitKind::backward:
        run_backward(plan_.backward_pass(visit.layer));
        phase = &backward_;
        break;
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t part = 0; part < parts; ++part) bound_.compute += compute[part];
      for (std::size_t pass = 0; pass < passes; ++pass) {
        phase->burst += of_micro_batch[pass].burst;
        phase->extra += of_micro_batch[pass].extra;
      }
    }
  }

  bool travels(int layer) const { return plan_.activations(layer) != TierKind::hbm; }
  double update_traffic() const { return optimizer_bytes_per_parameter(plan_.parameters.numerics); }

  /// Layer after layer, as for visits.
  void count_gpu_passes() {
    const auto add = [&](const Plan::Range& run, double seconds) {
      for (int layer = run.first; layer <= run.last; ++layer) bound_.compute += seconds;
    };
    if (!on_host())
      for (const Plan::Range& run : plan_.alike)
        if (plan_.trains(run.first)) add(run, hbm_pass_seconds(static_cast<double>(finish_bytes(plan_, run.first))));
    for (const Plan::Range& run : plan_.alike)
      if (const std::int64_t elements = gpu_resident_elements(plan_, run.first); elements > 0)
        add(run, hbm_update_seconds(static_cast<double>(elements) * update_traffic()));
  }

  void count_host() {
    const int threads = plan_.optimizer_threads;
    const double update_bytes = static_cast<double>(traffic_.host_elements) * update_traffic();
    const double sum_bytes = static_cast<double>(traffic_.host_sum_bytes);
    const double pass_bytes = static_cast<double>(traffic_.host_pass_bytes);
    if (traffic_.host_elements > 0)
      bound_.cpu = update_bytes * adamw_cost(machine_.cpu, plan_.parameters.numerics, threads).seconds_per_byte;
    const double dram = best_host_rate(machine_.cpu, threads);
    if (dram > 0) bound_.cpu = std::max(bound_.cpu + pass_bytes / dram, sum_bytes / dram);
    dram_bytes_ = update_bytes + pass_bytes + sum_bytes;
  }

  double hbm_pass_seconds(double bytes) const {
    if (machine_.gpu.is_host) return 0;  // a host pass there; none counted is a bound too
    return bytes / (machine_.gpu.hbm_bytes_per_second * machine_.gpu.elementwise_efficiency);
  }
  /// AdamW may have points of its own, which are not to be passed.
  double hbm_update_seconds(double bytes) const {
    if (machine_.gpu.is_host) return 0;
    Kernel kernel;
    kernel.id = KernelId::adamw;
    kernel.bytes = static_cast<std::int64_t>(bytes);
    return std::min(hbm_pass_seconds(bytes), kernel_seconds(machine_.gpu, kernel).burst);
  }

  /// Bytes of weights that a phase of every group must load: all that its ring did not hold before.
  double loads_of_phase() const {
    int streamed = 0;
    for (const auto& [layer, last] : plan_.alike)
      if (!plan_.is_edge(layer) && !plan_.weights_resident(layer)) streamed += last - layer + 1;
    return static_cast<double>(std::max(0, streamed - plan_.parameters.weight_buffers)) *
           static_cast<double>(plan_.smallest_weight_bytes());
  }

  /// What the phases of a group move besides weights, of one micro-batch, and how far it may run ahead.
  struct Travelling {
    double layers_bytes = 0, most_kept = 0, most_input = 0;
    double kv = 0;  // of a slot for keys and values, of which there are two
    bool inputs_alone = false;
  };
  Travelling travelling() const {
    Travelling found;
    for (const auto& [first, last] : plan_.kept_alike()) {
      if (!travels(first)) continue;
      const auto mean = [&](auto bytes_of) {
        return static_cast<double>(sum_over_sequence(plan_, bytes_of)) / chunks();
      };
      const double kept = mean([&, first = first](int m) { return plan_.kept(first, m) + plan_.kv_bytes(m); });
      // Of blocks: kept alone.
      const double input =
          first == last || plan_.is_checkpoint(first + 1) ? mean([&](int m) { return plan_.boundary_of(m); }) : 0.0;
      found.layers_bytes += (last - first + 1) * (kept + input);
      found.most_kept = std::max(found.most_kept, kept);
      found.most_input = std::max(found.most_input, input);
      found.kv = std::max(found.kv, static_cast<double>(plan_.kv_bytes_of_sequence()));
      found.inputs_alone |= kept == 0;
    }
    return found;
  }

  /// One after the other, each phase at its own slowest part. Forward may run ahead of what leaves by the slots of the
  /// ring, what comes back may run ahead of backward likewise.
  double phases_seconds(double share, double up_rate, double down_rate) const {
    struct Phases {
      double forward, backward;
    };
    const auto phases = [&](const Group& group) -> Phases {
      const double count = static_cast<double>(group.count);
      const double ahead = plan_.parameters.activation_slots + (travelling_.inputs_alone ? count + 1 : 1);
      const double bytes =
          std::max(0.0, count * travelling_.layers_bytes - ahead * (travelling_.most_kept + travelling_.most_input) -
                            2 * travelling_.kv);
      return {std::max({count * forward_.at(share), bytes / down_rate, loads_ / up_rate}),
              std::max(count * backward_.at(share), (bytes + loads_) / up_rate)};
    };
    // All groups but the first are alike.
    const Phases first = phases(plan_.groups.front()), other = phases(plan_.groups.back());
    double seconds = m() * outside_.at(share);
    for (std::size_t group = 0; group < plan_.groups.size(); ++group) {
      seconds += (group == 0 ? first : other).forward;
      seconds += (group == 0 ? first : other).backward;
    }
    return seconds;
  }

  /// The step T must be no less than its phases at the share of the way to sustained that T implies. Without a measured
  /// curve the share is the duty, and busy = burst + busy / T x extra; with one, it is no less than at burst / T.
  double phases_bound(double up_rate, double down_rate) {
    travelling_ = travelling();
    loads_ = loads_of_phase();
    const double burst = m() * (outside_.burst + forward_.burst + backward_.burst);
    const double extra = m() * (outside_.extra + forward_.extra + backward_.extra);
    const auto share = [&](double step) {
      if (machine_.gpu.power.empty()) return step > burst + extra ? burst / (step - extra) : 1.0;
      return least_power_share(machine_.gpu.power, std::min(1.0, burst / step));
    };
    double high = phases_seconds(1, up_rate, down_rate), low = phases_seconds(0, up_rate, down_rate);
    for (int i = 0; i < 24 && high - low > 1e-6 * high; ++i) {
      const double middle = (low + high) / 2;
      (phases_seconds(share(middle), up_rate, down_rate) > middle ? low : high) = middle;
    }
    return low;
  }

  StepBound result() {
    const double up = static_cast<double>(traffic_.h2d + traffic_.ring_h2d);
    const double down = static_cast<double>(traffic_.d2h);
    const double nvme_read = static_cast<double>(traffic_.nvme_read + traffic_.ring_nvme_read);
    const double nvme_write = static_cast<double>(traffic_.nvme_write);
    const Capacities capacities = machine_capacities(machine_, 2 * plan_.optimizer_threads);
    const ResourceVector most = capacities.largest();
    double up_duplex = 0, down_duplex = 0;
    for (int threads = 0; threads <= capacities.max_threads(); ++threads) {
      const ResourceVector& both = capacities.when(CopyWay::direct, CopyWay::direct, threads);
      up_duplex = std::max(up_duplex, both[kLinkH2d]);
      down_duplex = std::max(down_duplex, both[kLinkD2h]);
    }
    bound_.phases = phases_bound(most[kLinkH2d], most[kLinkD2h]);
    bound_.h2d = up / most[kLinkH2d];
    bound_.d2h = down / most[kLinkD2h];
    if (plan_.parameters.copy_lanes == CopyLanes::shared) {
      bound_.link = bound_.h2d + bound_.d2h;
    } else {
      const double together = std::min(up / up_duplex, down / down_duplex);
      bound_.link = together + std::max(0.0, (up - together * up_duplex) / most[kLinkH2d]) +
                    std::max(0.0, (down - together * down_duplex) / most[kLinkD2h]);
    }
    const Nvme& drive = machine_.nvme;
    if (drive.read_bytes_per_second > 0) bound_.nvme_read = nvme_read / drive.read_bytes_per_second;
    if (drive.write_bytes_per_second > 0) bound_.nvme_write = nvme_write / drive.write_bytes_per_second;
    bound_.nvme = capacities.nvme_seconds(bound_.nvme_read, bound_.nvme_write);
    const double per_copied_byte = machine_.gpu.is_host ? 2 : 1;
    bound_.dram = (dram_bytes_ + nvme_read + nvme_write + per_copied_byte * (up + down)) / most[kDram];
    return bound_;
  }

  const Plan& plan_;
  const Machine& machine_;
  StepTraffic traffic_;
  PerPass<PassSeconds> passes_;
  StepBound bound_;
  Seconds forward_, backward_, outside_;
  Travelling travelling_;
  double loads_ = 0;       // loads_of_phase()
  double dram_bytes_ = 0;  // of host ops
};

}  // namespace

double StepBound::seconds() const {
  return std::max({compute, h2d, d2h, link, cpu, nvme_read, nvme_write, nvme, dram, phases});
}

const char* StepBound::binding() const {
  const double most = seconds();
  if (compute == most) return "compute";
  if (cpu == most) return "cpu";
  if (dram == most) return "dram";
  if (nvme_read == most) return "nvme read";
  if (nvme_write == most) return "nvme write";
  if (nvme == most) return "nvme, both directions";
  if (h2d == most) return "link h2d";
  if (d2h == most) return "link d2h";
  if (phases == most) return "link, within a phase";
  return "link, both directions";
}

StepBound step_bound(const PolicyInput& input, const Machine& machine) {
  check_policy_input(input);
  const Plan plan(input);
  return BoundCounter(plan, machine).bound();
}

}  // namespace penstock::sim
