// A series of checkpoints: whatever ends the process, and wherever, the newest whole one is found and gone on from.
#include "exec/checkpoint/checkpoint_series.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <set>
#include <stdexcept>

#include "tests/exec/checkpoint/faulty_calls.h"
#include "tests/exec/checkpoint/small_checkpoint.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

class CheckpointSeriesTest : public testing::Test {
 protected:
  CheckpointSeriesTest() : run_(small::input(small::llama(), "resident")) { run_.training().load(*random_states(3)); }

  void save(CheckpointSeries& series, std::int64_t step) {
    save_checkpoint(*series.target(step), {step, description_of(run_)}, run_.schedule(), run_.model(),
                    run_.training().states());
    series.remove_old(step);
  }
  void save_with(FileCalls& calls, std::int64_t step) {
    CheckpointSeries series(place(), 1, calls);
    save(series, step);
  }
  std::int64_t newest() const {
    std::vector<std::string> passed_over;
    const auto found = newest_checkpoint(place(), passed_over);
    return found ? found->step : 0;
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const fs::directory_entry& entry : fs::directory_iterator(place()))
      all.insert(entry.path().filename().string());
    return all;
  }
  fs::path place() const { return folder_.path() / "c"; }

  TemporaryFolder folder_;
  SmallRun run_;
};

TEST_F(CheckpointSeriesTest, ADiskThatIsFullLeavesWhatWasThere) {
  FaultyCalls calls;
  CheckpointSeries series(place(), 1, calls);
  save(series, 2);
  calls.fail_at = calls.calls + 20;  // in the midst of the next one
  calls.error = ENOSPC;
  EXPECT_THROW(save(series, 4), std::exception);
  EXPECT_EQ(newest(), 2);
  save(series, 6);
  EXPECT_EQ(newest(), 6);
  EXPECT_EQ(names(), (std::set<std::string>{"step-6", "steps.lock"}));
}

TEST_F(CheckpointSeriesTest, AProcessThatIsKilledAnywhereLeavesAWholeOne) {
  save_with(system_calls(), 2);
  FaultyCalls counting;
  save_with(counting, 4);
  const int calls = counting.calls;
  std::set<std::int64_t> seen;
  for (int at = 0; at < calls; at += 3) {
    fs::remove_all(place());
    save_with(system_calls(), 2);
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyCalls dying;
      dying.kill_at = at;
      save_with(dying, 4);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << at;
    seen.insert(newest());
    ASSERT_TRUE(newest() == 2 || newest() == 4) << at;
    // Whoever saves next, under whichever number, takes up what was left.
    save_with(system_calls(), 7);
    ASSERT_EQ(names(), (std::set<std::string>{"step-7"})) << at;
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{2, 4}));
}

TEST_F(CheckpointSeriesTest, OnlyItsOwnNamesAreTouched) {
  fs::create_directory(place());
  for (const char* name : {"c/step-1.txt", "c/step-01/run.json", "c/step-/run.json", "c/step-2x", "c/step--3/run.json"})
    folder_.write(name, "mine");
  CheckpointSeries series(place(), 1);
  save(series, 2);
  save(series, 3);
  EXPECT_EQ(names(),
            (std::set<std::string>{"step-1.txt", "step-01", "step-", "step-2x", "step--3", "step-3", "steps.lock"}));
  EXPECT_EQ(newest(), 3);
}

TEST_F(CheckpointSeriesTest, OneRunAtATime) {
  const CheckpointSeries series(place(), 1);
  EXPECT_MENTIONS(error_text([&] { CheckpointSeries(place(), 1); }), "another run saves there");
}

TEST_F(CheckpointSeriesTest, AFolderThatNothingWasSavedToIsGone) {
  { const CheckpointSeries series(place(), 1); }
  EXPECT_FALSE(fs::exists(place()));
  fs::create_directory(place());
  { const CheckpointSeries series(place(), 1); }
  EXPECT_TRUE(fs::exists(place()));
}

}  // namespace
}  // namespace penstock::exec
