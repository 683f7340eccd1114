#include "exec/calibrate/cuda_ops.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "exec/numerics/bf16.h"
#include "exec/runtime/recorder.h"
#include "shared/model/library_workspace.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

constexpr ElementType kBothGradients[] = {ElementType::fp32, ElementType::bf16};
constexpr auto kIdle = std::chrono::milliseconds(250);
constexpr auto kRest = std::chrono::milliseconds(25);  // the power limit forgets, clocks stay up
constexpr double kBurstSeconds = 0.15;                 // of one op's samples
constexpr double kSustainedSeconds = 4;                // of the rounds in which ops are timed
constexpr std::size_t kMostGated = 250;  // commands behind a closed gate; the queue holds about a thousand
constexpr std::size_t kSmooth = 5;
constexpr double kMostResponses = 2000;
constexpr std::size_t kTimedLayers = 4;  // of a micro-batch
constexpr int kLeastSamples = 2, kMostSamples = 7, kMostRounds = 9;

double seconds_since(std::int64_t start) { return static_cast<double>(now_ns() - start) * 1e-9; }

/// bf16 at random: a block of a length coprime to row lengths, over and over.
void fill_random(const DeviceMemory& memory, std::int64_t elements, float deviation) {
  constexpr std::int64_t kBlock = 1000003;
  std::vector<std::uint16_t> block(static_cast<std::size_t>(std::min(kBlock, elements)));
  const std::uint64_t key = random_key(1, "calibration");
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = round_to_bf16(deviation * random_normal(key, i));
  for (std::int64_t at = 0; at < elements; at += kBlock) {
    const auto bytes = static_cast<std::size_t>(2 * std::min(kBlock, elements - at));
    if (at == 0)
      PENSTOCK_CUDA(cudaMemcpy(memory.data(), block.data(), bytes, cudaMemcpyHostToDevice));
    else
      PENSTOCK_CUDA(cudaMemcpyAsync(memory.data() + 2 * at, memory.data(), bytes, cudaMemcpyDeviceToDevice, nullptr));
  }
  PENSTOCK_CUDA(cudaStreamSynchronize(nullptr));
}

DeviceMemory random_memory(std::int64_t elements, float deviation) {
  DeviceMemory memory(2 * elements);
  fill_random(memory, elements, deviation);
  return memory;
}

}  // namespace

CudaOps::CudaOps(const Scenario& scenario, CudaTemplates& templates, Gate& gate, cudaStream_t stream)
    : model_(scenario.model),
      shapes_(calibration_shapes(scenario)),
      batch_(shapes_.front()),
      layout_{Keep::input, scenario.policy.numerics.chunking,
              library_workspace_bytes(scenario.model, batch_, scenario.run.deterministic)},
      templates_(templates),
      gate_(gate),
      stream_(stream) {
  for (CalibrationOp& op : calibration_ops(scenario, kBothGradients)) ops_.push_back({std::move(op), {}, 0, true});
  take_memory();
  take_rows(calibration_rows(scenario));
  const AttentionPiece piece = attention_backward_piece(model_, batch_, scenario.run.deterministic);
  const auto calls = static_cast<std::size_t>((batch_.sequences + piece.sequences - 1) / piece.sequences *
                                              ((model_.config.kv_heads + piece.kv_groups - 1) / piece.kv_groups));
  for (TimedOp& op : ops_) {
    op.binding = bind(op.op);
    for (const Kernel& kernel : op.op.kernels) op.executions += static_cast<std::size_t>(kernel.count);
    op.gated = op.executions + 4 * calls <= kMostGated;
    if (op.op.kind == model_.largest_decoder().kind && op.op.batch.past == batch_.past) {
      if (op.op.pass == Pass::forward) forward_ = &op;
      if (op.op.pass == Pass::recompute) recompute_ = &op;
      if (op.op.pass == Pass::backward && op.op.accumulates && op.op.gradient == ElementType::fp32) backward_ = &op;
    }
    run(op);
    synchronize();
  }
}

