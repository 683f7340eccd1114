// What each preset moves and computes per step, counted by hand for 5 decoder layers and 4 micro-batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "shared/ir/graph.h"
#include "shared/model/kernels.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

constexpr int kDecoders = 5, kHead = 6, kMicroBatches = 4;

bool crosses(const Schedule& schedule, const Op& op, TierKind to) {
  return std::holds_alternative<CopyWork>(op.work) &&
         schedule.tiers[static_cast<std::size_t>(schedule.buffers[static_cast<std::size_t>(op.writes[0].buffer)].tier)]
                 .kind == to;
}

/// Copies of `tensor` towards `to`, by layer.
std::map<int, int> copies(const Schedule& schedule, TensorKind tensor, TierKind to) {
  std::map<int, int> count;
  for (const Op& op : schedule.ops)
    if (crosses(schedule, op, to) && op.reads[0].value.tensor == tensor) ++count[op.layer];
  return count;
}

/// The same in bytes, all decoder layers together, per decoder parameter (padding included).
double bytes_per_parameter(const Schedule& schedule, const Model& model, TensorKind tensor, TierKind to) {
  std::int64_t bytes = 0;
  for (const Op& op : schedule.ops)
    if (crosses(schedule, op, to) && op.reads[0].value.tensor == tensor && op.layer >= 1 && op.layer < kHead)
      bytes += op.reads[0].bytes;
  return static_cast<double>(bytes) / static_cast<double>(kDecoders * model.layers[1].state_elements);
}

/// FLOPs of decoder ops as executed, all micro-batches.
double decoder_flops(const Schedule& schedule, const Model& model) {
  double flops = 0;
  for (const Op& op : schedule.ops) {
    const auto* work = std::get_if<TemplateWork>(&op.work);
    if (work == nullptr || work->kind != LayerKind::decoder) continue;
    bool writes_output = false, adds = false;
    for (const Access& write : op.writes) writes_output = writes_output || write.value.tensor == TensorKind::boundary;
    for (const Access& read : op.reads) adds = adds || read.value.tensor == TensorKind::gradient_sum;
    flops += kernel_flops(template_kernels(model, work->kind, work->pass, schedule.micro_batch,
                                           schedule.layout(work->keep), writes_output, adds));
  }
  return flops;
}

int count_of(const std::map<int, int>& counts, int layer) { return counts.contains(layer) ? counts.at(layer) : 0; }

TEST(Traffic, PenstockLoadsWeightsOncePerPassWhateverTheBatch) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "penstock"));
  const auto loads = copies(schedule, TensorKind::weights, TierKind::hbm);
  // Forward all; in backward the last two are still in the two slots; backward of the embedding reads no weights.
  EXPECT_EQ(loads, (std::map<int, int>{{0, 1}, {1, 2}, {2, 2}, {3, 2}, {4, 1}, {5, 1}, {kHead, 1}}));
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, small::llama(), TensorKind::gradient, TierKind::dram), 2.0);
  EXPECT_TRUE(copies(schedule, TensorKind::boundary, TierKind::dram).empty());
}

TEST(Traffic, ATiedHeadFindsTheEmbeddingInItsSlot) {
  const Schedule schedule = make_schedule(small::input(small::qwen2_tied(), "penstock"));
  const auto loads = copies(schedule, TensorKind::weights, TierKind::hbm);
  EXPECT_EQ(count_of(loads, 0), 1);
  EXPECT_EQ(count_of(loads, kHead), 1);  // its norm alone
  for (const Op& op : schedule.ops)
    if (op.layer == kHead && crosses(schedule, op, TierKind::hbm)) {
      EXPECT_EQ(op.reads[0].bytes, 2 * 64);
    }
}

TEST(Traffic, MoreBuffersKeepMoreForBackward) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.weight_buffers = kDecoders;
  const auto loads = copies(make_schedule(in), TensorKind::weights, TierKind::hbm);
  for (int layer = 0; layer <= kHead; ++layer) EXPECT_EQ(count_of(loads, layer), 1) << layer;
}

