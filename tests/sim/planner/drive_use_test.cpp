// What a hand-made step does with a drive, and how fast that wears it.
#include "sim/planner/drive_use.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::sim {
namespace {

/// Two reads, of 5000 and of 4096 bytes, and two writes of 5000: whole blocks of 4096 move.
Schedule step_over_a_drive() {
  Schedule schedule;
  schedule.tiers = {{TierKind::dram, 0, 1 << 20}, {TierKind::nvme, 0, 1 << 20}};
  schedule.lanes = {{"nvme read", LaneKind::nvme_read}, {"nvme write", LaneKind::nvme_write}};
  schedule.buffers = {{"slot", 0, 0, 8192}, {"home", 1, 0, 8192}};
  const auto copy = [&schedule](int lane, std::int64_t bytes) {
    const Value moments{TensorKind::moment_m, 0};
    const Access dram{0, 0, bytes, moments}, drive{1, 0, bytes, moments};
    Op op;
    op.id = static_cast<int>(schedule.ops.size());
    op.lane = lane;
    op.work = CopyWork{{{bytes, 1}}};
    op.reads = {lane == 0 ? drive : dram};
    op.writes = {lane == 0 ? dram : drive};
    schedule.ops.push_back(op);
  };
  copy(0, 5000);
  copy(0, 4096);
  copy(1, 5000);
  copy(1, 5000);
  return schedule;
}

Nvme rated(double bytes) {
  Nvme drive;
  drive.endurance_bytes = bytes;
  return drive;
}

TEST(DriveUse, CountsWholeBlocksEachWay) {
  const DriveUse use = drive_use(step_over_a_drive());
  EXPECT_EQ(use.read_bytes, 8192 + 4096);
  EXPECT_EQ(use.written_bytes, 2 * 8192);
}

// 16384 bytes in each of 43 200 steps of 2 s.
TEST(DriveUse, WhatIsWrittenWearsItAndWhatIsReadDoesNot) {
  const DriveUse use = drive_use(step_over_a_drive());
  EXPECT_DOUBLE_EQ(written_bytes_per_day(use, 2), 16384.0 * 43200);
  EXPECT_DOUBLE_EQ(endurance_days(use, rated(16384.0 * 43200 * 500), 2), 500);
  EXPECT_EQ(written_bytes_per_day(use, 0), 0);
  EXPECT_EQ(endurance_days(use, rated(1e12), 0), 0);
  EXPECT_EQ(endurance_days(use, rated(0), 2), 0);
}

TEST(DriveUse, OfOneThatIsOnlyReadNoEndSaysItself) {
  Schedule schedule = step_over_a_drive();
  schedule.ops.resize(2);
  EXPECT_EQ(endurance_days(drive_use(schedule), rated(1e12), 2), 0);
  nlohmann::ordered_json json;
  put_drive(json, schedule, rated(1e12), 2);
  EXPECT_EQ(json["nvme"]["written_bytes_per_day"], 0);
  EXPECT_FALSE(json["nvme"].contains("endurance_days"));
}

TEST(DriveUse, WarnsOfADriveThatIsWornOutWithinHalfAYear) {
  const double day = 16384.0 * 43200;
  const auto warned = [&](double days) {
    return drive_text(step_over_a_drive(), rated(day * days), 2).find("WEAR: ") != std::string::npos;
  };
  EXPECT_TRUE(warned(179));
  EXPECT_FALSE(warned(181));
  EXPECT_FALSE(warned(0));  // not known
}

}  // namespace
}  // namespace penstock::sim
