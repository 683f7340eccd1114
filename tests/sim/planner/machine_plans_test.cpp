#include "sim/planner/machine_plans.h"

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <set>

#include "sim/planner/candidate_text.h"
#include "tests/sim/planner/small_scenario.h"

namespace penstock::sim {
namespace {

SearchOptions options(int threads) {
  SearchOptions result;
  result.front = false;
  result.most_ops = 200'000;
  result.threads = threads;
  return result;
}

PlanningTask task(const std::string& name, const std::string& kind, double dram_share) {
  PlanningTask task{name, kind, test::small_machine()};
  task.machine.dram_bytes = static_cast<std::int64_t>(static_cast<double>(task.machine.dram_bytes) * dram_share);
  return task;
}

struct Planned {
  std::vector<SearchResult> plans;
  std::set<std::string> searched;  // those that were searched, not taken from a larger one
};

Planned plans(const std::vector<PlanningTask>& tasks, int threads) {
  const Scenario workload = test::small_scenario(small::llama());
  Planned planned;
  std::mutex mutex;
  planned.plans = plan_machines(workload, tasks, quick_space, options(threads),
                                [&](const std::string& name, const SearchProgress&) {
                                  const std::lock_guard lock(mutex);
                                  planned.searched.insert(name);
                                });
  return planned;
}

TEST(MachinePlans, ThePlanOfMoreMemoryIsThatOfLessWhereItFits) {
  const Planned planned = plans({task("less", "a", 1), task("most", "a", 4), task("other", "b", 1)}, 2);
  EXPECT_EQ(planned.searched, (std::set<std::string>{"most", "other"}));
  ASSERT_EQ(planned.plans.size(), 3u);
  for (const SearchResult& plan : planned.plans) ASSERT_EQ(plan.best.size(), 1u);
  EXPECT_EQ(planned.plans[0].best[0].step_seconds, planned.plans[1].best[0].step_seconds);
  // A search of the small one alone finds nothing faster than its tolerance.
  EXPECT_LE(planned.plans[0].best[0].step_seconds, planned.plans[2].best[0].step_seconds * 1.003);
}

TEST(MachinePlans, OneThatTheLargerPlanDoesNotFitIsSearchedItself) {
  PlanningTask large = task("large", "a", 1), small = task("small", "a", 1);
  // Little HBM, so that states wait in DRAM.
  for (PlanningTask* one : {&large, &small}) one->machine.gpu.hbm_bytes = (64 << 20) + 1'300'000;
  const Planned once = plans({large}, 1);
  ASSERT_EQ(once.plans[0].best.size(), 1u);
  const std::int64_t needed = once.plans[0].best[0].arenas.dram;
  ASSERT_GT(needed, 0);
  small.machine.reserve_bytes = 0;
  small.machine.dram_bytes = needed - 1;
  const Planned both = plans({small, large}, 1);
  EXPECT_TRUE(both.searched.contains("small"));
  EXPECT_TRUE(both.plans[0].best.empty() || both.plans[0].best[0].arenas.dram < needed);
  EXPECT_TRUE(!both.plans[0].best.empty() || both.plans[0].shortage.arenas.dram > 0);
}

TEST(MachinePlans, OneWhoseDriveIsTooSmallForTheLargerPlanIsSearchedItself) {
  PlanningTask large = task("large", "a", 0.13), small = task("small", "a", 0.13);
  for (PlanningTask* one : {&large, &small}) {
    one->machine.gpu.hbm_bytes = (64 << 20) + 1'300'000;
    one->machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
  }
  const std::int64_t needed = plans({large}, 1).plans[0].best.at(0).arenas.nvme;
  ASSERT_GT(needed, 0);
  small.machine.nvme.bytes = needed - 1;
  const Planned both = plans({large, small}, 1);  // of equal DRAM the first is searched first
  EXPECT_TRUE(both.searched.contains("small"));
  if (!both.plans[1].best.empty()) {
    EXPECT_LT(both.plans[1].best[0].arenas.nvme, needed);
  }
}

TEST(MachinePlans, AreTheSameWhateverTheNumberOfThreads) {
  std::vector<PlanningTask> tasks;
  for (const char* kind : {"a", "b", "c"})
    for (const double share : {1.0, 0.5, 2.0})
      tasks.push_back(task(std::string(kind) + std::to_string(share), kind, share));
  tasks[3].machine.gpu.matmul_flops_per_second *= 2;
  const Planned one = plans(tasks, 1), three = plans(tasks, 3);
  EXPECT_EQ(one.searched, three.searched);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    ASSERT_EQ(one.plans[i].best.size(), three.plans[i].best.size());
    if (one.plans[i].best.empty()) continue;
    EXPECT_EQ(candidate_text(one.plans[i].best[0].candidate), candidate_text(three.plans[i].best[0].candidate));
    EXPECT_EQ(one.plans[i].best[0].step_seconds, three.plans[i].best[0].step_seconds);
  }
}

TEST(MachinePlans, MoreMemoryIsNeverSlower) {
  std::vector<PlanningTask> tasks;
  for (const double share : {0.13, 0.14, 0.15, 0.2, 0.4, 1.0}) tasks.push_back(task(std::to_string(share), "a", share));
  for (PlanningTask& one : tasks) one.machine.gpu.hbm_bytes = (64 << 20) + 1'300'000;
  const Planned planned = plans(tasks, 2);
  ASSERT_FALSE(planned.plans.back().best.empty());
  double less = std::numeric_limits<double>::infinity();
  for (const SearchResult& plan : planned.plans) {
    if (plan.best.empty()) {
      EXPECT_EQ(less, std::numeric_limits<double>::infinity()) << "what less memory holds, more holds too";
      continue;
    }
    EXPECT_LE(plan.best[0].step_seconds, less);
    less = plan.best[0].step_seconds;
  }
}

TEST(MachinePlans, NoDriveIsWornWhereMemorySuffices) {
  PlanningTask large = task("large", "a", 1), small = task("small", "a", 0.13);
  for (PlanningTask* one : {&large, &small}) {
    one->machine.gpu.hbm_bytes = (64 << 20) + 1'300'000;
    one->machine.nvme.bytes = 1 << 24;
    // Free, and relieves DRAM: the plan of the small machine is the faster one.
    one->machine.nvme.read_bytes_per_second = one->machine.nvme.write_bytes_per_second = 1e12;
  }
  const Planned both = plans({small, large}, 1);
  ASSERT_FALSE(both.plans[0].best.empty());
  ASSERT_FALSE(both.plans[1].best.empty());
  EXPECT_GT(both.plans[0].best[0].arenas.nvme, 0);
  EXPECT_EQ(both.plans[1].best[0].arenas.nvme, 0);
}

}  // namespace
}  // namespace penstock::sim
