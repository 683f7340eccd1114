// When a run has come to nothing.
#include "exec/program/run_updates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace penstock::exec {
namespace {

StepReport step(std::int64_t number, bool skipped, double loss = 1) {
  StepReport report;
  report.step = number;
  report.skipped = skipped;
  report.loss = loss;
  report.trained_tokens = 8;
  return report;
}

std::string failure(const RunUpdates& updates, const std::string& save = "") {
  try {
    require_updates(updates, save);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(RunUpdates, AllSkippedIsAFailure) {
  const RunUpdates updates = count_updates(std::vector{step(8, true, NAN), step(9, true, NAN)}, true);
  EXPECT_EQ(updates.skipped, 2);
  EXPECT_EQ(updates.first_skipped, 8);
  EXPECT_EQ(
      failure(updates).find("none of the 2 steps updated anything: the gradient norm was not finite since step 8"), 0u);
  EXPECT_NE(failure(updates, "c").find("nothing is saved, c is what it was before"), std::string::npos);
}

TEST(RunUpdates, SomeSkippedIsSaid) {
  const RunUpdates updates = count_updates(std::vector{step(1, false), step(2, true, NAN), step(3, false)}, true);
  EXPECT_EQ(failure(updates), "");
  EXPECT_EQ(updates_text(updates),
            "1 of 3 steps updated nothing, for their gradient norm was not finite; the first was step 2\n");
  const nlohmann::ordered_json json = updates_json(updates);
  EXPECT_EQ(json.dump(), R"({"applied":2,"skipped":1,"first_skipped":2})");
}

TEST(RunUpdates, StepsWithoutALabelAreSaidApart) {
  std::vector<StepReport> reports{step(1, false), step(2, true, 0)};
  reports[1].trained_tokens = 0;
  const RunUpdates updates = count_updates(reports, true);
  EXPECT_EQ(updates_text(updates),
            "1 of 2 steps updated nothing, for none of their tokens is trained on; the first was step 2\n");
  reports.erase(reports.begin());
  EXPECT_EQ(failure(count_updates(reports, true)).find("none of the 1 steps updated anything: 1 of them had no token"),
            0u);
}

TEST(RunUpdates, GoodAndEmptyRunsAreNone) {
  EXPECT_EQ(failure(count_updates(std::vector{step(1, false)}, true)), "");
  EXPECT_EQ(updates_text(count_updates(std::vector{step(1, false)}, true)), "");
  EXPECT_EQ(failure(count_updates({}, true)), "");  // stopped before the first
}

TEST(RunUpdates, WithoutClippingNaNIsForGood) {
  const double nan = NAN;
  EXPECT_NE(failure(count_updates(std::vector{step(1, false), step(2, false, nan), step(3, false, INFINITY)}, false))
                .find("not finite since step 2"),
            std::string::npos);
  // One loss may overflow where the states did not.
  EXPECT_EQ(failure(count_updates(std::vector{step(1, false), step(2, false, nan), step(3, false)}, false)), "");
  // With clipping the norm tells, and has stopped the update.
  EXPECT_EQ(failure(count_updates(std::vector{step(1, false), step(2, true, nan)}, true)), "");
}

}  // namespace
}  // namespace penstock::exec
