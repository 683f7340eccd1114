// What each preset holds, moves and computes per decoder parameter, beside what is known of the system that it stands
// for. Every figure is a difference: four more decoder layers (a block of MegaTrain's), and two more micro-batches
// where a figure is per micro-batch. So embedding, head, rings, and what slots still hold cancel out.
#include <gtest/gtest.h>
#include <algorithm>

#include <map>

#include "shared/model/kernels.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

// A decoder layer of the small model: matmul weights, and causal attention forward at 32 tokens (2 x 4 heads x 16 x
// 32).
constexpr double kQkv = 64 * 128, kProjection = 64 * 64, kGateUp = 64 * 256, kDown = 128 * 64;
constexpr double kN = kQkv + kProjection + kGateUp + kDown;
constexpr double kAttention = 4096;

// B/param unless said.
struct Figures {
  double activations = 0, host = 0;  // DRAM: what grows with the micro-batches, and the rest
  double padding =
      0;  // most that aligning a buffer in DRAM for copies to and from the drive adds to or takes from host
  double nvme = 0;
  double loads = 0, step_loads = 0;  // of a layer's weights to the GPU: per micro-batch, and besides once per step
  double up = 0, step_up = 0;        // weights, gradients and states over the link
  double down = 0, step_down = 0;
  double read = 0, step_read = 0;  // NVMe
  double write = 0, step_write = 0;
  double passes = 0;  // DRAM traffic per step, besides sums, norm and AdamW
  double flops = 0;   // executed per token
};

bool belongs_to_parameters(TensorKind tensor) {
  switch (tensor) {
    case TensorKind::weights:
    case TensorKind::low_bits:
    case TensorKind::master:
    case TensorKind::moment_m:
    case TensorKind::moment_v:
    case TensorKind::gradient_sum:
    case TensorKind::gradient_part:
    case TensorKind::gradient: return true;
    default: return false;
  }
}

PolicyInput input_of(const std::string& preset, int decoders, int micro_batches) {
  ModelConfig config = small::base("small");
  config.decoder_layers = decoders;
  PolicyInput in = small::input(make_model(config), preset);
  in.sequences = micro_batches * in.micro_batch;
  return in;
}

/// What one step of this many layers and micro-batches does. `loads`, `up`, `down`: of the whole step.
Figures totals(const std::string& preset, int decoders, int micro_batches) {
  const PolicyInput in = input_of(preset, decoders, micro_batches);
  const Schedule schedule = make_schedule(in);
  const auto tier = [&](const Access& access) {
    return schedule.tiers[static_cast<std::size_t>(schedule.buffers[static_cast<std::size_t>(access.buffer)].tier)]
        .kind;
  };
  Figures sum;
  sum.host = static_cast<double>(arena_bytes(in).dram);
  sum.nvme = static_cast<double>(arena_bytes(in).nvme);
  for (const Op& op : schedule.ops) {
    if (const auto* pass = std::get_if<HostPassWork>(&op.work)) sum.passes += static_cast<double>(pass->traffic_bytes);
    if (const auto* bound = std::get_if<TemplateWork>(&op.work)) {
      bool writes_output = false;
      for (const Access& write : op.writes) writes_output |= write.value.tensor == TensorKind::boundary;
      sum.flops += kernel_flops(template_kernels(in.model, bound->kind, bound->pass, schedule.micro_batch,
                                                 schedule.layout(bound->keep), writes_output));
    }
    if (!std::holds_alternative<CopyWork>(op.work) || !belongs_to_parameters(op.reads[0].value.tensor)) continue;
    const TierKind from = tier(op.reads[0]), to = tier(op.writes[0]);
    const double bytes = static_cast<double>(op.reads[0].bytes);
    if (to == TierKind::hbm) sum.up += bytes;
    if (from == TierKind::hbm) sum.down += bytes;
    if (from == TierKind::nvme) sum.read += bytes;
    if (to == TierKind::nvme) sum.write += bytes;
    if (from == to) sum.passes += 2 * bytes;
    if (to == TierKind::hbm && op.reads[0].value.tensor == TensorKind::weights && op.phase != Phase::optimizer)
      sum.loads += 1;
  }
  return sum;
}

