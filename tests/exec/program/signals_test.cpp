// What a run does that is asked to end, or whose text nobody can take any more: nothing that was trained is lost.
#include <cstdint>

#include "tests/exec/program/program_fixture.h"
#include "tests/shared/child_process.h"

namespace penstock::exec {
namespace {

class SignalsTest : public ProgramTest {
 protected:
  /// A run that would last for hours and saves to c.
  ChildProcess start(const std::function<void()>& before = {}) const {
    return ChildProcess(folder_.path(),
                        {PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--set", "policy.name=megatrain", "--set",
                         "run.steps=100000000", "--save", "c"},
                        before);
  }
  std::int64_t saved_step() const {
    return nlohmann::json::parse(file_text(folder_.path() / "c/run.json"))["step"].get<std::int64_t>();
  }
  static std::int64_t printed_steps(const std::string& text) {
    std::int64_t count = 0;
    for (std::size_t at = 0; (at = text.find("\nstep  ", at)) != std::string::npos; ++at) ++count;
    return count;
  }
  void shell(const std::string& command, int code) const {
    const int status = std::system(("cd '" + folder_.path().string() + "' && " + command).c_str());
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code) << command;
  }
};

TEST_F(SignalsTest, EveryWishToEndFinishesTheStepAndSaves) {
  for (const auto& [signal, cause] :
       {std::pair{SIGINT, "Ctrl-C: "}, {SIGTERM, "SIGTERM: "}, {SIGHUP, "the terminal was closed: "}}) {
    ChildProcess run = start();
    run.out_until("\nstep     1");
    run.send(signal);
    EXPECT_EQ(run.finish(), 0) << run.err();
    EXPECT_NE(run.err().find(cause), std::string::npos) << run.err();
    EXPECT_NE(run.err().find("it is saved to c"), std::string::npos) << run.err();
    EXPECT_NE(run.out().find("every update of it was applied"), std::string::npos);
    EXPECT_EQ(saved_step(), printed_steps(run.out()));
  }
}

TEST_F(SignalsTest, UnderNohupAClosedTerminalChangesNothing) {
  ChildProcess run = start([] { ::signal(SIGHUP, SIG_IGN); });
  run.out_until("\nstep     1");
  run.send(SIGHUP);
  run.out_until("\nstep    20");
  run.send(SIGTERM);
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.err().find("terminal"), std::string::npos) << run.err();
}

TEST_F(SignalsTest, ASecondWishSaysWhatAThirdWouldLose) {
  // A step that lasts as long as the test wants: the run cannot print it.
  ChildProcess run = start();
  run.out_until("\nstep     1");
  run.fill_out();
  run.err_until("is saved to c. Once more says what ending at once would lose\n", SIGINT);
  run.err_until("Ctrl-C again: ", SIGINT);
  run.err_until("A third time ends the run at once: steps 1 to ");
  run.err_until("would be lost and nothing saved to c\n");
  // Whoever leaves it at that has lost nothing.
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(saved_step(), printed_steps(run.out()));
}

TEST_F(SignalsTest, AThirdWishEndsAtOnceAndLeavesTheCheckpointOfBefore) {
  shell(PENSTOCK_EXEC_PROGRAM " run s.toml --set policy.name=megatrain --steps 1 --save c >out", 0);
  ChildProcess run = start();
  run.out_until("\nstep     1");
  run.fill_out();
  run.err_until("finished first", SIGTERM);
  run.err_until("SIGTERM again", SIGTERM);
  ChildProcess::pause();
  run.send(SIGTERM);
  EXPECT_EQ(run.finish(), 1);
  EXPECT_NE(run.err().find("penstock-exec: SIGTERM for the third time: ended within step"), std::string::npos)
      << run.err();
  EXPECT_EQ(saved_step(), 1);
}

TEST_F(SignalsTest, AThirdWishDoesNotWaitForAnOpThatDoesNotEnd) {
  ChildProcess run = start();
  run.out_until("\nstep     1");
  run.fill_out();
  run.err_until("finished first", SIGINT);
  run.err_until("Ctrl-C again", SIGINT);
  ChildProcess::pause();
  run.send(SIGINT);
  run.err_until("Ctrl-C for the third time");  // while a lane still stands in its write
  EXPECT_EQ(run.finish(), 1);
  EXPECT_FALSE(fs::exists(folder_.path() / "c/run.json"));
}