void CudaOps::take_memory() {
  const std::int64_t boundary = boundary_bytes(model_, batch_) / 2;
  embedding_ = random_memory(model_.layers.front().state_elements, 0.02f);
  head_ = random_memory(model_.layers.back().state_elements, 0.02f);
  fill_weights(model_.layers.back(), head_);
  input_ = random_memory(boundary, 1);
  output_gradient_ = random_memory(boundary, 1e-3f);
  output_ = DeviceMemory(2 * boundary);
  input_gradient_ = DeviceMemory(2 * boundary);
  std::int64_t workspace = 0, gradient = 0, kept = 0, recomputed = 0;
  for (const TimedOp& op : ops_) {
    LayoutOptions layout = layout_;
    layout.keep = op.op.keep;
    workspace = std::max(workspace, workspace_region(model_, op.op.kind, op.op.pass, batch_, layout).bytes);
    kept = std::max(kept, kept_region(model_, op.op.kind, batch_, layout).bytes);
  }
  for (const Layer& layer : model_.layers) {
    gradient = std::max(gradient, 4 * layer.gradient_elements);
    if (!is_decoder(layer.kind) || decoders_.contains(layer.kind)) continue;
    fill_weights(layer, decoders_[layer.kind] = random_memory(layer.state_elements, 0.02f));
    recomputed = std::max(recomputed, recomputed_region(model_, layer.kind, batch_, layout_).bytes);
  }
  kept_ = DeviceMemory(kept);
  recomputed_ = DeviceMemory(recomputed);
  workspace_ = DeviceMemory(workspace);
  gradient_ = DeviceMemory(gradient);
  gradient_.fill(0);
  loss_ = DeviceMemory(8 * loss_numbers(model_.config));
  if (batch_.is_cut()) {
    const std::int64_t keys = kv_elements(model_, shapes_.back().past + shapes_.back().tokens());
    kv_ = random_memory(keys, 1);
    kv_gradient_ = DeviceMemory(4 * keys);
    kv_gradient_.fill(0);
  }
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch_.sequences * batch_.token_row()));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(random_below(7, i, static_cast<std::uint64_t>(model_.config.vocabulary)));
  tokens_ = DeviceMemory(static_cast<std::int64_t>(4 * tokens.size()));
  tokens_.upload(tokens.data(), tokens_.bytes());
}

void CudaOps::take_rows(const PackedRows& rows) {
  if (batch_.kind != BatchKind::packed) return;
  const double trained = static_cast<double>(rows.trained);
  labels_ = DeviceMemory(4 * batch_.tokens());
  labels_.upload(rows.labels.data(), labels_.bytes());
  document_starts_ = DeviceMemory(4 * (shapes_.back().past + shapes_.back().tokens()));
  document_starts_.upload(rows.document_starts.data(), document_starts_.bytes());
  trained_tokens_ = DeviceMemory(8);
  trained_tokens_.upload(&trained, 8);
}

/// Norms as they are initialised: the layer's activations keep their scale.
void CudaOps::fill_weights(const Layer& layer, const DeviceMemory& weights) {
  for (const ParameterTensor& tensor : layer.tensors) {
    if (tensor.name.find("norm") == std::string::npos) continue;
    const std::vector<std::uint16_t> ones(static_cast<std::size_t>(tensor.elements()), round_to_bf16(1.0f));
    PENSTOCK_CUDA(
        cudaMemcpy(weights.as<std::uint16_t>() + tensor.offset, ones.data(), 2 * ones.size(), cudaMemcpyHostToDevice));
  }
}

const std::byte* CudaOps::memory(TemplateOperand operand, LayerKind kind) const {
  switch (operand) {
    case TemplateOperand::weights:
      return (kind == LayerKind::embedding ? embedding_ : kind == LayerKind::head ? head_ : decoders_.at(kind)).data();
    case TemplateOperand::tied_weights: return model_.config.tied_embeddings ? embedding_.data() : nullptr;
    case TemplateOperand::tokens: return tokens_.data();
    case TemplateOperand::input: return input_.data();
    case TemplateOperand::output: return output_.data();
    case TemplateOperand::kept: return kept_.data();
    case TemplateOperand::recomputed: return recomputed_.data();
    case TemplateOperand::output_gradient: return output_gradient_.data();
    case TemplateOperand::input_gradient: return input_gradient_.data();
    case TemplateOperand::gradient: return gradient_.data();
    case TemplateOperand::loss: return loss_.data();
    case TemplateOperand::workspace: return workspace_.data();
    case TemplateOperand::labels: return labels_.data();
    case TemplateOperand::document_starts: return document_starts_.data();
    case TemplateOperand::trained_tokens: return trained_tokens_.data();
    case TemplateOperand::kv: return kv_.data();
    case TemplateOperand::kv_gradient: return kv_gradient_.data();
  }
  return nullptr;
}

