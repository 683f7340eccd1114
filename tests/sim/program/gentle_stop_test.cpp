// Ctrl-C in a long command: what there is so far, whole.
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/shared/child_process.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

/// A terminal for a child's standard error, where it shows its progress.
class Terminal {
 public:
  Terminal() : fd_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    ::grantpt(fd_);
    ::unlockpt(fd_);
    name_ = ::ptsname(fd_);
  }
  ~Terminal() { ::close(fd_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::function<void()> as_error() const {
    return [name = name_] { ::dup2(::open(name.c_str(), O_WRONLY | O_NOCTTY), STDERR_FILENO); };
  }
  /// What was shown until `part`, or until the child has gone.
  std::string read_until(const std::string& part) {
    char buffer[4096];
    while (text_.find(part) == std::string::npos) {
      const ssize_t got = ::read(fd_, buffer, sizeof buffer);
      if (got <= 0) break;
      text_.append(buffer, static_cast<std::size_t>(got));
    }
    return text_;
  }

 private:
  int fd_;
  std::string name_, text_;
};

TEST(GentleStop, ASearchGivesTheBestSoFar) {
  const TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Terminal terminal;
    ChildProcess search(
        folder.path(),
        {PENSTOCK_PROGRAM_FOLDER "/penstock-sim", "search",
         (source_folder() / "scenarios/qwen2.5-7b-h200.toml").string(), "-o", "schedule.json", "--json"},
        terminal.as_error());
    terminal.read_until(", best step ");  // the whole search takes many seconds more
    search.send(signal);
    std::string shown;
    std::jthread reader([&] { shown = terminal.read_until("\1"); });  // to its end, or the child would wait for us
    EXPECT_EQ(search.finish(), 0);
    reader.join();
    EXPECT_NE(shown.find(": the best so far follows"), std::string::npos);
    const nlohmann::json result = nlohmann::json::parse(search.out());
    EXPECT_FALSE(result["search"]["complete"].get<bool>());
    EXPECT_GT(result["tokens_per_second"].get<double>(), 0);
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "schedule.json"));
  }
}

TEST(GentleStop, ASweepGivesTheRowsThatItHas) {
  const TemporaryFolder folder;
  Terminal terminal;
  // One row after the other, each a search of a second.
  ChildProcess sweep(
      folder.path(),
      {PENSTOCK_PROGRAM_FOLDER "/penstock-sim", "sweep", (source_folder() / "scenarios/qwen2.5-7b-h200.toml").string(),
       "--threads", "1", "--search", "--vary", "workload.sequences=16,80,160,320,640", "--json"},
      terminal.as_error());
  terminal.read_until(": 1 done");
  sweep.send(SIGINT);
  std::string shown;
  std::jthread reader([&] { shown = terminal.read_until("\1"); });
  EXPECT_EQ(sweep.finish(), 0);
  reader.join();
  EXPECT_NE(shown.find("what there is of the table follows"), std::string::npos);
  const nlohmann::json rows = nlohmann::json::parse(sweep.out())["rows"];
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_TRUE(rows.front().contains("tokens_per_second")) << rows.front();
  EXPECT_EQ(rows.back().value("problem", ""), "not predicted: the sweep was stopped");
}

}  // namespace
}  // namespace penstock
