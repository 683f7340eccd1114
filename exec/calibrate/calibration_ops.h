// Which template ops calibration runs for a scenario, and what their kernels' times become in the profile. Nothing here
// needs a device.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "exec/runtime/binding.h"
#include "exec/runtime/kernel_mark.h"
#include "shared/data/packing.h"
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
  BatchShape batch;
  std::int64_t window = 0;  // of the layer
  Keep keep = Keep::input;
  std::vector<Kernel> kernels;  // as template_kernels lists them
};

/// What ops are run on: the scenario's micro-batch; where its sequences are cut, a sequence's first chunk, and its last
/// whole one, whose attention takes longest.
std::vector<BatchShape> calibration_shapes(const Scenario& scenario);

/// Ops that together execute every kernel that a schedule with the scenario's model, micro-batch and chunks can have,
/// whatever the policy keeps and in whichever of the types gradients are summed. Everything is recomputed
/// (Keep::input); forward of a chunk keeps it nevertheless, for only then are its queries split off.
std::vector<CalibrationOp> calibration_ops(const Scenario& scenario, std::span<const ElementType> gradients);

/// What the op runs, without its operands. `model` must outlive the binding.
TemplateBinding unbound_template(const CalibrationOp& op, const Model& model, const LayoutOptions& layout);

/// The labels and document starts of a micro-batch, where the scenario's rows are packed; else nothing. They are those
/// of the first step, so that attention is timed on documents as long as the file's.
PackedRows calibration_rows(const Scenario& scenario);

struct KernelTime {
  Kernel kernel;  // one execution
  double seconds = 0;
};

/// Finds the listed kernel of each mark: the i-th mark of a kernel is its i-th execution. Throws std::logic_error
/// naming the kernel that the op executed otherwise than it is listed.
std::vector<KernelTime> kernel_times(const std::vector<Kernel>& listed, std::span<const KernelMark> marks);

/// Takes times from each kernel so that together they are `op_seconds`, what the op took without marks: every mark
/// costs the GPU the same, at most kMostMarkSeconds.
inline constexpr double kMostMarkSeconds = 5e-6;
void take_off_marks(std::vector<KernelMark>& marks, double op_seconds);

/// Collects times of kernels and makes tables of their medians.
class KernelTables {
 public:
  void add_burst(const KernelTime& time) { entry(time.kernel).burst.push_back(time.seconds); }
  void add_sustained(const KernelTime& time) { entry(time.kernel).sustained.push_back(time.seconds); }
  bool has(const Kernel& kernel) const { return entries_.contains(key(kernel)); }
  /// Throws std::logic_error naming a kernel that a schedule of the scenario can have and nobody timed.
  void require_all(const Scenario& scenario) const;

  /// Sets matmuls, attentions, elementwise, both matmul rates (the largest of any shape) and the elementwise
  /// efficiency against gpu.hbm_bytes_per_second; spread by kernel name, the largest of its points.
  /// REQUIRES: a burst time of every kernel. Sustained times may be missing.
  void fill(Gpu& gpu, std::map<std::string, double>& spread) const;

 private:
  using Key = std::tuple<KernelKind, std::optional<KernelId>, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int64_t>;
  struct Entry {
    Kernel kernel;
    std::vector<double> burst, sustained;
  };
  static Key key(const Kernel& kernel);
  Entry& entry(const Kernel& kernel);

  std::map<Key, Entry> entries_;
};

}  // namespace penstock::exec
