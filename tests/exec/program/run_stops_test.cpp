#include "exec/program/run_stops.h"

#include <gtest/gtest.h>

namespace penstock::exec {
namespace {

TEST(StopText, SaysWhatIsWaitedForAndForHowLong) {
  StopState state{1, "Ctrl-C", 100, 111, 112, 35, "ck", false};
  EXPECT_EQ(stop_text(state),
            "Ctrl-C: step 112 is finished first, in about 35 s; then it is saved to ck. Once more says what ending at "
            "once would lose");
  state.last = 113;
  state.seconds_left = -1;
  state.save = "";
  EXPECT_EQ(stop_text(state),
            "Ctrl-C: steps 112 to 113 are finished first; how long that takes is not known yet; then the run ends. "
            "Once more says what ending at once would lose");
  state.seconds_left = 0;
  EXPECT_NE(stop_text(state).find("finished first, which takes longer than was to be expected; then"),
            std::string::npos);
  state.done = 113;
  state.seconds_left = 0.5;
  EXPECT_EQ(stop_text(state).substr(0, 67), "Ctrl-C: the outstanding updates are finished first, in about 500 ms");
}

TEST(StopText, SaysWhatEndingAtOnceLoses) {
  StopState state{2, "SIGTERM", 100, 111, 112, 35, "ck", false};
  EXPECT_EQ(stop_text(state),
            "SIGTERM again: step 112 is finished first, in about 35 s. A third time ends the run at once: steps 101 "
            "to 112 would be lost and nothing saved to ck");
  state.save = "";
  EXPECT_NE(stop_text(state).find("would be lost, as at its end, for there is no --save"), std::string::npos);
  state.last = state.done = 100;
  EXPECT_NE(stop_text(state).find("nothing would be lost"), std::string::npos);
  EXPECT_EQ(stop_text({3, "SIGTERM", 0, 11, 12, 35, "ck", false}),
            "SIGTERM for the third time: ended within step 12: steps 1 to 12 would be lost and nothing saved to ck");
}

TEST(StopText, BeforeTheFirstStepNothingIsLost) {
  StopState state{1, "Ctrl-C", 0, 0, 0, -1, "ck", false};
  state.has_begun = false;
  EXPECT_EQ(stop_text(state), "Ctrl-C: ended before the first step: nothing is lost");
}

TEST(StopText, WritingIsNeverCutShort) {
  for (const int wishes : {1, 2, 3, 7})
    EXPECT_EQ(stop_text({wishes, "Ctrl-C", 0, 4, 4, 0, "ck", true}),
              "Ctrl-C: what was trained is being written and ends by itself");
}

}  // namespace
}  // namespace penstock::exec
