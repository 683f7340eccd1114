#include <gtest/gtest.h>

#include "sim/validate/validation.h"

namespace penstock::sim {
namespace {

PublishedRow row(double measured, double error) {
  PublishedRow row;
  row.system = "rival";
  row.machine = "card";
  row.model = "7b";
  row.signed_error = error;
  row.step_seconds = Pair{measured * (1 + error), measured};
  row.step_range = {0.9 * measured, 1.1 * measured};
  return row;
}

std::vector<GroupErrors> all_of(const std::vector<PublishedRow>& rows) {
  return group_errors(rows, [](const PublishedRow&) { return true; });
}

// Steps of 100, 200, ... 1100 s, off by -1, +2, -3, ... -11 %.
std::vector<PublishedRow> eleven() {
  std::vector<PublishedRow> rows;
  for (int i = 1; i <= 11; ++i) rows.push_back(row(100 * i, (i % 2 == 0 ? 0.01 : -0.01) * i));
  return rows;
}

TEST(GroupErrors, SummarizesOneGroup) {
  const std::vector<GroupErrors> groups = all_of(eleven());
  ASSERT_EQ(groups.size(), 1u);
  const GroupErrors& group = groups[0];
  EXPECT_EQ(group.rows, 11);
  EXPECT_NEAR(group.mean, 0.06, 1e-12);
  EXPECT_NEAR(group.mean_signed, -0.06 / 11, 1e-12);  // -1 + 2 - 3 ... - 11
  EXPECT_NEAR(group.ninth_decile, 0.10, 1e-12);       // ten of eleven, the fewest that are nine tenths, are no larger
  EXPECT_NEAR(group.maximum, 0.11, 1e-12);
  // Predicted as 864 and 819 s, and as 1100 and 979: two of 55 pairs in the wrong order.
  EXPECT_EQ(group.pairs, 55);
  EXPECT_NEAR(group.tau, 51.0 / 55, 1e-12);
}

TEST(GroupErrors, AStepOutsideOfTheRangeOnEitherSideIsOutside) {
  std::vector<PublishedRow> rows = eleven();
  rows[0].step_range = {101, 200};
  rows[1].step_range = {100, 199};
  EXPECT_EQ(all_of(rows)[0].in_range, 9);
}

TEST(GroupErrors, NoOrderIsAskedOfStepsThatDifferByNoise) {
  // The second pair differs by 1 %, the first by 2.
  EXPECT_EQ(all_of({row(100, 0), row(102, -0.1)})[0].tau, -1);
  EXPECT_EQ(all_of({row(100, 0), row(101, -0.1)})[0].pairs, 0);
}

TEST(GroupErrors, OrderIsOfOneWorkload) {
  std::vector<PublishedRow> rows{row(100, 0), row(200, 0)};
  rows[1].model = "14b";
  EXPECT_EQ(all_of(rows)[0].pairs, 0);
  rows[1].machine = "another card";
  EXPECT_EQ(all_of(rows).size(), 2u);
}

}  // namespace
}  // namespace penstock::sim
