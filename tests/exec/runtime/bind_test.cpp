// Operands are found by their labels, and no op can be bound to too little memory.
#include "exec/runtime/bind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "exec/memory/host_memory.h"
#include "tests/exec/runtime/small_run.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

/// A schedule and room for its arenas.
struct Bound {
  explicit Bound(const PolicyInput& in) : model(in.model), schedule(make_schedule(in)) {
    for (const std::int64_t bytes : arena_bytes(schedule))
      memories.push_back(std::make_unique<HostMemory>(bytes, "test"));
  }
  BoundSchedule bind() const { return bind_schedule(schedule, model, memories); }
  std::byte* address(const Access& access) const {
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(access.buffer)];
    return memories[static_cast<std::size_t>(buffer.tier)]->address() + buffer.offset_bytes + access.offset_bytes;
  }
  Op& find(const std::string& what, int layer, int micro_batch, Pass pass) {
    for (Op& op : schedule.ops)
      if (const auto* work = std::get_if<TemplateWork>(&op.work);
          work != nullptr && op.layer == layer && op.micro_batch == micro_batch && work->pass == pass)
        return op;
    ADD_FAILURE() << what;
    return schedule.ops.front();
  }
  std::string error() const {
    return error_text([&] { bind(); });
  }

  Model model;
  Schedule schedule;
  TierMemories memories;
};

TEST(Bind, TokensOfAMicroBatchStartAtItsRow) {
  Bound bound(small::input(small::llama(), "penstock"));
  const Op& op = bound.find("embedding", 0, 3, Pass::forward);
  const BoundSchedule bound_schedule = bound.bind();
  const auto& binding = std::get<TemplateBinding>(bound_schedule.ops[static_cast<std::size_t>(op.id)].work);
  const auto tokens = std::find_if(op.reads.begin(), op.reads.end(),
                                   [](const Access& a) { return a.value.tensor == TensorKind::tokens; });
  // Micro-batches of 2 rows of 32 + 1 tokens of 4 bytes: the fourth starts at row 6.
  EXPECT_EQ(reinterpret_cast<const std::byte*>(binding.get<TemplateOperand::tokens>()),
            bound.address(*tokens) + 6 * 33 * 4);
}

TEST(Bind, LossScaleIsOneOverTheTokensOfTheStep) {
  Bound bound(small::input(small::llama(), "penstock"));
  const BoundSchedule bound_schedule = bound.bind();
  const Op& op = bound.find("head", bound.model.head_index(), 0, Pass::loss);
  EXPECT_EQ(std::get<TemplateBinding>(bound_schedule.ops[static_cast<std::size_t>(op.id)].work).loss_scale,
            1.0 / 256);  // 8 x 32
}

TEST(Bind, FirstContributionOverwritesLaterOnesAdd) {
  Bound bound(small::input(small::llama(), "penstock"));
  const BoundSchedule bound_schedule = bound.bind();
  for (int m = 0; m < 4; ++m) {
    const Op& op = bound.find("backward", 2, m, Pass::backward);
    EXPECT_EQ(std::get<TemplateBinding>(bound_schedule.ops[static_cast<std::size_t>(op.id)].work).accumulates, m > 0)
        << m;
  }
}

TEST(Bind, EmbeddingOfATiedModelTakesTheProjectionsPartOfTheHeadsGradient) {
  Bound bound(small::input(small::qwen2_tied(), "penstock"));
  const BoundSchedule bound_schedule = bound.bind();
  int found = 0;
  for (const BoundOp& op : bound_schedule.ops) {
    const auto* finish = std::get_if<BoundFinish>(&op.work);
    if (finish == nullptr) continue;
    EXPECT_EQ(finish->tied != nullptr, op.op->layer == 0);
    if (op.op->layer != 0) continue;
    ++found;
    const auto head = std::find_if(op.op->reads.begin(), op.op->reads.end(),
                                   [&](const Access& a) { return a.value.layer == bound.model.head_index(); });
    // Final norm first: 64 elements of fp32, a multiple of the group alignment as it is.
    EXPECT_EQ(static_cast<const std::byte*>(finish->tied), bound.address(*head) + 64 * 4);
  }
  EXPECT_EQ(found, 1);
}

TEST(Bind, RefusesAnOperandThatIsTooSmall) {
  Bound bound(small::input(small::llama(), "penstock"));
  Op& op = bound.find("forward", 2, 0, Pass::forward);
  for (Access& access : op.reads)
    if (access.value.tensor == TensorKind::boundary) access.bytes = 8190;
  // 2 sequences x 32 tokens x 64 hidden x 2 bytes.
  EXPECT_NE(bound.error().find("its input has 8190 bytes, it needs 8192"), std::string::npos) << bound.error();
  EXPECT_NE(bound.error().find('"' + op.name + '"'), std::string::npos) << bound.error();
}

TEST(Bind, RefusesAMissingOperand) {
  Bound bound(small::input(small::llama(), "penstock"));
  Op& op = bound.find("forward", 2, 0, Pass::forward);
  std::erase_if(op.reads, [](const Access& access) { return access.value.tensor == TensorKind::weights; });
  EXPECT_NE(bound.error().find("has no weights among its reads and writes"), std::string::npos) << bound.error();
}

