#include "exec/program/attempts.h"

#include <fmt/format.h>

#include <new>
#include <stdexcept>

#include "shared/error.h"
#include "shared/standard_streams.h"

namespace penstock::exec {

bool Attempts::make(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const std::bad_alloc&) {
    keep_or_tell("the memory of this process is used up while files of the run are written");
    return false;
  } catch (const std::exception& error) {
    keep_or_tell(error.what());
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
  if (first_) throw std::runtime_error(*first_);
}

void Attempts::keep_or_tell(const char* what) {
  if (first_)
    tell(fmt::format("penstock-exec: {}\n", what));
  else
    first_ = what;
}

}  // namespace penstock::exec
