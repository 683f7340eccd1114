#include <gtest/gtest.h>

#include "shared/machine/machine.h"

namespace penstock {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Machine desktop(std::int64_t hbm_bytes, std::int64_t dram_bytes) {
  Machine machine;
  machine.gpu.hbm_bytes = hbm_bytes;
  machine.dram_bytes = dram_bytes;
  return machine;
}

TEST(UsableMemory, WhereNobodySaysSoTheUsualIsKept) {
  const Machine machine = desktop(24 * kGiB, 64 * kGiB);
  EXPECT_EQ(context_bytes(machine), kGiB + 24 * kGiB / 100);
  EXPECT_EQ(reserve_bytes(machine), 1536 * kMiB + 64 * kGiB / 100 * 4);
  const TierCapacities usable = usable_memory(machine);
  EXPECT_EQ(usable.hbm, 24 * kGiB - context_bytes(machine));
  EXPECT_EQ(usable.dram, 64 * kGiB - reserve_bytes(machine));
}

TEST(UsableMemory, AServerOf1500GbStillHolds1402GbOfArenas) {
  EXPECT_GE(usable_memory(desktop(141'000'000'000, 1'500'000'000'000)).dram, 1'402'000'000'000);
}

TEST(UsableMemory, WhatIsGivenIsKeptAndNothingElse) {
  Machine machine = desktop(24 * kGiB, 64 * kGiB);
  machine.gpu.context_bytes = 5 * kMiB;
  machine.reserve_bytes = 0;
  machine.nvme.bytes = 7;
  const TierCapacities usable = usable_memory(machine);
  EXPECT_EQ(usable.hbm, 24 * kGiB - 5 * kMiB);
  EXPECT_EQ(usable.dram, 64 * kGiB);
  EXPECT_EQ(usable.nvme, 7);
}

TEST(UsableMemory, AProfilesCapacitiesAreWithoutTheSystemsShare) {
  Machine machine = desktop(150'109'880'320, 134'377'406'464);
  machine.measured = true;
  EXPECT_EQ(context_bytes(machine), 832 * kMiB);
  EXPECT_EQ(reserve_bytes(machine), kGiB + 134'377'406'464 / 100 * 2);
}

TEST(UsableMemory, WhereTheCpuPlaysTheGpuNothingIsKept) {
  Machine machine = desktop(2 * kGiB, 4 * kGiB);
  machine.gpu.is_host = true;
  EXPECT_EQ(usable_memory(machine).hbm, 2 * kGiB);
  EXPECT_EQ(usable_memory(machine).dram, 4 * kGiB);
}

TEST(UsableMemory, AWhatIfOfATinyMachineLosesAQuarterAndNoneMoreThanItHas) {
  Machine machine = desktop(40 * kMiB, 80 * kMiB);
  EXPECT_EQ(usable_memory(machine).hbm, 30 * kMiB);
  EXPECT_EQ(usable_memory(machine).dram, 60 * kMiB);
  machine.reserve_bytes = 81 * kMiB;
  EXPECT_EQ(usable_memory(machine).dram, 0);
}

}  // namespace
}  // namespace penstock