TemplateBinding CudaOps::bind(const CalibrationOp& op) {
  TemplateBinding b = unbound_template(op, model_, layout_);
  for (const OperandUse& use : operand_uses(op.kind, op.pass))
    if (use.is_of(op.batch, model_.config) && use.use != Use::may_write)
      b.set(use.operand, memory(use.operand, op.kind));
  return b;
}

void CudaOps::run_sample(const TimedOp& op, Sample& sample, bool marked) {
  templates_.listen(marked ? &sample : nullptr);
  sample.begin(stream_);
  run(op);
  sample.end(stream_);
  templates_.listen(nullptr);
}

double CudaOps::collect(const TimedOp& op, const Samples& samples, const std::function<void(const KernelTime&)>& add) {
  std::vector<double> whole;
  for (const Sample& sample : samples.whole) whole.push_back(sample.seconds());
  const double op_seconds = summarise(std::move(whole)).seconds;
  for (const Sample& sample : samples.marked) {
    std::vector<KernelMark> marks = sample.kernels();
    take_off_marks(marks, op_seconds);
    for (const KernelTime& time : kernel_times(op.op.kernels, marks)) add(time);
  }
  return op_seconds;
}

void CudaOps::measure_burst(KernelTables& tables) {
  for (TimedOp& op : ops_) {
    Samples samples;
    for (int i = 0; i < kMostSamples; ++i) {
      samples.whole.emplace_back();
      samples.marked.emplace_back(op.executions);
    }
    std::this_thread::sleep_for(kIdle);
    run(op);  // clocks up, caches as after the op itself
    synchronize();
    std::size_t taken = 0;
    double busy = 0;
    while (taken < kMostSamples && (taken < kLeastSamples || busy < kBurstSeconds)) {
      for (const bool marked : {false, true}) {
        std::this_thread::sleep_for(kRest);
        Sample& sample = marked ? samples.marked[taken] : samples.whole[taken];
        if (op.gated) gate_.close(stream_);
        try {
          run_sample(op, sample, marked);
        } catch (...) {
          gate_.open();
          templates_.listen(nullptr);
          throw;
        }
        gate_.open();
        synchronize();
        busy += sample.seconds();
      }
      ++taken;
    }
    samples.whole.resize(taken);
    samples.marked.resize(taken);
    op.burst_seconds = collect(op, samples, [&](const KernelTime& time) { tables.add_burst(time); });
  }
}

const CudaOps::TimedOp* CudaOps::find(LayerKind kind, Pass pass, bool accumulates, ElementType gradient,
                                      std::size_t shape) const {
  const auto found = std::find_if(ops_.begin(), ops_.end(), [&](const TimedOp& op) {
    return op.op.kind == kind && op.op.pass == pass && op.op.accumulates == accumulates && op.op.gradient == gradient &&
           op.op.batch.past == shapes_[shape].past;
  });
  return &*found;  // calibration_ops has them all
}

void CudaOps::run_micro_batch(bool accumulates, ElementType gradient,
                              const std::function<void(const TimedOp&)>& run_op) {
  const std::size_t decoders = model_.layers.size() - 2;
  run_op(*find(LayerKind::embedding, Pass::forward, false, ElementType::fp32));
  for (std::size_t i = 0; i < decoders; ++i)
    run_op(*find(model_.layers[i + 1].kind, Pass::forward, false, ElementType::fp32, i % shapes_.size()));
  run_op(*find(LayerKind::head, Pass::loss, accumulates, gradient));
  for (std::size_t i = 0; i < decoders; ++i) {
    const LayerKind kind = model_.layers[i + 1].kind;
    run_op(*find(kind, Pass::recompute, false, ElementType::fp32, i % shapes_.size()));
    run_op(*find(kind, Pass::backward, accumulates, gradient, i % shapes_.size()));
  }
  run_op(*find(LayerKind::embedding, Pass::backward, accumulates, gradient));
}

