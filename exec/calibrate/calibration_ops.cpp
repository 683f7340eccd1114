#include "exec/calibrate/calibration_ops.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>

#include "exec/calibrate/stopwatch.h"
#include "shared/error.h"
#include "shared/machine/attention_point.h"

namespace penstock::exec {
namespace {

constexpr double kLargeBytes = 64e6;  // beyond the GPU's caches
// What a kernel of so little takes after an idle moment is as much the moment as the kernel: the shorter time counts.
constexpr double kShortSeconds = 20e-6;

/// Each kernel's executions in the order of execution, counts expanded.
class Executions {
 public:
  explicit Executions(const std::vector<Kernel>& listed) {
    for (const Kernel& kernel : listed)
      for (std::int64_t i = 0; i < kernel.count; ++i) {
        by_kernel_[*kernel.id].push_back(kernel);
        by_kernel_[*kernel.id].back().count = 1;
      }
  }

  const Kernel& next(KernelId kernel) {
    const auto found = by_kernel_.find(kernel);
    const std::size_t at = taken_[kernel]++;
    if (found == by_kernel_.end() || at >= found->second.size())
      throw std::logic_error("calibration: the op executed \"" + std::string(kernel_name(kernel)) +
                             "\" more often than is listed");
    return found->second[at];
  }
  /// Throws if a kernel was taken, but not all of it, or not at all.
  void finish() const {
    for (const auto& [kernel, kernels] : by_kernel_) {
      const auto taken = taken_.find(kernel);
      if (taken == taken_.end() || taken->second != kernels.size())
        throw std::logic_error("calibration: the op executed \"" + std::string(kernel_name(kernel)) +
                               "\" less often than is listed");
    }
  }

