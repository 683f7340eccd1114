#include "shared/ir/contributions.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

int chain(Contributions& contributions, std::initializer_list<int> micro_batches) {
  int set = Contributions::kEmpty;
  for (const int m : micro_batches) set = contributions.add(set, m, 100 + m).set;
  return set;
}

TEST(Contributions, CountsAndFindsTheFirstGap) {
  Contributions contributions;
  const int whole = chain(contributions, {0, 1, 2, 3});
  EXPECT_EQ(contributions.count(whole), 4);
  EXPECT_EQ(contributions.first_gap(whole, 4).micro_batch, -1);
  EXPECT_EQ(contributions.first_gap(whole, 5).micro_batch, 4);  // behind the end: nobody added a later one
  EXPECT_EQ(contributions.first_gap(whole, 5).after_op, -1);
  EXPECT_EQ(contributions.first_gap(Contributions::kEmpty, 2).micro_batch, 0);

  const auto gap = contributions.first_gap(chain(contributions, {0, 2, 5}), 6);
  EXPECT_EQ(gap.micro_batch, 1);
  EXPECT_EQ(gap.after_op, 102);
  const auto front = contributions.first_gap(chain(contributions, {1, 2}), 3);
  EXPECT_EQ(front.micro_batch, 0);
  EXPECT_EQ(front.after_op, 101);
}

TEST(Contributions, TellsTwiceFromOutOfOrder) {
  Contributions contributions;
  const int set = chain(contributions, {0, 2});
  const auto twice = contributions.add(set, 0, 7);
  EXPECT_EQ(twice.fault, Contributions::Fault::twice);
  EXPECT_EQ(twice.other_op, 100);
  EXPECT_EQ(twice.set, set);
  const auto late = contributions.add(set, 1, 7);
  EXPECT_EQ(late.fault, Contributions::Fault::out_of_order);
  EXPECT_EQ(late.other_op, 102);
}

// Sets never change: two sums may grow from one.
TEST(Contributions, Branches) {
  Contributions contributions;
  const int common = chain(contributions, {0});
  const int left = contributions.add(common, 1, 1).set, right = contributions.add(common, 2, 2).set;
  EXPECT_EQ(contributions.first_gap(left, 3).micro_batch, 2);
  EXPECT_EQ(contributions.first_gap(right, 3).micro_batch, 1);
}

}  // namespace
}  // namespace penstock