void CudaOps::measure_sustained(KernelTables& tables, double settle_seconds) {
  // Nothing waits for the GPU: events are read at the end, and the queue's length is the only brake.
  for (const std::int64_t start = now_ns(); seconds_since(start) < settle_seconds;)
    run_micro_batch(true, ElementType::fp32, [this](const TimedOp& op) { run(op); });
  std::vector<Samples> samples(ops_.size());
  std::vector<std::size_t> executed(ops_.size());
  // Some of the layers are timed, in turn whole and kernel by kernel; of the other ops every one.
  const std::size_t every = std::max<std::size_t>(1, (model_.layers.size() - 2) / kTimedLayers);
  const auto timed = [&](const TimedOp& op) {
    const auto i = static_cast<std::size_t>(&op - ops_.data());
    const std::size_t stride = is_decoder(op.op.kind) ? every : 1, turn = executed[i]++;
    if (turn % stride != 0) return run(op);
    const bool marked = turn / stride % 2 == 1;
    (marked ? samples[i].marked : samples[i].whole).emplace_back(marked ? op.executions : 0);
    run_sample(op, (marked ? samples[i].marked : samples[i].whole).back(), marked);
  };
  const std::int64_t start = now_ns();
  for (int round = 0; round < kMostRounds && (round < 2 || seconds_since(start) < kSustainedSeconds); ++round)
    for (const ElementType gradient : {ElementType::fp32, ElementType::bf16})
      for (const bool accumulates : {true, false}) run_micro_batch(accumulates, gradient, timed);
  synchronize();
  for (std::size_t i = 0; i < ops_.size(); ++i)
    collect(ops_[i], samples[i], [&](const KernelTime& time) { tables.add_sustained(time); });
}

Measured CudaOps::launch_per_kernel() {
  std::vector<double> each;
  for (const TimedOp* op : {forward_, recompute_, backward_})
    for (int i = 0; i < kMostSamples; ++i) {
      synchronize();
      const std::int64_t start = now_ns();
      run(*op);
      each.push_back(seconds_since(start) / static_cast<double>(op->executions));
    }
  synchronize();
  return summarise(std::move(each));
}

CudaOps::Response CudaOps::measure_response(double seconds) {
  std::vector<Sample> samples(
      static_cast<std::size_t>(std::clamp(seconds / forward_->burst_seconds, 3.0 * kSmooth, kMostResponses)));
  std::this_thread::sleep_for(4 * kIdle);
  for (Sample& sample : samples) run_sample(*forward_, sample, false);
  synchronize();
  // Medians over a few in a row, and when each ended.
  std::vector<double> smooth, ends;
  double end = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    end += samples[i].seconds();
    if (i + 1 < kSmooth) continue;
    std::vector<double> last;
    for (std::size_t j = i + 1 - kSmooth; j <= i; ++j) last.push_back(samples[j].seconds());
    smooth.push_back(summarise(std::move(last)).seconds);
    ends.push_back(end);
  }
  const auto fastest = std::min_element(smooth.begin(), smooth.end());
  Response response{
      *fastest, summarise({smooth.end() - static_cast<std::ptrdiff_t>(smooth.size() / 4), smooth.end()}).seconds, 0};
  const double reached =
      response.burst_seconds + (1 - std::exp(-1.0)) * (response.full_seconds - response.burst_seconds);
  const auto settled = std::find_if(fastest, smooth.end(), [=](double each) { return each >= reached; });
  if (settled != smooth.end()) response.settle_seconds = ends[static_cast<std::size_t>(settled - smooth.begin())];
  return response;
}

CudaOps::Paced CudaOps::measure_paced(double duty, double seconds) {
  const std::int64_t start = now_ns();
  double busy = 0, wall = 0, counted = 0;
  while (seconds_since(start) < seconds || counted == 0) {
    const std::int64_t turn = now_ns();
    Sample sample;
    gate_.close(stream_);  // else the GPU waits for launches
    try {
      run_sample(*forward_, sample, false);
    } catch (...) {
      gate_.open();
      throw;
    }
    gate_.open();
    synchronize();
    const double pause = sample.seconds() * (1 / duty - 1) - (seconds_since(turn) - sample.seconds());
    if (pause > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    if (seconds_since(start) < seconds / 2) continue;
    busy += sample.seconds();
    wall += seconds_since(turn);
    ++counted;
  }
  return {std::min(1.0, busy / wall), busy / counted};
}

}  // namespace penstock::exec