TEST(Traffic, ResidentWeightsOfAHostOptimizerComeOncePerStep) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.group = 1;
  in.parameters.resident_weights = 2;
  const auto loads = copies(make_schedule(in), TensorKind::weights, TierKind::hbm);
  EXPECT_EQ(count_of(loads, 1), 1);
  EXPECT_EQ(count_of(loads, 2), 1);
  // Layers 4 and 5 are in the two slots when backward turns round, layer 3 when the next micro-batch comes forward
  // (with layer 4 in the other slot), so: 3: once in the first forward, and in every backward.
  EXPECT_EQ(count_of(loads, 3), 1 + kMicroBatches);
}

TEST(Traffic, ResidentMovesTokensLossAndScalarsOnly) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "resident"));
  int copied = 0;
  for (const Op& op : schedule.ops) {
    if (!std::holds_alternative<CopyWork>(op.work)) continue;
    ++copied;
    const TensorKind tensor = op.reads[0].value.tensor;
    EXPECT_TRUE(tensor == TensorKind::tokens || tensor == TensorKind::loss || tensor == TensorKind::step_scalars)
        << op.name;
  }
  EXPECT_EQ(copied, 3);
}

TEST(Traffic, MegatrainRecomputesBlocksOfFour) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "megatrain"));
  int loads = 0;
  for (const auto& [layer, count] : copies(schedule, TensorKind::weights, TierKind::hbm))
    if (layer >= 1 && layer < kHead) loads += count;
  // Blocks {1-4}, {5}, two slots. First micro-batch: forward 5; backward of 5 finds its weights; the pass over 1, 2, 3
  // loads 3, redo of 4 loads 1, backward of 3 finds its weights, 2 and 1 are loaded: 11. The others find 1 and 2 in the
  // slots when they start: 9 each.
  EXPECT_EQ(loads, 11 + 3 * 9);
  // Every micro-batch's bf16 gradient leaves.
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, small::llama(), TensorKind::gradient_part, TierKind::dram),
                   2.0 * kMicroBatches);
}

TEST(Traffic, MegatrainReleasedLoadsThreeTimesAndExecutesTenN) {
  for (const int every : {1, 2, 4}) {
    PolicyInput in = small::input(small::llama(), "megatrain-released");
    in.parameters.checkpoint_every = every;
    const Schedule schedule = make_schedule(in);
    for (const auto& [layer, count] : copies(schedule, TensorKind::weights, TierKind::hbm)) {
      if (layer >= 1 && layer < kHead) {
        EXPECT_EQ(count, 3 * kMicroBatches) << "layer " << layer << ", K " << every;
      }
    }
    EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, in.model, TensorKind::weights, TierKind::hbm), 6.0 * kMicroBatches);
    // 10 N per token: N matmul parameters of a layer are 64 x 128 (qkv) + 64 x 64 + 3 x 64 x 128 = 36 864.
    const double tokens = 8 * 32;
    const double attention_forward = 2.0 * 8 * 4 * 16 * 32 * 32;  // 2 s h d L^2, all sequences
    EXPECT_DOUBLE_EQ(decoder_flops(schedule, in.model),
                     kDecoders * (10 * 36864 * tokens + (3 + 2.5) * attention_forward));
  }
}

TEST(Traffic, RecomputeFromInputsExecutesFewerFlopsThanForwardTwice) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "penstock"));
  // 2 forward, 2 recompute without the down projection (64 x 128), 4 backward.
  const double tokens = 8 * 32;
  const double attention_forward = 2.0 * 8 * 4 * 16 * 32 * 32;
  EXPECT_DOUBLE_EQ(decoder_flops(schedule, small::llama()),
                   kDecoders * ((8 * 36864 - 2 * 8192) * tokens + (2 + 2.5) * attention_forward));
}

