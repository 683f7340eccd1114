// A program that a test starts, talks with by signals, and reads from while it runs.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

class ChildProcess {
 public:
  /// Starts `arguments` (the program first) in `folder`, without standard input. `before`: called in the child.
  ChildProcess(const std::filesystem::path& folder, std::vector<std::string> arguments,
               const std::function<void()>& before = {}) {
    int out[2], err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      std::vector<char*> words;
      for (std::string& argument : arguments) words.push_back(argument.data());
      words.push_back(nullptr);
      ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      if (::chdir(folder.c_str()) != 0) ::_exit(126);
      if (before) before();
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~ChildProcess() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    wait();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void send(int signal) const { ::kill(process_, signal); }

  /// Standard output so far, once it has `part`, or all of it if it ends without.
  const std::string& out_until(const std::string& part) { return until(out_, out_text_, part); }
  /// Standard error likewise. Sends `signal`, if there is one, now and whenever a while has passed without.
  const std::string& err_until(const std::string& part, int signal = 0) {
    while (err_text_.find(part) == std::string::npos) {
      if (signal != 0) send(signal);
      if (!is_ready(err_, signal != 0 ? kPauseMs : -1)) continue;
      if (!read_some(err_, err_text_)) break;
    }
    return err_text_;
  }
  /// Waits for more than two signals of one wish may lie apart.
  static void pause() { ::poll(nullptr, 0, kPauseMs); }

  /// Fills standard output with empty lines, so that the child can write no more of it until it is read.
  void fill_out() const {
    ::fcntl(out_, F_SETPIPE_SZ, 4096);
    const int writing = ::open(("/proc/self/fd/" + std::to_string(out_)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(writing, 0);
    while (::write(writing, "\n", 1) == 1) {
    }
    EXPECT_EQ(errno, EAGAIN);
    ::close(writing);
  }
  /// Nobody will read standard output any more.
  void close_out() { ::close(std::exchange(out_, -1)); }

  /// Reads both until it is done, as is asked every millisecond, or to their ends.
  void read_until(const std::function<bool()>& done) {
    while ((out_ >= 0 || err_ >= 0) && !done()) read_both(1);
  }
  /// Reads both to their ends. Returns the exit code, or minus the signal that killed it.
  int finish() {
    while (out_ >= 0 || err_ >= 0) read_both(-1);
    return wait();
  }
  const std::string& out() const { return out_text_; }
  const std::string& err() const { return err_text_; }

 private:
  static constexpr int kPauseMs = 150;

  static bool is_ready(int fd, int timeout_ms) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, timeout_ms) > 0;
  }
  /// False at the end.
  static bool read_some(int fd, std::string& text) {
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  }
  void read_both(int timeout_ms) {
    pollfd both[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    ::poll(both, 2, timeout_ms);
    if (both[0].revents != 0 && !read_some(out_, out_text_)) close_out();
    if (both[1].revents != 0 && !read_some(err_, err_text_)) ::close(std::exchange(err_, -1));
  }
  static const std::string& until(int fd, std::string& text, const std::string& part) {
    while (text.find(part) == std::string::npos && read_some(fd, text)) {
    }
    return text;
  }
  int wait() {
    int status = 0;
    if (process_ > 0 && ::waitpid(std::exchange(process_, -1), &status, 0) > 0)
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return code_;
  }

  pid_t process_ = -1;
  int out_ = -1, err_ = -1, code_ = 0;
  std::string out_text_, err_text_;
};

}  // namespace penstock
