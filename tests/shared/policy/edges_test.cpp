// The edges of generated schedules: each one carries weight, and together they order what the policy promises.
#include <gtest/gtest.h>

#include "shared/ir/checker.h"
#include "shared/ir/graph.h"
#include "shared/ir/schedule_json.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

/// The preset without orderings that are wishes rather than hazards.
PolicyInput without_wishes(const Model& model, const std::string& preset) {
  PolicyInput in = small::input(model, preset);
  in.parameters.optimizer_time = OptimizerTime::next_forward;
  in.parameters.host_pass_bytes_per_parameter = 0;
  in.parameters.nvme_slots = 2;
  if (in.parameters.host_waits == HostWaits::on_compute) in.parameters.host_waits = HostWaits::none;
  return in;
}

void expect_every_edge_needed(const Schedule& schedule) {
  ASSERT_TRUE(check_schedule(schedule).empty());
  for (std::size_t i = 0; i < schedule.edges.size(); ++i) {
    Schedule without = schedule;
    without.edges.erase(without.edges.begin() + static_cast<std::ptrdiff_t>(i));
    const Edge& edge = schedule.edges[i];
    EXPECT_FALSE(check_schedule(without, 1).empty())
        << schedule.policy << ": nothing is lost without " << schedule.ops[static_cast<std::size_t>(edge.from)].name
        << " -> " << schedule.ops[static_cast<std::size_t>(edge.to)].name << ", distance " << edge.distance;
  }
}

TEST(Edges, NoneCanBeDropped) {
  for (const PresetInfo& preset : presets())
    for (const Model& model : {small::llama(), small::qwen2_tied()})
      expect_every_edge_needed(make_schedule(without_wishes(model, preset.name)));
}

TEST(Edges, NoneCanBeDroppedWhenActivationsAndStatesStream) {
  for (const OptimizerPlace place : {OptimizerPlace::host, OptimizerPlace::gpu}) {
    PolicyInput in = without_wishes(small::llama(), "penstock");
    in.parameters.activations = TierKind::dram;
    in.parameters.keep = Keep::input_attention;
    in.parameters.optimizer_place = place;
    in.parameters.resident_weights = 1;
    in.parameters.group = 2;
    expect_every_edge_needed(make_schedule(in));
  }
}

TEST(Weights, LongRingKeepsTheOrderOfAnEdgesSlot) {
  // So many slots that the embedding of the next group comes into view while its first visit still holds the slot that
  // the head needs in between.
  for (const char* preset : {"megatrain", "megatrain-released", "zero3-offload"})
    for (const int buffers : {7, 12, 100}) {
      PolicyInput in = small::input(small::llama(), preset);
      in.parameters.weight_buffers = buffers;
      EXPECT_TRUE(check_schedule(make_schedule(in)).empty()) << preset << ", " << buffers;
    }
}

TEST(Edges, NoneIsImpliedByTheOthers) {
  for (const PresetInfo& preset : presets())
    for (const Model& model : {small::llama(), small::qwen2_tied()}) {
      const Schedule schedule = make_schedule(small::input(model, preset.name));
      for (std::size_t i = 0; i < schedule.edges.size(); ++i) {
        const Edge& edge = schedule.edges[i];
        EXPECT_FALSE(edge_implied(schedule, i))
            << preset.name << ": " << schedule.ops[static_cast<std::size_t>(edge.from)].name << " -> "
            << schedule.ops[static_cast<std::size_t>(edge.to)].name << ", " << edge.distance;
      }
    }
}

TEST(Edges, SerialOptimizerEndsBeforeTheNextStepStarts) {
  for (const char* preset : {"megatrain", "megatrain-released", "zero2-offload", "zero3-offload", "zero-infinity",
                             "fsdp2-offload", "resident"}) {
    const Schedule schedule = make_schedule(small::input(small::llama(), preset));
    const UnrolledGraph graph(schedule, 2);
    for (const Op& update : schedule.ops) {
      if (!std::holds_alternative<OptimizerWork>(update.work)) continue;
      for (const Op& op : schedule.ops) {
        if (!is_gpu(schedule.lanes[static_cast<std::size_t>(op.lane)].kind)) continue;
        EXPECT_TRUE(graph.reaches({0, update.id}, {1, op.id})) << preset << ": " << update.name << ", " << op.name;
        if (op.phase == Phase::backward && std::holds_alternative<TemplateWork>(op.work)) {
          EXPECT_TRUE(graph.reaches({0, op.id}, {0, update.id})) << preset << ": " << op.name << ", " << update.name;
        }
      }
    }
  }
}

TEST(Edges, NextForwardWaitsForItsLayersUpdateAlone) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "penstock"));
  const UnrolledGraph graph(schedule, 2);
  const auto find = [&](const std::string& name) {
    for (const Op& op : schedule.ops)
      if (op.name == name) return op.id;
    ADD_FAILURE() << "no op " << name;
    return 0;
  };
  // The forward of layer 2 finds weights that layer 2's update wrote; layer 4's update may still run then.
  EXPECT_TRUE(graph.reaches({0, find("adamw 2")}, {1, find("forward 2 #0")}));
  EXPECT_FALSE(graph.reaches({0, find("adamw 4")}, {1, find("forward 2 #0")}));
  // The first load comes as soon as the embedding is updated.
  EXPECT_TRUE(graph.reaches({0, find("adamw 0")}, {1, find("load weights 0")}));
  EXPECT_FALSE(graph.reaches({0, find("adamw 1")}, {1, find("load weights 0")}));
}

TEST(Edges, SameInputSameSchedule) {
  for (const PresetInfo& preset : presets()) {
    const PolicyInput in = small::input(small::qwen3(), preset.name);
    EXPECT_EQ(schedule_hash(make_schedule(in)), schedule_hash(make_schedule(in)));
  }
}

}  // namespace
}  // namespace penstock
