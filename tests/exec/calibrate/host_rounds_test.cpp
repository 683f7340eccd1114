#include "exec/calibrate/host_rounds.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace penstock::exec {
namespace {

TEST(HostRounds, TheMedianOfEachFigureCountsAndHowFarItsRoundsLieApartIsKept) {
  HostRounds rounds;
  for (const double rate : {5.0, 8.0, 6.0}) {
    rounds.add_adamw(4, rate / 2);
    rounds.add_adamw(8, rate);
    rounds.add(HostPassPoint{"sum", 8, 100, 1 / rate});
    rounds.add(HostPassPoint{"sum", 8, 200, 2 / rate});
    rounds.add(DramSharing{8, true, false, 10 * rate, 50, 0});
    rounds.add(DramSharing{8, true, true, rate, 40 + rate, 30});
  }
  Cpu cpu;
  std::map<std::string, double> spread{{"sum", 0.9}, {"adamw 8", 0.1}};
  rounds.fill(cpu, spread);
  ASSERT_EQ(cpu.adamw_by_threads.size(), 2u);
  EXPECT_EQ(cpu.adamw_by_threads[0].threads, 4);
  EXPECT_DOUBLE_EQ(cpu.adamw_by_threads[0].per_second, 3);
  EXPECT_DOUBLE_EQ(cpu.adamw_by_threads[1].per_second, 6);
  ASSERT_EQ(cpu.passes.size(), 2u);
  EXPECT_DOUBLE_EQ(cpu.passes[0].seconds, 1.0 / 6);
  EXPECT_DOUBLE_EQ(cpu.passes[1].seconds, 2.0 / 6);
  EXPECT_EQ(cpu.passes[1].bytes, 200);
  ASSERT_EQ(cpu.sharing.size(), 2u);
  EXPECT_DOUBLE_EQ(cpu.sharing[0].cpu_bytes_per_second, 60);
  EXPECT_DOUBLE_EQ(cpu.sharing[0].h2d_bytes_per_second, 50);
  EXPECT_TRUE(cpu.sharing[1].d2h);
  EXPECT_DOUBLE_EQ(cpu.sharing[1].h2d_bytes_per_second, 46);
  EXPECT_DOUBLE_EQ(spread["adamw 8"], 0.5);
  EXPECT_DOUBLE_EQ(spread["sum"], 0.9);  // within a round they lay further apart
  EXPECT_DOUBLE_EQ(spread["AdamW 8 beside h2d d2h"], 0.5);
}

}  // namespace
}  // namespace penstock::exec
