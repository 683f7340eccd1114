// What a program says on the terminal while it works.
#pragma once

#include <mutex>
#include <string>

namespace penstock {

/// A line on standard error while something runs, only on a terminal; gone at the end of the scope. Any thread may
/// change it.
class StatusLine {
 public:
  StatusLine();
  explicit StatusLine(const std::string& work);  // updates it
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// What is being done: "planning" is shown as "planning ...".
  void update(const std::string& work) { show(work + " ..."); }
  void show(const std::string& text);
  void clear();
  /// False where no line is ever shown.
  bool on_terminal() const { return terminal_; }

 private:
  bool terminal_;
  bool shown_ = false;
  std::mutex mutex_;
};

}  // namespace penstock
