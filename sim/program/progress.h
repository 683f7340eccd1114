// What a command says on the terminal while it works.
#pragma once

#include <mutex>
#include <string>

#include "sim/planner/search.h"

namespace penstock::sim {

/// A line on standard error while something runs, only on a terminal; gone at the end of the scope. Any thread may
/// update it.
class StatusLine {
 public:
  explicit StatusLine(const std::string& text);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void update(const std::string& text);
  /// Shows a search under way, behind `head`; nothing where no line is shown.
  std::function<void(const SearchProgress&)> searching(const std::string& head = {});

 private:
  bool shown_ = false;
  std::mutex mutex_;
};

/// "scan [####....] 120 simulated, best step 25.22 s".
std::string progress_text(const SearchProgress& progress);

}  // namespace penstock::sim
