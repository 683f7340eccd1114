#include "sim/validate/error_bar.h"

#include <gtest/gtest.h>

namespace penstock::sim {
namespace {

// Off by 25 % of what is measured: 10 s are predicted for 8 s (2 too many, a quarter of 8) and for 13.33 s (3.33 too
// few, a quarter of 13.33). Where 100 tokens/s are predicted, the same steps make 125 and 75.
TEST(ErrorBar, IsAShareOfWhatIsMeasured) {
  const Range step = step_range(10, {-0.25, 0.25});
  EXPECT_DOUBLE_EQ(step.low, 8);
  EXPECT_DOUBLE_EQ(step.high, 10 / 0.75);
  const Range rate = rate_range(100, {-0.25, 0.25});
  EXPECT_DOUBLE_EQ(rate.low, 75);
  EXPECT_DOUBLE_EQ(rate.high, 125);
  EXPECT_DOUBLE_EQ(rate.high * step.low, rate.low * step.high);  // both say 1000 tokens per step
}

TEST(ErrorBar, IsThatOfTheClassUnlessTheFileHasItsOwn) {
  Machine machine;
  EXPECT_EQ(step_error_share(step_error_range(machine)), 0.27);
  machine.rates = RateClass::inferred;
  EXPECT_EQ(step_error_range(machine).low, kInferredRange.low);
  EXPECT_EQ(step_error_range(machine).high, kInferredRange.high);
  machine.rates = RateClass::measured;
  EXPECT_EQ(step_error_range(machine).high, kMeasuredRange.high);
  machine.error = ErrorRange{-0.1, 0.2};  // a file that knows how far it was off
  EXPECT_EQ(step_error_range(machine).low, -0.1);
  EXPECT_EQ(step_error_share(step_error_range(machine)), 0.2);
  machine.measured = true;
  EXPECT_EQ(step_error_range(machine).low, kProfileRange.low);
  EXPECT_EQ(step_error_range(machine).high, kProfileError);
}

}  // namespace
}  // namespace penstock::sim
