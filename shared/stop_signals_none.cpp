// Nobody sends signals to a program in WebAssembly: whoever runs it ends it.
#include "shared/stop_signals.h"

namespace penstock {

class StopSignals::Listener {};

StopSignals::StopSignals(Heard) {}

StopSignals::~StopSignals() = default;

void StopSignals::ignore_afterwards() {}

}  // namespace penstock