TEST_F(SignalsTest, NothingCutsASaveShort) {
  // Stopped within its save, so that whatever is sent arrives there.
  const auto is_saving = [this] {
    return fs::exists(folder_.path() / "c.partial") || fs::exists(folder_.path() / "c");
  };
  for (const int signal : {SIGINT, SIGHUP, SIGXCPU}) {
    fs::remove_all(folder_.path() / "c");
    ChildProcess run = start();
    run.out_until("\nstep     1");
    run.send(SIGTERM);
    run.read_until(is_saving);
    for (int wish = 0; wish < 4; ++wish) {
      run.send(SIGSTOP);
      run.send(signal);
      run.send(SIGCONT);
      ChildProcess::pause();
    }
    EXPECT_EQ(run.finish(), 0) << signal << run.err();
    EXPECT_EQ(run.err().find("would be lost"), std::string::npos) << run.err();
    EXPECT_EQ(saved_step(), printed_steps(run.out()));
    EXPECT_FALSE(fs::exists(folder_.path() / "c.partial"));
  }
}

TEST_F(SignalsTest, BothStreamsClosedDuringASaveLoseTheTextOnly) {
  ChildProcess run = start([] { ::dup2(STDOUT_FILENO, STDERR_FILENO); });  // one reader for both
  run.out_until("\nstep     1");
  run.send(SIGTERM);
  run.read_until([this] { return fs::exists(folder_.path() / "c.partial") || fs::exists(folder_.path() / "c"); });
  run.close_out();
  const int code = run.finish();
  EXPECT_TRUE(code == 1 || code == 0) << code;  // its last line is lost, or was read just before
  EXPECT_GT(saved_step(), 0);
  EXPECT_EQ(json("run s.toml --steps 1 --resume c --set policy.name=megatrain --json")["steps"][0]["step"],
            saved_step() + 1);
}

TEST_F(SignalsTest, AReaderThatHasGoneIsAWishToEnd) {
  ChildProcess run = start();
  run.out_until("\nstep     1");
  run.close_out();
  EXPECT_EQ(run.finish(), 1);
  EXPECT_NE(run.err().find("standard output is read no more: "), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("text of it is lost: Broken pipe; all files"), std::string::npos) << run.err();
  EXPECT_GE(saved_step(), 1);
  EXPECT_EQ(json("run s.toml --steps 1 --resume c --set policy.name=megatrain --json")["steps"][0]["step"],
            saved_step() + 1);
}

TEST_F(SignalsTest, WithoutAnyReaderNothingIsStarted) {
  ChildProcess run(folder_.path(), {PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--save", "c"}, [] {
    int ends[2];
    if (::pipe(ends) != 0) return;
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
  });
  EXPECT_EQ(run.finish(), 1);
  EXPECT_NE(run.err().find("ended before the first step: nothing is lost"), std::string::npos) << run.err();
  EXPECT_FALSE(fs::exists(folder_.path() / "c"));
}

TEST_F(SignalsTest, AFullDiskUnderTheTextLosesTheTextOnly) {
  shell(PENSTOCK_EXEC_PROGRAM " run s.toml --save c >/dev/full 2>err", 1);
  EXPECT_NE(file_text(folder_.path() / "err").find("No space left on device"), std::string::npos);
  EXPECT_EQ(saved_step(), 4);
  shell(PENSTOCK_EXEC_PROGRAM " run s.toml --json --timeline t.json >/dev/full 2>err", 1);
  EXPECT_EQ(nlohmann::json::parse(file_text(folder_.path() / "t.json"))["steps"], 4);
}

TEST_F(SignalsTest, ClosedStreamsAreNotMistakenForFiles) {
  const nlohmann::json whole = json("run s.toml --json");
  for (const char* closed : {">&- 2>err", "2>&- >out", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const int code = std::string(closed).find("out") == std::string::npos ? 1 : 0;  // its text is lost, or is not
    shell(std::string(PENSTOCK_EXEC_PROGRAM " run s.toml --steps 2 --save c --timeline t.json ") + closed, code);
    EXPECT_EQ(nlohmann::json::parse(file_text(folder_.path() / "t.json"))["steps"], 2) << closed;
    // Not a byte of any message is in the checkpoint.
    EXPECT_EQ(json("run s.toml --steps 1 --resume c --json")["steps"][0], whole["steps"][2]) << closed;
  }
  shell(PENSTOCK_EXEC_PROGRAM " run no.toml 2>&-", 2);
}

TEST_F(SignalsTest, AStopTooEarlyForAComparisonIsNoFailure) {
  // Two stops at once, as `timeout` sends them, are one.
  ChildProcess run(folder_.path(),
                   {PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--set", "policy.name=megatrain", "--set",
                    "run.steps=100000000", "--set", "run.warmup_steps=5000", "--compare", "d", "--save", "c"});
  run.out_until("\nstep     1");
  run.send(SIGTERM);
  run.send(SIGINT);
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_NE(run.err().find("the run was stopped: "), std::string::npos) << run.err();
  EXPECT_EQ(run.err().find("again"), std::string::npos) << run.err();
  EXPECT_EQ(saved_step(), printed_steps(run.out()));
}

}  // namespace
}  // namespace penstock::exec
