// Whatever happens to a save, and whenever: a finished checkpoint is there, and the next save goes on from it.
#include "exec/checkpoint/save_target.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "exec/numerics/bf16.h"
#include "tests/exec/checkpoint/faulty_calls.h"
#include "tests/exec/checkpoint/small_checkpoint.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// "" or what was thrown, of whatever kind.
template <class Action>
std::string failure(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

class SaveTargetTest : public testing::Test {
 protected:
  SaveTargetTest() { run_.training().load(*random_states(3)); }

  void save_with(FileCalls& calls, std::int64_t step) {
    SaveTarget target(place(), calls);
    target.require_room(checkpoint_file_bytes(run_.schedule(), run_.model()));
    save_checkpoint(target, {step, description_of(run_)}, run_.schedule(), run_.model(), run_.training().states());
  }
  void save(std::int64_t step) {
    FaultyCalls calls;
    save_with(calls, step);
  }
  /// The step of the checkpoint, read to its last byte; 0: there is none.
  std::int64_t step_there() const {
    if (!fs::exists(place()) && record_checksum_in(beside(".new")).empty()) return 0;
    const auto checkpoint = open_checkpoint(place());
    checkpoint->verify(run_.model());
    return checkpoint->step();
  }
  fs::path place() const { return folder_.path() / "c"; }
  fs::path beside(const char* suffix) const { return place().string() + suffix; }
  void clear() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry.path());
  }

  TemporaryFolder folder_;
  SmallRun run_{small::input(small::llama(), "penstock")};
};

/// Kills a save before each of its calls in turn, but for most of the writes in a row.
class KilledSaveTest : public SaveTargetTest {
 protected:
  /// `before`: the step of the checkpoint that stands there; 0: none.
  void kill_everywhere(bool can_exchange, std::int64_t before) {
    clear();
    if (before > 0) save(before);
    FaultyCalls whole;  // to count
    whole.can_exchange = can_exchange;
    save_with(whole, 2);
    bool seen_old = false, seen_new = false;
    for (int at = 0; at<whole.calls; at += at> 40 && at < whole.calls - 40 ? 17 : 1) {
      clear();
      if (before > 0) save(before);
      if (was_killed(at, can_exchange)) {
        const std::int64_t step = step_there();
        EXPECT_TRUE(step == before || step == 2) << "step " << step << ", killed at call " << at;
        (step == 2 ? seen_new : seen_old) = true;
      }
      // The next save takes up whatever was left, and leaves nothing else.
      FaultyCalls next;
      next.can_exchange = can_exchange;
      EXPECT_EQ(failure([&] { save_with(next, 3); }), "") << "after being killed at call " << at;
      EXPECT_EQ(step_there(), 3) << at;
      EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"c"}) << at;
    }
    EXPECT_TRUE(seen_old && seen_new);
  }

 private:
  bool was_killed(int at, bool can_exchange) {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyCalls calls;
      calls.kill_at = at;
      calls.can_exchange = can_exchange;
      ::_exit(failure([&] { save_with(calls, 2); }).empty() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << at;
    return WIFSIGNALED(status);
  }
};

TEST_F(KilledSaveTest, TheFirst) { kill_everywhere(true, 0); }
TEST_F(KilledSaveTest, TheSecond) { kill_everywhere(true, 1); }
TEST_F(KilledSaveTest, TheSecondWithoutExchange) { kill_everywhere(false, 1); }

/// Between the two renames: what stood there is called c.previous, what is to stand there c.new.
TEST_F(SaveTargetTest, CutOffBetweenTwoRenamesItIsFoundBeside) {
  save(1);
  fs::copy(place(), folder_.path() / "old");
  save(2);
  fs::rename(place(), beside(".new"));
  fs::rename(folder_.path() / "old", beside(".previous"));
  // Somebody's folders of these names are nobody's business.
  EXPECT_MENTIONS(error_text([&] { open_checkpoint(place()); }), "c: is not there; ");
  EXPECT_MENTIONS(error_text([&] { open_checkpoint(place()); }), "c.previous holds a checkpoint");
  folder_.write("c.lock", "held by penstock-exec, process 1 on gone\n");
  const auto found = open_checkpoint(place());
  EXPECT_EQ(found->step(), 2);
  EXPECT_EQ(found->folder(), beside(".new"));
  {
    const SaveTarget target(place());
    ASSERT_EQ(target.notes().size(), 1u);
    EXPECT_MENTIONS(target.notes()[0], "now it does");
  }
  EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"c"});
  EXPECT_EQ(step_there(), 2);
}

