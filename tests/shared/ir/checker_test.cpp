#include "shared/ir/checker.h"

#include <gtest/gtest.h>

#include "tests/shared/ir/small_schedule.h"

namespace penstock {
namespace {

std::string all_texts(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) text += fault.text + "\n";
  return text;
}

TEST(Checker, AcceptsTheSmallSchedule) { EXPECT_EQ(all_texts(check_schedule(small_schedule())), ""); }
TEST(Checker, AcceptsTiedEmbeddings) {
  SmallOptions options;
  options.tied = true;
  EXPECT_EQ(all_texts(check_schedule(small_schedule(options))), "");
}
TEST(Checker, AcceptsSumsOnTheHost) {
  SmallOptions options;
  options.sum_on_host = true;
  EXPECT_EQ(all_texts(check_schedule(small_schedule(options))), "");
}

}  // namespace
}  // namespace penstock
