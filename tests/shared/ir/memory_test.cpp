#include "shared/ir/memory.h"

#include <gtest/gtest.h>

#include "shared/error.h"
#include "shared/ir/checker.h"
#include "tests/shared/ir/small_schedule.h"

namespace penstock {
namespace {

std::int64_t phase(const TierMemory& memory, MemoryPhase at) {
  return memory.phase_bytes[static_cast<std::size_t>(at)];
}

/// Two ops of each phase on one host lane; buffers of 100 bytes (a), 10 (b) and 1 (c).
Schedule phases() {
  Schedule schedule = small_schedule();
  schedule.ops.clear();
  schedule.edges.clear();
  schedule.initial.clear();
  schedule.tiers = {{TierKind::dram, 0, 1000}};
  schedule.buffers = {{"a", 0, 0, 100}, {"b", 0, 128, 10}, {"c", 0, 256, 1}};
  for (int i = 0; i < 8; ++i) {
    Op op;
    op.id = i;
    op.lane = 3;
    op.phase = static_cast<Phase>(i / 2);
    op.work = HostPassWork{};
    schedule.ops.push_back(op);
  }
  return schedule;
}

Access whole(const Schedule& schedule, int buffer, TensorKind tensor) {
  return {buffer, 0, schedule.buffers[static_cast<std::size_t>(buffer)].bytes, {tensor, 1, 0, 0}};
}

// a is written in forward and read in backward: live in forward, loss and backward. b lives in loss only.
TEST(Memory, CountsWhatIsHeldBetweenWriteAndRead) {
  Schedule schedule = phases();
  schedule.ops[1].writes = {whole(schedule, 0, TensorKind::kept)};
  schedule.ops[4].reads = {whole(schedule, 0, TensorKind::kept)};
  schedule.ops[2].writes = {whole(schedule, 1, TensorKind::workspace)};
  const TierMemory memory = schedule_memory(schedule).at(0);
  EXPECT_EQ(memory.arena_bytes, 257);
  EXPECT_EQ(phase(memory, MemoryPhase::load), 0);
  EXPECT_EQ(phase(memory, MemoryPhase::forward), 100);
  EXPECT_EQ(phase(memory, MemoryPhase::loss), 110);
  EXPECT_EQ(phase(memory, MemoryPhase::backward), 100);
  EXPECT_EQ(phase(memory, MemoryPhase::optimizer), 0);
  EXPECT_EQ(phase(memory, MemoryPhase::first_step), 110);
  EXPECT_EQ(memory.contents, (std::vector<std::pair<std::string, std::int64_t>>{
                                 {"unused", 147}, {"activations", 100}, {"workspace", 10}}));
}

// b is written in the optimizer and read in the next step's loss: not live in backward, live at the step's end and
// start.
TEST(Memory, CountsWhatIsHeldAcrossSteps) {
  Schedule schedule = phases();
  schedule.ops[2].reads = {whole(schedule, 1, TensorKind::tokens)};
  schedule.ops[6].writes = {whole(schedule, 1, TensorKind::tokens)};
  const TierMemory memory = schedule_memory(schedule).at(0);
  EXPECT_EQ(phase(memory, MemoryPhase::forward), 10);
  EXPECT_EQ(phase(memory, MemoryPhase::loss), 10);
  EXPECT_EQ(phase(memory, MemoryPhase::backward), 0);
  EXPECT_EQ(phase(memory, MemoryPhase::optimizer), 10);
}

// Written again before it is read: nothing is held in between.
TEST(Memory, CountsNothingBetweenTwoWrites) {
  Schedule schedule = phases();
  for (const int op : {0, 5})
    schedule.ops[static_cast<std::size_t>(op)].writes = {whole(schedule, 0, TensorKind::gradient_sum)};
  schedule.ops[6].reads = {whole(schedule, 0, TensorKind::gradient_sum)};
  const TierMemory memory = schedule_memory(schedule).at(0);
  EXPECT_EQ(phase(memory, MemoryPhase::forward), 100);
  EXPECT_EQ(phase(memory, MemoryPhase::loss), 0);
  EXPECT_EQ(phase(memory, MemoryPhase::backward), 100);
  EXPECT_EQ(phase(memory, MemoryPhase::optimizer), 100);
}

TEST(Memory, CountsStatesInEveryPhaseAndStagesOneLayer) {
  const std::vector<TierMemory> memory = schedule_memory(small_schedule());
  // Elements, padded to 64: embedding and projection 128 x 64 = 8192; decoder 64 (norm) + (4 x 32) x 64 (qkv) + 64 x 64
  // (o) + 64 (norm) + 256 x 64 (gate, up) + 64 x 128 (down) = 36992; head 64 + 8192 = 8256.
  const std::int64_t elements = 8192 + 2 * 36992 + 8256;
  EXPECT_EQ(memory[1].tier.kind, TierKind::dram);
  EXPECT_EQ(phase(memory[1], MemoryPhase::load), 12 * elements);
  EXPECT_EQ(phase(memory[1], MemoryPhase::save), 12 * (elements + 36992));
  EXPECT_EQ(phase(memory[1], MemoryPhase::resume), 12 * (elements + 36992));
  // The optimizer also has the gradients (bf16), the norm partials, scalars, losses; fp32 sums until they are finished.
  // Tokens are read in forward only.
  EXPECT_EQ(phase(memory[1], MemoryPhase::optimizer), 12 * elements + 2 * elements + 4 * elements + 4 * 8 + 64 + 3 * 8);
  EXPECT_EQ(memory[1].contents.at(0), (std::pair<std::string, std::int64_t>{"moments", 8 * elements}));
  // Nothing stays in HBM between steps.
  EXPECT_EQ(phase(memory[0], MemoryPhase::load), 0);
  EXPECT_EQ(phase(memory[0], MemoryPhase::save), 0);
  EXPECT_EQ(memory[0].peak_phase, MemoryPhase::backward);
  EXPECT_LE(memory[0].peak_bytes, memory[0].arena_bytes);
}

// 10000 ranges nested in one another make 10000 x 10000 visits: refused, not waited for.
TEST(Memory, RefusesAccessesThatOverlapTooFinely) {
  Schedule schedule = phases();
  schedule.buffers[0].bytes = 20000;
  schedule.tiers[0].capacity_bytes = 30000;
  for (int i = 0; i < 10000; ++i)
    schedule.ops[0].reads.push_back({0, i, 20000 - 2 * i, {TensorKind::weights, 1, 0, -1}});
  schedule.buffers[1].offset_bytes = 20224;
  schedule.buffers[2].offset_bytes = 20480;
  EXPECT_THROW(schedule_memory(schedule), InputError);
  const std::vector<Fault> faults = check_schedule(schedule);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_NE(faults[0].text.find("too large to be checked"), std::string::npos) << faults[0].text;
}

TEST(Memory, NamesItsPhases) {
  EXPECT_STREQ(memory_phase_name(MemoryPhase::load), "load");
  EXPECT_STREQ(memory_phase_name(MemoryPhase::resume), "resume");
}

}  // namespace
}  // namespace penstock