TEST_F(SaveTargetTest, EveryFailureKeepsACheckpointAndWhatWasFinished) {
  save(1);
  FaultyCalls whole;
  save_with(whole, 2);
  const int last = whole.calls;
  for (const bool can_exchange : {true, false})
    for (int at = 0; at <= last + 4; at += at > 40 && at < last - 40 ? 23 : 1) {
      clear();
      save(1);
      FaultyCalls calls;
      calls.fail_at = at;
      calls.error = at % 2 == 0 ? EIO : ENOSPC;
      calls.can_exchange = can_exchange;
      const std::string error = failure([&] { save_with(calls, 2); });
      const std::int64_t step = step_there();
      if (error.empty()) {
        EXPECT_EQ(step, 2) << at;
      } else if (step == 1 && calls.wrote_record) {
        const fs::path kept = fs::exists(beside(".new")) ? beside(".new") : beside(".partial");
        EXPECT_EQ(Checkpoint(kept).step(), 2) << at << error;
        EXPECT_MENTIONS(error, "is finished and kept in " + kept.string());
        EXPECT_MENTIONS(error, place().string() + " is what it was before");
      }
      if (!calls.wrote_record) {
        EXPECT_EQ(step, 1) << at << error;
        EXPECT_NE(error, "") << at;
      }
      EXPECT_EQ(failure([&] { save(3); }), "") << at << error;
      EXPECT_EQ(step_there(), 3) << at;
      EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"c"}) << at << error;
    }
}

TEST_F(SaveTargetTest, ShortWritesAreGoneOnWith) {
  save(2);
  const std::string states = read_file(place() / kStatesFile), record = read_file(place() / kRecordFile);
  fs::remove_all(place());
  FaultyCalls calls;
  calls.most = 1001;
  save_with(calls, 2);
  EXPECT_TRUE(read_file(place() / kStatesFile) == states);
  EXPECT_EQ(read_file(place() / kRecordFile), record);
}

TEST_F(SaveTargetTest, ADiskThatFillsUpLeavesTheOldOne) {
  save(1);
  FaultyCalls calls;
  calls.error = ENOSPC;
  SaveTarget target(place(), calls);
  calls.fail_at = calls.calls + 60;
  const std::string error = failure([&] {
    save_checkpoint(target, {2, description_of(run_)}, run_.schedule(), run_.model(), run_.training().states());
  });
  EXPECT_MENTIONS(error, "c: not saved: ");
  EXPECT_MENTIONS(error, "No space left on device");
  EXPECT_EQ(step_there(), 1);
  EXPECT_FALSE(fs::exists(beside(".partial")));
}

TEST_F(SaveTargetTest, WhatCannotBeReplacedIsRefusedBefore) {
  save(1);
  FaultyCalls calls;
  calls.named = "/c";
  const auto refusal = [&](int error) {
    calls.folder_rename = error;
    return error_text([&] { SaveTarget(place(), calls); });
  };
  EXPECT_MENTIONS(refusal(EBUSY), "name a folder in it, " + (place() / "checkpoint").string());
  EXPECT_MENTIONS(refusal(EXDEV), "lower layer of an overlay");
  EXPECT_MENTIONS(refusal(EPERM), "it cannot be replaced: Operation not permitted");
  EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"c"});
  EXPECT_EQ(step_there(), 1);
  EXPECT_EQ(refusal(0), "");
}

