// Which template ops calibration runs for a scenario, and what their kernels' times become in the profile. Nothing here
// needs a device.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"
#include "shared/model/kernels.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

struct CalibrationOp {
  LayerKind kind = LayerKind::decoder;
  Pass pass = Pass::forward;
  bool accumulates = true;
  ElementType gradient = ElementType::fp32;
  std::vector<Kernel> kernels;  // as template_kernels lists them
};

/// Ops that together execute every kernel that a schedule with the scenario's model, micro-batch and chunks can have,
/// whatever the policy keeps and in whichever type gradients are summed. Everything is recomputed (Keep::input).
std::vector<CalibrationOp> calibration_ops(const Scenario& scenario);

struct NamedTime {
  std::string_view name;
  double seconds = 0;
};

struct KernelTime {
  Kernel kernel;  // one execution
  double seconds = 0;
};

/// Finds the kernel of each mark (exec/cuda/kernel_marks.h): the i-th mark of a name is the i-th execution of the
/// kernels with that name. Throws std::logic_error where the op executed other kernels than were listed.
std::vector<KernelTime> kernel_times(const std::vector<Kernel>& listed, std::span<const NamedTime> marks);

/// Takes times from each kernel so that together they are `op_seconds`, what the op took without marks: every mark
/// costs the GPU the same, at most kMostMarkSeconds.
inline constexpr double kMostMarkSeconds = 5e-6;
void take_off_marks(std::vector<NamedTime>& marks, double op_seconds);

/// Collects times of kernels and makes tables of their medians.
class KernelTables {
 public:
  void add_burst(const KernelTime& time) { entry(time.kernel).burst.push_back(time.seconds); }
  void add_sustained(const KernelTime& time) { entry(time.kernel).sustained.push_back(time.seconds); }
  bool has(const Kernel& kernel) const { return entries_.contains(key(kernel)); }

  /// Sets matmuls, attentions, elementwise, both matmul rates (the largest of any shape) and the elementwise
  /// efficiency against gpu.hbm_bytes_per_second; spread by kernel name, the largest of its points.
  /// REQUIRES: a burst time of every kernel. Sustained times may be missing.
  void fill(Gpu& gpu, std::map<std::string, double>& spread) const;

 private:
  using Key = std::tuple<KernelKind, std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t>;
  struct Entry {
    Kernel kernel;
    std::vector<double> burst, sustained;
  };
  static Key key(const Kernel& kernel);
  Entry& entry(const Kernel& kernel);

  std::map<Key, Entry> entries_;
};

}  // namespace penstock::exec
