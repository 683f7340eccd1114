#include "sim/program/gentle_stop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "shared/error.h"
#include "shared/standard_streams.h"

namespace penstock::sim {

GentleStop::GentleStop(std::string what_follows)
    : what_follows_(std::move(what_follows)),
      signals_([this](int wishes, std::string_view cause) { heard(wishes, cause); }) {}

void GentleStop::heard(int wishes, std::string_view cause) {
  if (wishes > 1) std::_Exit(kExitFailed);
  asked_ = true;
  tell(fmt::format("{}penstock-sim: {}: {}. Once more ends at once, without it\n",
                   ::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", cause, what_follows_));
}

}  // namespace penstock::sim