TEST_F(SaveTargetTest, RoomIsKnownBeforeTheRun) {
  const std::vector<std::int64_t> bytes = checkpoint_file_bytes(run_.schedule(), run_.model());
  save(1);
  EXPECT_EQ(bytes[0], static_cast<std::int64_t>(fs::file_size(place() / kWeightsFile)));
  EXPECT_EQ(bytes[1], static_cast<std::int64_t>(fs::file_size(place() / kStatesFile)));
  FaultyCalls calls;
  SaveTarget target(place(), calls);
  const auto refusal = [&]() -> std::string {
    try {
      target.require_room(bytes);
    } catch (const DoesNotFit& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(), "");
  calls.free = bytes[0] + bytes[1];  // and no block more
  EXPECT_MENTIONS(refusal(), "the old one stands until the new one is whole");
  calls.free = bytes[0] + bytes[1] + (1 << 20);
  EXPECT_EQ(refusal(), "");
  calls.allocation = EDQUOT;
  EXPECT_MENTIONS(refusal(), "cannot take it: Disk quota exceeded");
  calls.allocation = EOPNOTSUPP;  // does not say that there is none
  EXPECT_EQ(refusal(), "");
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const struct rlimit low { static_cast<rlim_t>(bytes[1] - 1), old.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  EXPECT_MENTIONS(refusal(), "ulimit -f");
  ::setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(names_in(folder_.path()), (std::set<std::string>{"c", "c.lock"}));
}

TEST_F(SaveTargetTest, TwoRunsNeverSaveToOneFolder) {
  save(1);
  fs::create_directory_symlink(folder_.path(), folder_.path() / "link");
  fs::create_directory_symlink("c", folder_.path() / "latest");
  {
    const SaveTarget first(place());
    const std::string owner = "process " + std::to_string(::getpid()) + " on ";
    for (const fs::path& other :
         {place(), folder_.path() / "c/", folder_.path() / "./c", folder_.path() / "link/c", folder_.path() / "latest"})
      EXPECT_MENTIONS(error_text([&] { SaveTarget second(other); }), "another run saves there (" + owner);
    const SaveTarget beside_it(folder_.path() / "d");
  }
  EXPECT_EQ(error_text([&] { SaveTarget third(place()); }), "");
}

TEST_F(SaveTargetTest, ALockOfTheDeadIsNone) {
  folder_.write("c.lock", "held by penstock-exec, process 1 on elsewhere\n");
  EXPECT_EQ(error_text([&] { SaveTarget target(place()); }), "");
  EXPECT_FALSE(fs::exists(beside(".lock")));
  // Where a file system knows no locks, nobody can tell.
  FaultyCalls calls;
  calls.can_lock = false;
  EXPECT_EQ(error_text([&] { SaveTarget target(place(), calls); }), "");
  folder_.write("c.lock", "held by penstock-exec, process 1 on elsewhere\n");
  EXPECT_MENTIONS(error_text([&] { SaveTarget target(place(), calls); }), "remove that file if the run is no more");
  EXPECT_TRUE(fs::exists(beside(".lock")));
}

TEST_F(SaveTargetTest, SomebodysFilesBesideAreNeverTouched) {
  save(1);
  const auto expect_kept = [&](const std::string& what) {
    const std::set<std::string> before = names_in(folder_.path());
    const std::string error = error_text([&] { SaveTarget target(place()); });
    EXPECT_MENTIONS(error, (folder_.path() / what).string() + " is in the way");
    EXPECT_EQ(names_in(folder_.path()), before);
    fs::remove_all(folder_.path() / what);
  };
  folder_.write("c.lock", "[[package]]\nname = \"c\"\n");
  expect_kept("c.lock");
  ASSERT_EQ(::mkfifo(beside(".lock").c_str(), 0600), 0);
  expect_kept("c.lock");
  folder_.write("c.partial/notes.txt", "years of work");
  expect_kept("c.partial");
  folder_.write("c.new/chapter1/notes.txt", "years of work");
  expect_kept("c.new");
  // A copy that somebody made of a checkpoint.
  for (const char* name : {"c.new", "c.partial"}) {
    fs::copy(place(), folder_.path() / name);
    expect_kept(name);
  }
  folder_.write("elsewhere/model.safetensors", "years of work");
  fs::create_directory_symlink("elsewhere", beside(".partial"));
  expect_kept("c.partial");
  EXPECT_TRUE(fs::exists(folder_.path() / "elsewhere/model.safetensors"));
}

TEST_F(SaveTargetTest, ABackupCalledPreviousStays) {
  save(1);
  fs::copy(place(), beside(".previous"));
  save(2);
  EXPECT_EQ(Checkpoint(beside(".previous")).step(), 1);
  fs::rename(place(), beside(".new"));  // and as the only one
  EXPECT_MENTIONS(error_text([&] { SaveTarget target(place()); }), "c.new is in the way");
  fs::remove_all(beside(".new"));
  save(3);
  EXPECT_EQ(Checkpoint(beside(".previous")).step(), 1);
  FaultyCalls calls;  // where the name would be needed
  calls.can_exchange = false;
  EXPECT_MENTIONS(error_text([&] { SaveTarget target(place(), calls); }), "c.previous is in the way");
  EXPECT_EQ(names_in(folder_.path()), (std::set<std::string>{"c", "c.previous"}));
}

TEST_F(SaveTargetTest, WhatAppearsInTheFolderDuringTheRunIsNotLost) {
  save(1);
  {
    SaveTarget target(place());
    folder_.write("c/notes.txt", "years of work");
    const std::string error = failure([&] {
      save_checkpoint(target, {2, description_of(run_)}, run_.schedule(), run_.model(), run_.training().states());
    });
    EXPECT_MENTIONS(error, "kept in " + beside(".new").string());
    EXPECT_MENTIONS(error, "c/notes.txt is no part of a checkpoint");
  }
  EXPECT_EQ(Checkpoint(beside(".new")).step(), 2);
  EXPECT_EQ(step_there(), 1);
  EXPECT_TRUE(fs::exists(place() / "notes.txt"));
  EXPECT_MENTIONS(error_text([&] { SaveTarget target(place()); }), "notes.txt");
  fs::rename(place() / "notes.txt", folder_.path() / "notes.txt");
  const SaveTarget target(place());  // puts it there now
  EXPECT_EQ(step_there(), 2);
}

TEST_F(SaveTargetTest, NamesOfEveryKind) {
  const auto works = [&](const fs::path& given, const fs::path& there) {
    EXPECT_EQ(failure([&] { exec::save(given, run_, 1); }), "") << given;
    EXPECT_EQ(failure([&] { exec::save(given, run_, 2); }), "") << given;
    EXPECT_EQ(open_checkpoint(given)->step(), 2) << given;
    EXPECT_EQ(Checkpoint(there).step(), 2) << given;
  };
  const fs::path here = folder_.path();
  works(here / "with a space", here / "with a space");
  works(here / "with\na line", here / "with\na line");
  works(here / "-dash", here / "-dash");
  works(here / "slash//", here / "slash");
  works(here / "dot/.", here / "dot");
  works(here / "slash/../up", here / "up");
  fs::create_directory(here / "empty");
  works(here / "empty", here / "empty");
  fs::create_directory_symlink("target", here / "dangling");
  works(here / "dangling", here / "target");
  const std::string longest(255 - std::string_view(".previous").size(), 'n');
  works(here / longest, here / longest);
  EXPECT_MENTIONS(error_text([&] { SaveTarget target(here / (longest + "n")); }), "1 bytes too long");
  EXPECT_MENTIONS(error_text([&] { SaveTarget target(here / std::string(300, 'n')); }), "too long");
}

TEST_F(SaveTargetTest, NamesThatAreNone) {
  const fs::path here = folder_.path();
  const auto refusal = [&](const fs::path& given) { return error_text([&] { SaveTarget target(given); }); };
  for (const char* name : {".", "..", "/", "./", "./.", ""}) EXPECT_MENTIONS(refusal(name), "name a folder of its own");
  EXPECT_MENTIONS(refusal(here / "a/.."), "name a folder of its own");
  EXPECT_MENTIONS(refusal(here / "no/such"), "does not exist");
  folder_.write("file", "text");
  EXPECT_MENTIONS(refusal(here / "file"), "is not a checkpoint");
  EXPECT_MENTIONS(refusal(here / "file/c"), "does not exist");
  fs::create_symlink("loop", here / "loop");
  EXPECT_MENTIONS(refusal(here / "loop"), "circle");
  fs::create_symlink("no/where", here / "lost");
  EXPECT_MENTIONS(refusal(here / "lost"), "does not exist");
  folder_.write("thesis/chapter1.txt", "years of work");
  EXPECT_MENTIONS(refusal(here / "thesis"), "is not a checkpoint");
  folder_.write("odd/run.json/x", "a folder where a file is meant");
  EXPECT_MENTIONS(refusal(here / "odd"), "odd/run.json is no part");
  EXPECT_EQ(names_in(here), (std::set<std::string>{"file", "loop", "lost", "odd", "thesis"}));
}

TEST_F(SaveTargetTest, AReaderFindsAWholeCheckpointWhileAnotherIsSaved) {
  save(1);
  for (const bool can_exchange : {true, false}) {
    std::atomic<bool> done{false};
    std::string error;
    int opened = 0;
    std::thread reader([&] {
      while (!done)
        if (const std::string failed = failure([&] { opened += open_checkpoint(place())->step() > 0 ? 1 : 0; });
            !failed.empty())
          error = failed;
    });
    for (int step = 2; step < 22; ++step) {
      FaultyCalls calls;
      calls.can_exchange = can_exchange;
      save_with(calls, step);
    }
    done = true;
    reader.join();
    EXPECT_EQ(error, "");
    EXPECT_GT(opened, 0);
  }
}

constexpr const char* kSpoilt = "model.layers.1.mlp.down_proj.weight";
constexpr std::int64_t kSpoiltRow = 2, kSpoiltColumn = 5;

/// As an update would: behind the checks of loading.
void spoil(SmallRun& run, TensorKind kind, float value) {
  const Layer& layer = run.model().layers[2];
  for (const ParameterTensor& tensor : layer.tensors) {
    if (tensor.name != kSpoilt) continue;
    const std::int64_t element = tensor.offset + kSpoiltRow * tensor.columns + kSpoiltColumn;
    for (const Access& access : run.schedule().initial) {
      if (access.value.tensor != kind || access.value.layer != layer.index) continue;
      const Buffer& buffer = run.schedule().buffers[static_cast<std::size_t>(access.buffer)];
      const std::int64_t start = buffer.offset_bytes + access.offset_bytes;
      const std::uint16_t half = round_to_bf16(value);
      if (kind == TensorKind::weights)
        run.memory(buffer).write(start + 2 * element, std::as_bytes(std::span(&half, 1)));
      else
        run.memory(buffer).write(start + 4 * element, std::as_bytes(std::span(&value, 1)));
    }
  }
}

TEST_F(SaveTargetTest, ABadStateNeverTakesAGoodOnesPlace) {
  save(1);
  const std::string element = std::string(kSpoilt) + "[2, 5] is ";
  const struct {
    StateFormat states;
    TensorKind kind;
    float value;
    std::string says;
  } cases[] = {{StateFormat::planes, TensorKind::weights, NAN, element + "nan"},
               {StateFormat::planes, TensorKind::weights, -INFINITY, element + "-inf"},
               {StateFormat::planes, TensorKind::moment_m, NAN, "moment_m." + element + "nan"},
               {StateFormat::planes, TensorKind::moment_v, INFINITY, "moment_v." + element + "inf"},
               {StateFormat::master_and_copy, TensorKind::master, NAN, "master." + element + "nan"},
               {StateFormat::master_and_copy, TensorKind::weights, INFINITY, element + "inf"},
               {StateFormat::bf16, TensorKind::weights, NAN, element + "nan"},
               {StateFormat::bf16, TensorKind::moment_v, NAN, "moment_v." + element + "nan"}};
  for (const auto& each : cases) {
    PolicyInput in = small::input(small::llama(), "penstock");
    in.parameters.numerics.states = each.states;
    SmallRun bad(in);
    bad.training().load(*random_states(3));
    spoil(bad, each.kind, each.value);
    const std::string error = failure([&] { exec::save(place(), bad, 2); });
    EXPECT_MENTIONS(error, "c: not saved: the state is bad");
    EXPECT_MENTIONS(error, ": " + each.says);
    EXPECT_EQ(step_there(), 1);
    EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"c"});
  }
}

}  // namespace
}  // namespace penstock::exec
