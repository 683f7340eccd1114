// Runs whose states are on a drive: the same bits wherever they are, and a drive that fails ends the run with what
// failed.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tests/exec/runtime/small_run.h"
#include "tests/exec/store/faulty_queue.h"
#include "tests/exec/store/small_store.h"

namespace penstock::exec {
namespace {

constexpr int kSteps = 3;

class DriveRunsTest : public testing::Test {
 protected:
  /// Over two files, with direct I/O where the file system does it.
  std::unique_ptr<BlockStore> store(std::int64_t bytes, std::unique_ptr<IoQueue> reader,
                                    std::unique_ptr<IoQueue> writer) const {
    for (const char* name : {"a", "b"}) std::filesystem::create_directories(folder_.path() / name);
    StorePlace place = store_place({folder_.path() / "a", folder_.path() / "b"});
    place.direct = does_direct_io(folder_.path());
    return std::make_unique<BlockStore>(place, store_shape(bytes, 32 << 10), std::move(reader), std::move(writer));
  }
  RunBits bits(const PolicyInput& in, const std::function<std::unique_ptr<IoQueue>()>& queue) const {
    SmallRun run(in, 7, [&](std::int64_t bytes) { return store(bytes, queue(), queue()); });
    run.training().load(*random_states(3));
    run.training().run(run.options(kSteps));
    run.bits().states = run.training().states().fingerprint();
    return run.bits();
  }
  static PolicyInput on_drive(int states, int weights, TierKind gradients, int slots = 2) {
    PolicyInput in = small::input(small::qwen2_tied(), "penstock");
    in.parameters.nvme_states = states;
    in.parameters.nvme_weights = weights;
    in.parameters.nvme_slots = slots;
    in.parameters.gradients = gradients;
    return in;
  }
  /// Kept activations and sums of gradients there, by groups of one micro-batch.
  static PolicyInput passes_on_drive(PolicyInput in, int slots) {
    in.parameters.group = 1;
    in.parameters.keep = Keep::input_attention;
    in.parameters.activations = in.parameters.gradient_sums = TierKind::nvme;
    in.parameters.activation_slots = in.parameters.gradient_slots = slots;
    return in;
  }
  /// What ends a run whose transfers fail as told.
  std::string failure(std::map<int, IoFault> reads, std::map<int, IoFault> writes,
                      const std::function<void(int)>& before_wait = {}, double watchdog_seconds = 0) const {
    SmallRun run(on_drive(-1, -1, TierKind::nvme), 7, [&](std::int64_t bytes) {
      return store(bytes, std::make_unique<FaultyQueue>(make_thread_queue(2), reads, before_wait),
                   std::make_unique<FaultyQueue>(make_thread_queue(2), writes));
    });
    TrainingOptions options = run.options(kSteps);
    if (watchdog_seconds > 0) options.executor.watchdog_seconds = watchdog_seconds;
    return failure_text([&] {
      run.training().load(*random_states(3));
      run.training().run(options);
    });
  }

  TemporaryFolder folder_;
};

TEST_F(DriveRunsTest, TheBitsAreTheSameWhereverStatesAndGradientsAre) {
  const RunBits reference = run_bits(small::input(small::qwen2_tied(), "penstock"), kSteps);
  const auto threads = [] { return make_thread_queue(3); };
  for (const PolicyInput& in :
       {on_drive(-1, 0, TierKind::dram), on_drive(-1, -1, TierKind::nvme), on_drive(2, 0, TierKind::nvme),
        on_drive(1, 3, TierKind::dram, 1), on_drive(0, 2, TierKind::dram), on_drive(3, 1, TierKind::nvme, 3)}) {
    EXPECT_EQ(bits(in, threads), reference) << in.parameters.nvme_states << " " << in.parameters.nvme_weights;
    if (make_uring_queue(1) != nullptr) {
      EXPECT_EQ(bits(in, [] { return make_uring_queue(8); }), reference) << "io_uring " << in.parameters.nvme_states;
    }
  }
  for (const int slots : {1, 2}) {
    EXPECT_EQ(bits(passes_on_drive(on_drive(0, 0, TierKind::dram), slots), threads), reference) << slots;
    EXPECT_EQ(bits(passes_on_drive(on_drive(-1, -1, TierKind::nvme), slots), threads), reference) << slots;
  }
  // In all three tiers at once.
  PolicyInput mixed = on_drive(2, 1, TierKind::dram);
  mixed.parameters.resident_states = 1;
  EXPECT_EQ(bits(mixed, threads), reference);
}

TEST_F(DriveRunsTest, ShortTransfersChangeNothing) {
  const RunBits reference = run_bits(small::input(small::qwen2_tied(), "penstock"), kSteps);
  std::map<int, IoFault> faults;
  for (int i = 0; i < 10'000; i += 3) faults[i] = i % 2 == 0 ? IoFault::short_transfer : IoFault::again;
  EXPECT_EQ(bits(on_drive(-1, -1, TierKind::nvme),
                 [&] { return std::make_unique<FaultyQueue>(make_thread_queue(3), faults); }),
            reference);
}

TEST_F(DriveRunsTest, ADriveThatFailsEndsTheRunWithWhatFailed) {
  // Transfers of loading come first; some of a step are far behind them.
  for (const int call : {1, 60, 200}) {
    EXPECT_NE(failure({{call, IoFault::io_error}}, {}).find("could not be read: Input/output error"), std::string::npos)
        << call;
    EXPECT_NE(failure({}, {{call, IoFault::no_space}}).find("could not be written: No space left on device"),
              std::string::npos)
        << call;
    const std::string flipped = failure({{call, IoFault::bit_flip}}, {});
    EXPECT_NE(flipped.find("is not what was written there"), std::string::npos) << flipped;
    EXPECT_NE(flipped.find("\"master "), std::string::npos) << flipped;  // regions of small_store.h
  }
}

TEST_F(DriveRunsTest, TheWatchdogNamesAReadThatDoesNotAnswer) {
  // The answer comes once the run has been given up.
  std::mutex mutex;
  std::condition_variable changed;
  bool given_up = false;
  SmallRun run(on_drive(-1, 0, TierKind::dram), 7, [&](std::int64_t bytes) {
    const auto slow = [&](int submitted) {
      if (submitted < 3) return;
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return given_up; });
    };
    return store(bytes, std::make_unique<FaultyQueue>(make_thread_queue(2), std::map<int, IoFault>{}, slow),
                 make_thread_queue(2));
  });
  TrainingOptions options = run.options(kSteps);
  options.executor.watchdog_seconds = 0.5;
  std::string text;
  options.executor.on_unkillable = [&](const std::string& why) {
    const std::lock_guard lock(mutex);
    text = why;
    given_up = true;
    changed.notify_all();
  };
  const std::string failed = failure_text([&] {
    run.training().load(*random_states(3));
    run.training().run(options);
  });
  EXPECT_NE(failed.find("Lane nvme read is in run step 0 at op"), std::string::npos) << failed;
  EXPECT_EQ(text, failed);
}

}  // namespace
}  // namespace penstock::exec