TEST(Bind, RefusesStatesThatMove) {
  Bound bound(small::input(small::llama(), "penstock"));
  for (Op& op : bound.schedule.ops)
    if (std::holds_alternative<OptimizerWork>(op.work))
      for (Access& access : op.writes)
        if (access.value.tensor == TensorKind::moment_v) access.offset_bytes += 64;
  EXPECT_NE(bound.error().find("second moment"), std::string::npos) << bound.error();
}

/// None is lost, whichever lanes it joins and whichever step it comes from: also those of drive lanes, across steps.
TEST(Bind, KeepsEveryOtherEdgeWithItsDistance) {
  for (const char* policy : {"penstock", "zero-infinity", "zero3-offload"}) {
    Bound bound(small::input(small::llama(), policy));
    const auto lane_of = [&](int op) {
      return bound.schedule.lanes[static_cast<std::size_t>(bound.schedule.ops[static_cast<std::size_t>(op)].lane)].kind;
    };
    const BoundSchedule bound_schedule = bound.bind();
    std::size_t kept = 0, to_drive_reads = 0;
    for (const Edge& edge : bound.schedule.edges) {
      const Op& from = bound.schedule.ops[static_cast<std::size_t>(edge.from)];
      const Op& to = bound.schedule.ops[static_cast<std::size_t>(edge.to)];
      if (from.lane == to.lane && (edge.distance == 1 || edge.from < edge.to)) continue;
      ++kept;
      to_drive_reads += edge.distance == 1 && lane_of(edge.to) == LaneKind::nvme_read ? 1u : 0u;
      const std::vector<Predecessor>& found = bound_schedule.ops[static_cast<std::size_t>(edge.to)].predecessors;
      EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                              [&](const Predecessor& p) {
                                return p.op == edge.from && p.distance == edge.distance &&
                                       p.on_gpu == is_gpu(lane_of(edge.from));
                              }))
          << policy << ": " << from.name << " -> " << to.name << ", distance " << edge.distance;
    }
    std::size_t bound_edges = 0;
    for (const BoundOp& op : bound_schedule.ops) bound_edges += op.predecessors.size();
    EXPECT_EQ(bound_edges, kept) << policy;
    if (std::string(policy) == "zero-infinity") {
      EXPECT_GT(to_drive_reads, 0u);
    }
  }
}

/// A memory that only copies reach.
class NoAddress : public Memory {
 public:
  explicit NoAddress(std::int64_t bytes) : bytes_(bytes) {}
  std::int64_t bytes() const override { return bytes_; }
  std::byte* address() const override { return nullptr; }
  std::int64_t alignment() const override { return 4096; }
  void read(std::int64_t, std::span<std::byte>) override {}
  void write(std::int64_t, std::span<const std::byte>) override {}

 private:
  std::int64_t bytes_;
};

TEST(Bind, RefusesAnOperandThatHasNoAddress) {
  Bound bound(small::input(small::llama(), "penstock"));
  for (std::size_t tier = 0; tier < bound.schedule.tiers.size(); ++tier)
    if (bound.schedule.tiers[tier].kind == TierKind::dram)
      bound.memories[tier] = std::make_unique<NoAddress>(bound.memories[tier]->bytes());
  EXPECT_NE(bound.error().find("lies in a tier without an address"), std::string::npos) << bound.error();
}

TEST(Bind, CopiesOfADriveMoveWholeBlocks) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.nvme_states = -1;
  Bound bound(in);
  for (std::size_t tier = 0; tier < bound.schedule.tiers.size(); ++tier)
    if (bound.schedule.tiers[tier].kind == TierKind::nvme)
      bound.memories[tier] = std::make_unique<NoAddress>(bound.memories[tier]->bytes());
  int copies = 0;
  for (const BoundOp& op : bound.bind().ops) {
    const auto* copy = std::get_if<BoundCopy>(&op.work);
    if (copy == nullptr || (copy->from.address() != nullptr && copy->to.address() != nullptr)) continue;
    ++copies;
    EXPECT_EQ(copy->from.bytes % 4096, 0) << op.op->name;
    EXPECT_EQ(copy->to.bytes, copy->from.bytes) << op.op->name;
    EXPECT_GE(copy->from.bytes, op.op->reads[0].bytes) << op.op->name;
    EXPECT_EQ(copy->from.offset % 4096 + copy->to.offset % 4096, 0) << op.op->name;
  }
  EXPECT_GT(copies, 0);
  // One byte off.
  for (Op& op : bound.schedule.ops)
    if (bound.schedule.lanes[static_cast<std::size_t>(op.lane)].kind == LaneKind::nvme_read)
      op.reads[0].offset_bytes += 1;
  EXPECT_NE(bound.error().find("both must be multiples of 4096"), std::string::npos) << bound.error();
}

TEST(Bind, LeavesOutEdgesThatLaneOrderImplies) {
  Bound bound(small::input(small::llama(), "penstock"));
  const Op& first = bound.find("forward", 1, 0, Pass::forward);
  const Op& second = bound.find("forward", 1, 1, Pass::forward);
  bound.schedule.edges = {{first.id, second.id, 0}, {second.id, first.id, 1}};
  for (const BoundOp& op : bound.bind().ops) EXPECT_TRUE(op.predecessors.empty()) << op.op->name;
}

}  // namespace
}  // namespace penstock::exec