TEST(Traffic, KeepingAttentionSparesItsRecompute) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.keep = Keep::input_attention;
  const double tokens = 8 * 32;
  const double attention_forward = 2.0 * 8 * 4 * 16 * 32 * 32;
  // Recompute: qkv (64 x 128) and gate_up (64 x 256) alone.
  EXPECT_DOUBLE_EQ(decoder_flops(make_schedule(in), in.model),
                   kDecoders * ((6 * 36864 + 2 * (8192 + 16384)) * tokens + (1 + 2.5) * attention_forward));
  in.parameters.keep = Keep::everything;
  EXPECT_DOUBLE_EQ(decoder_flops(make_schedule(in), in.model),
                   kDecoders * (6 * 36864 * tokens + 3.5 * attention_forward));
}

TEST(Traffic, Zero3SumsOverTheLink) {
  const Model model = small::llama();
  const Schedule schedule = make_schedule(small::input(model, "zero3-offload"));
  // bf16: each micro-batch's sum leaves, and comes back for all but the first; fp32 leaves once at the boundary.
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, model, TensorKind::gradient_sum, TierKind::dram), 2.0 * kMicroBatches);
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, model, TensorKind::gradient_sum, TierKind::hbm),
                   2.0 * (kMicroBatches - 1));
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, model, TensorKind::gradient, TierKind::dram), 4.0);
  // 2 forward + 2 backward, but for what is still in the two slots: layers 4 and 5 when backward turns round, and 1 and
  // 2 when the next micro-batch starts.
  const auto loads = copies(schedule, TensorKind::weights, TierKind::hbm);
  EXPECT_EQ(count_of(loads, 3), 2 * kMicroBatches);
  EXPECT_EQ(count_of(loads, 5), kMicroBatches);
  EXPECT_EQ(count_of(loads, 1), 1 + kMicroBatches);
}

TEST(Traffic, Zero3CopiesTensorByTensorAndWaitsPerLayer) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "zero3-offload"));
  std::size_t waits = 0, loads = 0;
  for (const Op& op : schedule.ops) {
    waits += op.name.starts_with("wait for weights");
    if (!op.name.starts_with("load weights")) continue;
    ++loads;
    std::int64_t bytes = 0, bursts = 0;
    for (const Burst& burst : std::get<CopyWork>(op.work).bursts) {
      bytes += burst.bytes * burst.count;
      bursts += burst.count;
    }
    EXPECT_EQ(bytes, op.reads[0].bytes);
    if (op.layer >= 1 && op.layer < kHead) {
      EXPECT_EQ(bursts, 9);  // q, k, v, o, gate, up, down and two norms
    }
  }
  EXPECT_EQ(waits, loads);
}

TEST(Traffic, Fsdp2StartsEachLoadBehindTheComputeBeforeIt) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "fsdp2-offload"));
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, small::llama(), TensorKind::gradient_part, TierKind::dram),
                   4.0 * kMicroBatches);
  const UnrolledGraph graph(schedule, 1);
  int last_compute = -1;
  for (const Op& op : schedule.ops) {
    if (std::holds_alternative<TemplateWork>(op.work)) last_compute = op.id;
    if (!op.name.starts_with("load weights") || last_compute < 0) continue;
    EXPECT_TRUE(graph.reaches({0, last_compute}, {0, op.id})) << op.name;
  }
}

TEST(Traffic, ActivationsInDramLeaveOnceAndComeBackOnce) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.activations = TierKind::dram;
  in.parameters.keep = Keep::input_attention;
  const Schedule schedule = make_schedule(in);
  for (const TensorKind tensor : {TensorKind::boundary, TensorKind::kept}) {
    const auto out = copies(schedule, tensor, TierKind::dram), back = copies(schedule, tensor, TierKind::hbm);
    for (int layer = 1; layer <= kDecoders; ++layer) {
      EXPECT_EQ(count_of(out, layer), kMicroBatches);
      EXPECT_EQ(count_of(back, layer), kMicroBatches);
    }
    EXPECT_EQ(count_of(out, kHead), 0);  // the head's input is used at once
  }
}