Figures figures(const std::string& preset) {
  constexpr int kFew = 8, kMany = 12, kLayers = kMany - kFew;
  constexpr int kMicroBatches = 2, kMoreMicroBatches = 4, kTokens = 64;  // of a micro-batch
  const double parameters =
      kLayers * static_cast<double>(input_of(preset, kFew, kMicroBatches).model.layers[1].state_elements);
  const Figures few = totals(preset, kFew, kMicroBatches), many = totals(preset, kMany, kMicroBatches);
  const Figures few_more = totals(preset, kFew, kMoreMicroBatches),
                many_more = totals(preset, kMany, kMoreMicroBatches);
  Figures found;
  const auto split = [&](double Figures::*total, double Figures::*each, double Figures::*once, double unit) {
    const double fewer = (many.*total - few.*total) / unit, more = (many_more.*total - few_more.*total) / unit;
    found.*each = (more - fewer) / (kMoreMicroBatches - kMicroBatches);
    found.*once = fewer - kMicroBatches * found.*each;
  };
  split(&Figures::loads, &Figures::loads, &Figures::step_loads, kLayers);
  split(&Figures::up, &Figures::up, &Figures::step_up, parameters);
  split(&Figures::down, &Figures::down, &Figures::step_down, parameters);
  split(&Figures::host, &Figures::activations, &Figures::host, parameters);
  split(&Figures::read, &Figures::read, &Figures::step_read, parameters);
  split(&Figures::write, &Figures::write, &Figures::step_write, parameters);
  found.nvme = (many.nvme - few.nvme) / parameters;
  found.passes = (many.passes - few.passes) / parameters;
  found.flops = (many.flops - few.flops) / (kLayers * kMicroBatches * kTokens);
  return found;
}

void expect_figures(const std::string& preset, const Figures& known) {
  SCOPED_TRACE(preset);
  const Figures found = figures(preset);
  EXPECT_NEAR(found.host, known.host, std::max(known.padding, 1e-12));
  EXPECT_DOUBLE_EQ(found.nvme, known.nvme);
  EXPECT_DOUBLE_EQ(found.read, known.read);
  EXPECT_DOUBLE_EQ(found.step_read, known.step_read);
  EXPECT_DOUBLE_EQ(found.write, known.write);
  EXPECT_DOUBLE_EQ(found.step_write, known.step_write);
  EXPECT_DOUBLE_EQ(found.loads, known.loads);
  EXPECT_DOUBLE_EQ(found.step_loads, known.step_loads);
  EXPECT_DOUBLE_EQ(found.up, known.up);
  EXPECT_DOUBLE_EQ(found.step_up, known.step_up);
  EXPECT_DOUBLE_EQ(found.down, known.down);
  EXPECT_DOUBLE_EQ(found.step_down, known.step_down);
  EXPECT_NEAR(found.passes, known.passes, 1e-4);  // rounded to bytes of the model
  EXPECT_DOUBLE_EQ(found.flops, known.flops);
}

// Forward 2 N, recompute 2 N without the down projection (backward does not read its output), backward 4 N; attention
// forward twice, backward 2.5 times a forward.
constexpr double kRecomputed = 8 * kN - 2 * kDown + (2 + 2.5) * kAttention;

// Planes 12 and a gradient that waits for the norm, 2.
TEST(PresetFigures, Penstock) {
  expect_figures("penstock", {.host = 14, .step_loads = 2, .step_up = 4, .step_down = 2, .flops = kRecomputed});
}

TEST(PresetFigures, Resident) { expect_figures("resident", {.flops = kRecomputed}); }

// bf16 weights 2, bf16 gradients 2, fp32 moments 8. Loads: 2 + 2 B/param for K = 1; a block of four layers is loaded
// for the pass that recomputes it and, but for what two slots still hold, for the way down: 4 + 4 + 2 loads, 2.5 a
// layer. Of four layers one is recomputed without its down projection.
TEST(PresetFigures, Megatrain) {
  expect_figures(
      "megatrain",
      {.host = 12, .loads = 2.5, .up = 5, .down = 2, .flops = 8 * kN - 2 * kDown / 4 + (2 + 2.5) * kAttention});
}

// The above and a pinned bf16 copy, 14. Loads in forward, recompute and backward. Clip 4, re-flatten 4, zero 2.
TEST(PresetFigures, MegatrainReleased) {
  expect_figures("megatrain-released",
                 {.host = 14, .loads = 3, .up = 6, .down = 2, .passes = 10, .flops = 10 * kN + (3 + 2.5) * kAttention});
}

// fp32 master 4, fp32 gradient 4, moments 8, bf16 copy 2: 18. The system's 20 have an accumulation buffer of 2 more;
// here sums stay on the GPU. Scan 4, scale 8, cast 4.
TEST(PresetFigures, Zero2Offload) {
  expect_figures("zero2-offload",
                 {.host = 18, .step_loads = 1, .step_up = 2, .step_down = 4, .passes = 16, .flops = kRecomputed});
}