 private:
  std::map<KernelId, std::vector<Kernel>> by_kernel_;
  std::map<KernelId, std::size_t> taken_;
};

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

/// Of the decoder layers, as far as they hide something.
std::set<std::int64_t> windows_of(const Scenario& scenario) {
  std::set<std::int64_t> windows;
  for (const Layer& layer : scenario.model.layers)
    if (is_decoder(layer.kind)) windows.insert(layer.window < scenario.sequence_length ? layer.window : 0);
  return windows;
}

}  // namespace

TemplateBinding unbound_template(const CalibrationOp& op, const Model& model, const LayoutOptions& layout) {
  TemplateBinding b;
  b.model = &model;
  b.kind = op.kind;
  b.pass = op.pass;
  b.batch = op.batch;
  b.layout = layout;
  b.layout.keep = op.keep;
  b.gradient_type = op.gradient;
  b.accumulates = op.accumulates;
  b.adds_keys = true;
  b.window = op.window;
  b.loss_scale = 1.0 / static_cast<double>(op.batch.tokens());
  return b;
}

std::vector<BatchShape> calibration_shapes(const Scenario& scenario) {
  BatchShape batch = scenario.shape(scenario.micro_batch);
  // What attention is timed on are these rows, not the mean of the file.
  if (batch.kind == BatchKind::packed)
    batch.squared_lengths = squared_lengths(calibration_rows(scenario), batch.sequence_length);
  if (!batch.is_cut()) return {batch};
  std::vector<BatchShape> shapes{chunk_of(batch, 0)};
  if (const auto whole = static_cast<int>(batch.sequence_length / batch.chunk_tokens); whole > 1)
    shapes.push_back(chunk_of(batch, whole - 1));
  return shapes;
}

std::vector<CalibrationOp> calibration_ops(const Scenario& scenario, std::span<const ElementType> gradients) {
  LayoutOptions layout{Keep::input, scenario.policy.numerics.chunking, 0};
  std::vector<CalibrationOp> ops;
  BatchShape batch;
  const std::set<std::int64_t> windows = windows_of(scenario);
  const auto add = [&](LayerKind kind, Pass pass, bool accumulates, ElementType gradient, std::int64_t window) {
    layout.keep = batch.is_cut() && pass == Pass::forward ? Keep::everything : Keep::input;
    ops.push_back({kind, pass, accumulates, gradient, batch, window, layout.keep,
                   template_kernels(scenario.model, kind, pass, batch, layout, false, accumulates,
                                    element_bytes(gradient), window)});
  };
  std::vector<LayerKind> decoders;
  for (const LayerKind kind : {LayerKind::decoder, LayerKind::experts})
    if (scenario.model.has(kind)) decoders.push_back(kind);
  for (const BatchShape& shape : calibration_shapes(scenario)) {
    const bool is_first = ops.empty();  // of chunks, embedding and head are all alike
    batch = shape;
    if (is_first) add(LayerKind::embedding, Pass::forward, false, ElementType::fp32, 0);
    std::vector<std::pair<LayerKind, Pass>> with_gradients;
    for (const LayerKind kind : decoders) {
      for (const std::int64_t window : windows) add(kind, Pass::forward, false, ElementType::fp32, window);
      add(kind, Pass::recompute, false, ElementType::fp32, *windows.begin());
      with_gradients.emplace_back(kind, Pass::backward);
    }
    with_gradients.emplace_back(LayerKind::head, Pass::loss);
    with_gradients.emplace_back(LayerKind::embedding, Pass::backward);
    for (const auto& [kind, pass] : with_gradients)
      for (const ElementType gradient : gradients)
        for (const bool accumulates : {true, false})
          if (is_first || is_decoder(kind)) add(kind, pass, accumulates, gradient, *windows.begin());
    // Another window changes attention alone.
    for (auto window = std::next(windows.begin()); window != windows.end(); ++window)
      add(decoders.front(), Pass::backward, true, gradients.front(), *window);
  }
  return ops;
}

PackedRows calibration_rows(const Scenario& scenario) {
  PackedRows rows;
  if (scenario.rows != BatchKind::packed) return rows;
  if (scenario.data.empty())
    throw InputError(scenario.path.string() +
                     ": [workload] squared_lengths: attention is timed on documents; give the file of tokens, data");
  const TokenFile file(scenario.data, token_format(scenario.data).value(), scenario.model.config.vocabulary);
  constexpr std::uint64_t kSeed = 1;
  RowPacking(file, scenario.sequence_length, kSeed).fill(1, scenario.micro_batch, rows);
  return rows;
}

std::vector<KernelTime> kernel_times(const std::vector<Kernel>& listed, std::span<const KernelMark> marks) {
  Executions executions(listed);
  std::vector<KernelTime> times;
  for (const KernelMark& mark : marks) times.push_back({executions.next(mark.kernel), mark.seconds});
  executions.finish();
  return times;
}

void take_off_marks(std::vector<KernelMark>& marks, double op_seconds) {
  double sum = 0;
  for (const KernelMark& mark : marks) sum += mark.seconds;
  if (marks.empty()) return;
  const double each = std::clamp((sum - op_seconds) / static_cast<double>(marks.size()), 0.0, kMostMarkSeconds);
  for (KernelMark& mark : marks) mark.seconds = std::max(mark.seconds - each, mark.seconds / 4);
}

KernelTables::Key KernelTables::key(const Kernel& k) {
  switch (k.kind) {
    case KernelKind::matmul: return {k.kind, k.id, k.m, k.n, k.k, k.output_bytes, k.accumulates ? 1 : 0, 0, 0};
    case KernelKind::elementwise: return {k.kind, k.id, k.bytes, 0, 0, 0, 0, 0, 0};
    case KernelKind::attention_forward:
    case KernelKind::attention_backward: break;
  }
  const AttentionSpec& a = k.attention;
  const std::int64_t behind = a.is_chunk ? 2 * (a.past + 1) : 0;
  return {k.kind,  std::nullopt, a.sequences, a.length,
          a.heads, a.kv_heads,   a.head_dim,  behind + static_cast<int>(a.rows),
          a.window};
}

KernelTables::Entry& KernelTables::entry(const Kernel& kernel) {
  Entry& entry = entries_[key(kernel)];
  entry.kernel = kernel;
  return entry;
}

void KernelTables::require_all(const Scenario& scenario) const {
  const BatchShape batch = chunk_of(scenario.shape(scenario.micro_batch), 0);
  const Numerics& numerics = scenario.policy.numerics;
  const std::int64_t gradient = element_bytes(numerics.sum_on_host ? numerics.gradient_link : numerics.gradient_sum);
  const std::set<std::int64_t> windows = windows_of(scenario);
  for (const LayerKind kind : kLayerKinds)
    for (const Pass pass : kAllPasses)
      for (const Keep keep : kKeeps)
        for (const bool writes_output : {false, true})
          for (const bool accumulates : {false, true})
            for (const std::int64_t window : windows) {
              if (!scenario.model.has(kind) || operand_uses(kind, pass).empty()) continue;
              for (const Kernel& kernel :
                   template_kernels(scenario.model, kind, pass, batch, {keep, numerics.chunking, 0}, writes_output,
                                    accumulates, gradient, window))
                if (!has(kernel))
                  throw std::logic_error("calibration: nobody timed the kernel \"" + std::string(kernel.name()) + "\"");
            }
}

void KernelTables::fill(Gpu& gpu, std::map<std::string, double>& spread) const {
  gpu.matmuls.clear();
  gpu.attentions.clear();
  gpu.elementwise.clear();
  gpu.matmul_flops_per_second = gpu.matmul_burst_flops_per_second = 0;
  std::vector<double> efficiencies;
  for (const auto& [unused, entry] : entries_) {
    const Kernel& k = entry.kernel;
    Measured burst = summarise(entry.burst);
    const bool sustained_known = !entry.sustained.empty();
    const Measured sustained = sustained_known ? summarise(entry.sustained) : burst;
    if (burst.seconds < kShortSeconds) burst.seconds = std::min(burst.seconds, sustained.seconds);
    const double sustained_seconds = sustained_known ? sustained.seconds : 0;
    double& widest = spread[std::string(k.name())];
    widest = std::max({widest, burst.spread, sustained.spread});
    if (k.kind == KernelKind::matmul) {
      gpu.matmuls.push_back(
          {k.m, k.n, k.k, k.accumulates, burst.seconds, k.id, k.output_bytes, sustained_seconds, k.groups});
      gpu.matmul_burst_flops_per_second = std::max(gpu.matmul_burst_flops_per_second, rate(k.flops, burst.seconds));
      gpu.matmul_flops_per_second = std::max(gpu.matmul_flops_per_second, rate(k.flops, sustained.seconds));
    } else if (k.kind == KernelKind::elementwise) {
      const double bytes = static_cast<double>(k.bytes);
      gpu.elementwise.push_back({k.id, bytes, burst.seconds, sustained_seconds});
      if (bytes >= kLargeBytes && k.name().find("embedding") == std::string_view::npos)
        efficiencies.push_back(rate(bytes, burst.seconds) / gpu.hbm_bytes_per_second);
    } else {
      const bool backward = k.kind == KernelKind::attention_backward;
      auto point = std::find_if(gpu.attentions.begin(), gpu.attentions.end(),
                                [&](const AttentionPoint& p) { return spec_of(p) == k.attention; });
      if (point == gpu.attentions.end()) {
        const AttentionSpec& a = k.attention;
        point = gpu.attentions.insert(point, {a.sequences, a.length, a.heads, a.kv_heads, a.head_dim});
        point->squared_lengths = a.squared_lengths;
        if (a.is_chunk) point->past = a.past;
        point->window = a.window;
      }
      (backward ? point->backward_seconds : point->forward_seconds) = burst.seconds;
      (backward ? point->backward_sustained_seconds : point->forward_sustained_seconds) = sustained_seconds;
    }
  }
  // Noise must not make a GPU faster without a pause than in a burst.
  gpu.matmul_flops_per_second = std::min(gpu.matmul_flops_per_second, gpu.matmul_burst_flops_per_second);
  if (!efficiencies.empty())
    gpu.elementwise_efficiency = std::clamp(summarise(std::move(efficiencies)).seconds, 0.05, 1.0);
}

}  // namespace penstock::exec