TEST(Traffic, FirstLayersAreKeptAsTheySay) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.first_layers = 2;
  in.parameters.first_keep = Keep::everything;
  in.parameters.first_activations = TierKind::dram;
  const Schedule schedule = make_schedule(in);
  for (const TensorKind tensor : {TensorKind::boundary, TensorKind::kept}) {
    const auto out = copies(schedule, tensor, TierKind::dram), back = copies(schedule, tensor, TierKind::hbm);
    for (int layer = 1; layer <= kDecoders; ++layer) {
      EXPECT_EQ(count_of(out, layer), layer <= 2 ? kMicroBatches : 0) << layer;
      EXPECT_EQ(count_of(back, layer), layer <= 2 ? kMicroBatches : 0) << layer;
    }
  }
  int recomputed = 0;
  for (const Op& op : schedule.ops)
    if (const auto* work = std::get_if<TemplateWork>(&op.work); work != nullptr && work->pass == Pass::recompute) {
      EXPECT_GT(op.layer, 2);
      ++recomputed;
    }
  EXPECT_EQ(recomputed, 3 * kMicroBatches);
}

TEST(Traffic, BlocksBeginBehindTheFirstLayers) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.first_layers = 1;
  in.parameters.checkpoint_every = 2;
  in.parameters.activations = TierKind::dram;
  in.parameters.first_activations = TierKind::dram;
  // Layer 1, then the blocks 2-3 and 4-5: the inputs of 1, 2 and 4 wait.
  const auto out = copies(make_schedule(in), TensorKind::boundary, TierKind::dram);
  for (int layer = 1; layer <= kDecoders; ++layer)
    EXPECT_EQ(count_of(out, layer), layer == 3 || layer == 5 ? 0 : kMicroBatches) << layer;
}

TEST(Traffic, StatesStreamThroughTheGpuBothWays) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.optimizer_place = OptimizerPlace::gpu;
  const Schedule schedule = make_schedule(in);
  double up = 0, down = 0;
  for (const TensorKind tensor : {TensorKind::low_bits, TensorKind::moment_m, TensorKind::moment_v}) {
    up += bytes_per_parameter(schedule, in.model, tensor, TierKind::hbm);
    down += bytes_per_parameter(schedule, in.model, tensor, TierKind::dram);
  }
  EXPECT_DOUBLE_EQ(up, 10.0);
  EXPECT_DOUBLE_EQ(down, 10.0);
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, in.model, TensorKind::weights, TierKind::dram), 2.0);
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, in.model, TensorKind::gradient, TierKind::hbm), 2.0);
}

TEST(Traffic, Zero2LoadsOncePerStepAndSendsFp32Once) {
  const Model model = small::llama();
  const Schedule schedule = make_schedule(small::input(model, "zero2-offload"));
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, model, TensorKind::weights, TierKind::hbm), 2.0);
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, model, TensorKind::gradient, TierKind::dram), 4.0);
}

TEST(Traffic, SlideformerUpdatesALayerBeforeTheNextGradientLands) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "slideformer"));
  std::vector<std::string> order;
  for (const Op& op : schedule.ops)
    if (op.name.starts_with("gradient ") || op.name.starts_with("adamw ")) order.push_back(op.name);
  ASSERT_EQ(order.size(), 14u);
  EXPECT_EQ(order[0], "gradient 6");
  EXPECT_EQ(order[1], "adamw 6");
  EXPECT_EQ(order[12], "gradient 0");
  // Consumed on arrival: decoder gradients pass through gradient_slots = 2 host buffers, embedding and head share one.
  int arrivals = 0;
  for (const Buffer& buffer : schedule.buffers) arrivals += buffer.name.starts_with("gradient arrival");
  EXPECT_EQ(arrivals, 3);
}

