// Several things to write at the end of a run, each by itself: one that fails loses no other.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace penstock::exec {

class Attempts {
 public:
  /// `stopped`: the run was, so that there may be too few steps for something.
  explicit Attempts(bool stopped) : stopped_(stopped) {}

  /// Whether it succeeded.
  bool make(const std::function<void()>& write);
  /// For what needs a number of steps: an InputError of a stopped run is told and is no failure.
  bool make_of_enough_steps(const std::function<void()>& write);
  /// Throws std::runtime_error with the first failure, whatever it was: all that could be known was refused before the
  /// run. Later ones were told.
  void finish() const;

 private:
  void keep_or_tell(const char* what);

  bool stopped_;
  std::optional<std::string> first_;
};

}  // namespace penstock::exec
