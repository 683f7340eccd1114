#include "exec/calibrate/host_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/host/templates.h"
#include "exec/numerics/bf16.h"
#include "shared/ir/schedule_names.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kBeyondCaches = std::int64_t{192} << 20;
constexpr std::size_t kMostSets = 24;
constexpr std::size_t kLeastSamples = 9, kMostSamples = 300;
constexpr double kEnoughSeconds = 0.4, kLimitSeconds = 5;  // of one op
constexpr std::int64_t kBlock = 65521;                     // random values, over and over

ElementType gradient_of(const Numerics& numerics) {
  return numerics.sum_on_host ? numerics.gradient_link : numerics.gradient_sum;
}

void fill_random(std::byte* memory, std::int64_t elements, float deviation) {
  std::vector<std::uint16_t> block(static_cast<std::size_t>(std::min(kBlock, elements)));
  const std::uint64_t key = random_key(1, "calibration");
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = round_to_bf16(deviation * random_normal(key, i));
  for (std::int64_t at = 0; at < elements; at += kBlock)
    std::memcpy(memory + 2 * at, block.data(), static_cast<std::size_t>(2 * std::min(kBlock, elements - at)));
}

/// Norms as they are initialised: the layer's activations keep their scale.
void fill_weights(std::byte* memory, const Layer& layer) {
  fill_random(memory, layer.state_elements, 0.02f);
  auto* const weights = reinterpret_cast<std::uint16_t*>(memory);
  for (const ParameterTensor& tensor : layer.tensors)
    if (tensor.name.find("norm") != std::string::npos)
      std::fill_n(weights + tensor.offset, tensor.elements(), round_to_bf16(1.0f));
}

/// A kernel's executions in one op, each taken for their mean: what an op does once for all chunks is shared among
/// them.
std::vector<KernelTime> means(const std::vector<KernelTime>& times) {
  std::vector<KernelTime> result;
  std::vector<double> counts;
  for (const KernelTime& time : times) {
    const auto same = [&](const KernelTime& other) {
      return other.kernel.id == time.kernel.id && other.kernel.accumulates == time.kernel.accumulates;
    };
    const auto found = std::find_if(result.begin(), result.end(), [&](const KernelTime& other) {
      return same(other) && other.kernel.bytes == time.kernel.bytes && other.kernel.flops == time.kernel.flops;
    });
    if (found == result.end()) {
      result.push_back(time);
      counts.push_back(1);
    } else {
      found->seconds += time.seconds;
      ++counts[static_cast<std::size_t>(found - result.begin())];
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) result[i].seconds = std::max(1e-9, result[i].seconds / counts[i]);
  return result;
}

}  // namespace

HostOps::HostOps(const Scenario& scenario)
    : model_(scenario.model),
      rows_(calibration_rows(scenario)),
      layout_{Keep::input, scenario.policy.numerics.chunking, 0} {
  const ElementType gradients[] = {gradient_of(scenario.policy.numerics)};
  ops_ = calibration_ops(scenario, gradients);
  place_operands();
  const std::int64_t sets = std::clamp<std::int64_t>(kBeyondCaches / set_bytes_, 1, kMostSets);
  for (std::int64_t set = 0; set < sets; ++set) {
    sets_.emplace_back(set_bytes_, "calibration");
    fill(sets_.back().data());
    for (const CalibrationOp& op : ops_) run(op, static_cast<std::size_t>(set), nullptr);
  }
}

HostOps::Key HostOps::key(TemplateOperand operand, LayerKind kind) {
  if (operand == TemplateOperand::tied_weights) return {TemplateOperand::weights, LayerKind::embedding};
  return {operand, operand == TemplateOperand::weights ? kind : LayerKind::decoder};
}

void HostOps::place_operands() {
  for (const CalibrationOp& op : ops_)
    for (const OperandUse& use : operand_uses(op.kind, op.pass)) {
      if (!use.is_of(op.batch, model_.config)) continue;
      Place& place = places_[key(use.operand, op.kind)];
      place.bytes = std::max(place.bytes, unbound(op).bytes(use.operand));
    }
  for (auto& [unused, place] : places_) {
    place.offset = set_bytes_;
    set_bytes_ += (place.bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment;
  }
}

void HostOps::fill(std::byte* set) {
  for (const auto& [what, place] : places_) {
    const auto& [operand, kind] = what;
    std::byte* const memory = set + place.offset;
    switch (facts(operand).tensor) {
      case TensorKind::weights: {
        TemplateBinding binding;
        binding.model = &model_;
        binding.kind = kind;
        fill_weights(memory, binding.layer());
        break;
      }
      case TensorKind::tokens:
        for (std::int64_t i = 0; i < place.bytes / 4; ++i)
          reinterpret_cast<std::int32_t*>(memory)[i] = static_cast<std::int32_t>(
              random_below(7, static_cast<std::uint64_t>(i),
                           static_cast<std::uint64_t>(std::min<std::int64_t>(256, model_.config.vocabulary))));
        break;
      case TensorKind::labels: std::memcpy(memory, rows_.labels.data(), static_cast<std::size_t>(place.bytes)); break;
      case TensorKind::document_starts:  // of chunks, up to the last that is run
        std::memcpy(memory, rows_.document_starts.data(), static_cast<std::size_t>(place.bytes));
        break;
      case TensorKind::trained_tokens: *reinterpret_cast<double*>(memory) = static_cast<double>(rows_.trained); break;
      case TensorKind::boundary: fill_random(memory, place.bytes / 2, 1); break;
      case TensorKind::boundary_gradient: fill_random(memory, place.bytes / 2, 1e-3f); break;
      default: break;  // the arena is zero, and ops fill their regions
    }
  }
}

TemplateBinding HostOps::unbound(const CalibrationOp& op) const { return unbound_template(op, model_, layout_); }

TemplateBinding HostOps::bind(const CalibrationOp& op, std::size_t set) {
  TemplateBinding b = unbound(op);
  for (const OperandUse& use : operand_uses(op.kind, op.pass))
    if (use.is_of(op.batch, model_.config) && use.use != Use::may_write && b.bytes(use.operand) > 0)
      b.set(use.operand, sets_[set].data() + places_.at(key(use.operand, op.kind)).offset);
  return b;
}

void HostOps::run(const CalibrationOp& op, std::size_t set, KernelClock* clock) {
  run_template_host(bind(op, set), clock);
}

void HostOps::measure(KernelTables& tables, const std::function<void(const std::string& op, double share)>& progress) {
  KernelClock clock;
  std::size_t set = 0;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const CalibrationOp& op = ops_[i];
    progress(fmt::format("{} {}", layer_kind_names()[static_cast<std::size_t>(op.kind)],
                         pass_names()[static_cast<std::size_t>(op.pass)]),
             static_cast<double>(i) / static_cast<double>(ops_.size()));
    double total = 0;
    for (std::size_t sample = 0; sample < kMostSamples && total < kLimitSeconds; ++sample) {
      if (sample >= kLeastSamples && total >= kEnoughSeconds) break;
      run(op, set++ % sets_.size(), &clock);
      for (const KernelMark& mark : clock.marks()) total += mark.seconds;
      for (const KernelTime& time : means(kernel_times(op.kernels, clock.marks()))) tables.add_burst(time);
    }
  }
}

}  // namespace penstock::exec