TEST(Traffic, MlDataflowStreamsEightBytesOfStateAndGradientPerParameter) {
  const Model model = small::llama();
  const Schedule schedule = make_schedule(small::input(model, "ml-dataflow"));
  double up = 0, down = 0;
  for (const TensorKind tensor : {TensorKind::moment_m, TensorKind::moment_v}) {
    up += bytes_per_parameter(schedule, model, tensor, TierKind::hbm);
    down += bytes_per_parameter(schedule, model, tensor, TierKind::dram);
  }
  EXPECT_DOUBLE_EQ(up, 4.0);
  EXPECT_DOUBLE_EQ(down, 4.0);
  // Weights: forward of five layers in the first round and of three (1 and 2 are still in the slots) in the three that
  // follow, backward of three (4 and 5 are there) in each of the four, and all five for the update.
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, model, TensorKind::weights, TierKind::hbm),
                   2.0 * (5 + 3 * 3 + 4 * 3 + 5) / 5);
  EXPECT_DOUBLE_EQ(bytes_per_parameter(schedule, model, TensorKind::weights, TierKind::dram), 2.0);
  // Embedding and head never cross the link.
  for (const Op& op : schedule.ops)
    if (std::holds_alternative<CopyWork>(op.work)) {
      EXPECT_TRUE((op.layer != 0 && op.layer != kHead) || op.name == "loss") << op.name;
    }
}

// Behind the last backward op nothing else has use for the workspace.
TEST(Traffic, StatesStreamThroughTheWorkspaceAtTheEndOfAStep) {
  PolicyInput in = small::input(small::llama(), "ml-dataflow");
  const auto slots = [&](const Schedule& schedule) {
    return std::count_if(schedule.buffers.begin(), schedule.buffers.end(),
                         [](const Buffer& buffer) { return buffer.name.starts_with("state slot"); });
  };
  const Schedule schedule = make_schedule(in);
  EXPECT_EQ(slots(schedule), 0);
  std::int64_t workspace = 0, states = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.name == "workspace") workspace = buffer.bytes;
  for (const Op& op : schedule.ops) {
    if (!std::holds_alternative<OptimizerWork>(op.work) || op.layer == 0 || op.layer == kHead) continue;
    for (const Access& write : op.writes) {
      EXPECT_EQ(schedule.buffers[static_cast<std::size_t>(write.buffer)].name, "workspace");
      EXPECT_LE(write.offset_bytes + write.bytes, workspace);
      states += write.bytes;
    }
  }
  EXPECT_GT(states, 0);
  in.parameters.optimizer_time = OptimizerTime::next_forward;  // then forward runs beside them
  EXPECT_EQ(slots(make_schedule(in)), 2);
}

TEST(Traffic, AGradientSumThatIsFinishedWhereItWaitedTakesNoSecondPlace) {
  PolicyInput in = small::input(small::llama(), "ml-dataflow");
  const auto has_buffer = [&](const std::string& name) {
    const Schedule schedule = make_schedule(in);
    return std::any_of(schedule.buffers.begin(), schedule.buffers.end(),
                       [&](const Buffer& buffer) { return buffer.name == name; });
  };
  EXPECT_TRUE(has_buffer("gradient sum 3 (host)"));
  EXPECT_FALSE(has_buffer("gradient 3"));
  in.parameters.numerics.gradient_link = ElementType::fp32;  // then the finished gradient is another value
  EXPECT_TRUE(has_buffer("gradient 3"));
}

/// Ids of the ops of one name.
std::vector<int> ids_of(const Schedule& schedule, const std::string& name) {
  std::vector<int> ids;
  for (const Op& op : schedule.ops)
    if (op.name == name) ids.push_back(op.id);
  return ids;
}