// bf16 2, master 4, fp32 gradient 4, bf16 gradient 2, moments 8. Weights 2 + 2 up; each micro-batch's bf16 sum leaves,
// and comes back for all but the first; fp32 leaves once at the boundary.
TEST(PresetFigures, Zero3Offload) {
  expect_figures("zero3-offload", {.host = 20,
                                   .loads = 2,
                                   .up = 4 + 2,
                                   .step_up = -2,
                                   .down = 2,
                                   .step_down = 4,
                                   .passes = 16,
                                   .flops = kRecomputed});
}

// As ZeRO-3 over the link. On NVMe bf16 weights 2, master 4, moments 8, fp32 gradient 4; in DRAM the bf16 sums alone.
// Weights are read 2 for forward and 2 for backward; the optimizer reads 16 and writes 12, and the bf16 weights' 2; the
// gradient's 4 were written in backward: 16 for states and gradients.
// On the drive every tensor of a layer is padded to 4096 bytes: 2 x 36 992 = 73 984 to 19 of them, 4 x 36 992 = 147 968
// to 37. In a model of any size that is nothing, and 18 B/param remain.
constexpr std::int64_t kWeightsOnDrive = 19 * 4096, kStatesOnDrive = kWeightsOnDrive + 4 * 37 * 4096;

TEST(PresetFigures, ZeroInfinity) {
  expect_figures("zero-infinity", {.host = 2,
                                   .padding = 4096.0 / 36'992,
                                   .nvme = static_cast<double>(kStatesOnDrive) / 36'992,
                                   .loads = 2,
                                   .up = 4 + 2,
                                   .step_up = -2,
                                   .down = 2,
                                   .step_down = 4,
                                   .read = 2 + 2,
                                   .step_read = 16,
                                   .step_write = 16 + 2,
                                   .passes = 16,
                                   .flops = kRecomputed});
}

// Its pinned buffers. Weights: the system's 5 x 1e8 elements; here two decoder layers, and embedding or head.
// Optimizer: 4 x 4 B for each element of a sub-group; here of the largest layer (256 x 64 elements of a table and, in
// the head, 64 of its norm, against 36 992), with the 2 B of the weights that it writes.
TEST(PresetFigures, ZeroInfinityReadsThroughFewBuffers) {
  const PolicyInput in = input_of("zero-infinity", 5, 4);
  std::map<std::string, std::int64_t> buffers;
  for (const Buffer& buffer : make_schedule(in).buffers) buffers[buffer.name] = buffer.bytes;
  EXPECT_EQ(buffers.at("weights from nvme 0"), kWeightsOnDrive);
  EXPECT_EQ(buffers.at("weights from nvme 1"), kWeightsOnDrive);
  EXPECT_EQ(buffers.at("weights from nvme edge"), 9 * 4096);  // 2 x (256 x 64 + 64) = 32 896
  EXPECT_EQ(buffers.at("states from nvme 0"), kStatesOnDrive);
  EXPECT_FALSE(buffers.contains("weights from nvme 2"));
  EXPECT_FALSE(buffers.contains("states from nvme 1"));
}

// The system holds fp32 parameters, gradients and moments, 16, and casts after the upload of 4 + 4. Here a bf16 copy, 2
// more, crosses the link: 2 + 2.
TEST(PresetFigures, Fsdp2Offload) {
  expect_figures("fsdp2-offload", {.host = 18, .loads = 2, .up = 4, .down = 4, .passes = 8, .flops = kRecomputed});
}

// fp32 master 4, moments 8; gradients are consumed as they land. It has no accumulation, so a step is one micro-batch;
// more are added up here before the gradient leaves.
TEST(PresetFigures, Slideformer) {
  expect_figures("slideformer", {.host = 12, .step_loads = 2, .step_up = 4, .step_down = 2, .flops = kRecomputed});
}

// bf16 weights, gradients and moments: 8. Each round: weights 2 + 2 up, the gradient sum 2 down, and 2 up in all but
// the first. For the optimizer all 8 up, and 6 down. qkv and gate_up are computed again.
TEST(PresetFigures, MlDataflow) {
  // Of one round wait, per token, input and context (64 bf16 values each) and an fp32 figure per head.
  const double waiting = 64.0 * (2 * 64 * 2 + 4 * 4) / 36'992;
  expect_figures("ml-dataflow", {.host = 8 + waiting,
                                 .loads = 2,
                                 .up = 4 + 2,
                                 .step_up = 8 - 2,
                                 .down = 2,
                                 .step_down = 6,
                                 .flops = 6 * kN + 2 * (kQkv + 64 * 64 + kGateUp) + (1 + 2.5) * kAttention});
}

}  // namespace
}  // namespace penstock
