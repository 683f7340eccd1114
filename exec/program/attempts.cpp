#include "exec/program/attempts.h"

#include <fmt/format.h>

#include "shared/error.h"
#include "shared/standard_streams.h"

namespace penstock::exec {

bool Attempts::make(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (...) {
    keep_or_tell();
    return false;
  }
}

bool Attempts::make_of_enough_steps(const std::function<void()>& write) {
  if (!stopped_) return make(write);
  bool made = false;
  make([&] {
    try {
      write();
      made = true;
    } catch (const InputError& error) {
      tell(fmt::format("penstock-exec: the run was stopped: {}\n", error.what()));
    }
  });
  return made;
}

void Attempts::finish() const {
  if (first_) std::rethrow_exception(first_);
}

void Attempts::keep_or_tell() {
  if (!first_) {
    first_ = std::current_exception();
    return;
  }
  try {
    throw;
  } catch (const std::exception& error) {
    tell(fmt::format("penstock-exec: {}\n", error.what()));
  }
}

}  // namespace penstock::exec