// With three slots the sum of a layer is under way while backward is two layers before it, in the round before already.
TEST(Traffic, SumsThatTravelComeBackAheadOfTheirLayer) {
  PolicyInput in = small::input(small::llama(), "ml-dataflow");
  in.parameters.gradient_slots = 3;
  const Schedule schedule = make_schedule(in);
  const auto only = [&](const std::string& name) {
    const std::vector<int> ids = ids_of(schedule, name);
    EXPECT_EQ(ids.size(), 1u) << name;
    return ids.empty() ? -1 : ids[0];
  };
  EXPECT_LT(only("backward 5 #1"), only("fetch gradient sum 3 #0"));
  EXPECT_LT(only("fetch gradient sum 3 #0"), only("backward 4 #1"));
  EXPECT_LT(only("backward 1 #0"), only("fetch gradient sum 5 #0"));
  EXPECT_LT(only("fetch gradient sum 5 #0"), only("forward 1 #1"));
  in.parameters.host_waits = HostWaits::per_layer;  // DeepSpeed looks ahead with weights alone
  const Schedule waiting = make_schedule(in);
  EXPECT_LT(ids_of(waiting, "backward 4 #1").at(0), ids_of(waiting, "fetch gradient sum 3 #0").at(0));
}

TEST(Traffic, KeepLayersSpreadsAndOverrides) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.keep_layers = {{1, 4, 0, Keep::input_attention, TierKind::dram},
                               {1, 4, 2, Keep::everything, TierKind::dram},
                               {5, -1, 0, Keep::everything, TierKind::hbm}};
  const Schedule schedule = make_schedule(in);
  std::map<int, Keep> kept;
  for (const Op& op : schedule.ops)
    if (const auto* work = std::get_if<TemplateWork>(&op.work); work != nullptr && work->kind == LayerKind::decoder)
      kept[op.layer] = work->keep;
  // Two of four, in the middle of the halves 1-2 and 3-4.
  EXPECT_EQ(kept, (std::map<int, Keep>{{1, Keep::input_attention},
                                       {2, Keep::everything},
                                       {3, Keep::input_attention},
                                       {4, Keep::everything},
                                       {5, Keep::everything}}));
  const auto out = copies(schedule, TensorKind::kept, TierKind::dram);
  for (int layer = 1; layer <= kDecoders; ++layer) EXPECT_EQ(count_of(out, layer), layer < 5 ? kMicroBatches : 0);
}

// What goes to DRAM passes through the places of the last layers: no ring of its own, and the last layers' regions are
// as large as the largest guest's.
TEST(Traffic, LastLayersInHbmAreTheRingOfTheOthers) {
  PolicyInput in = small::input(small::llama(), "ml-dataflow");
  in.parameters.keep_layers = {{1, 3, 0, Keep::everything, TierKind::dram},
                               {4, 5, 0, Keep::input_attention, TierKind::hbm}};
  const Schedule schedule = make_schedule(in);
  std::map<std::string, std::int64_t> buffers;
  for (const Buffer& buffer : schedule.buffers) buffers[buffer.name] = buffer.bytes;
  EXPECT_FALSE(buffers.contains("kept slot 0"));
  EXPECT_FALSE(buffers.contains("boundary slot 0"));
  EXPECT_EQ(buffers.at("kept 4 @0"), buffers.at("kept 1 @0"));
  // Layer 3 comes back into the place of layer 5 once backward has left it, layer 2 into that of 4, layer 1 into that
  // of 3, which is 5's again.
  const auto place = [&](const std::string& name) {
    return schedule
        .buffers[static_cast<std::size_t>(
            schedule.ops[static_cast<std::size_t>(ids_of(schedule, name).at(0))].writes[0].buffer)]
        .name;
  };
  EXPECT_EQ(place("fetch kept 3 #0"), "kept 5 @0");
  EXPECT_EQ(place("fetch kept 2 #0"), "kept 4 @0");
  EXPECT_EQ(place("fetch kept 1 #0"), "kept 5 @0");
  EXPECT_LT(ids_of(schedule, "backward 5 #0").at(0), ids_of(schedule, "fetch kept 3 #0").at(0));
  EXPECT_LT(ids_of(schedule, "fetch kept 3 #0").at(0), ids_of(schedule, "backward 4 #0").at(0));
}

}  // namespace
}  // namespace penstock
