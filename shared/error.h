// The exceptions that end at main. Each carries one paragraph for a person: the place (file, line, key
// or op), the value found, and what would be right.
#pragma once

#include <stdexcept>

namespace penstock {

/// Bad usage or bad input: a file, a key, a value. Programs exit with 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A well-formed wish that the machine cannot hold. The text says by how much, in which tier and phase.
/// Programs exit with 3.
struct DoesNotFit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exit codes of both programs. Any exception that is not one of the two above means `failed`.
enum ExitCode : int { kExitDone = 0, kExitFailed = 1, kExitBadInput = 2, kExitDoesNotFit = 3 };

}  // namespace penstock
