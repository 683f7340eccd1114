#include "sim/validate/error_bar.h"

namespace penstock::sim {

double step_error_share(const Machine& machine) { return machine.measured ? kProfileError : kHardwareFileError; }

Range step_range(double seconds, double share) { return {seconds / (1 + share), seconds / (1 - share)}; }

Range rate_range(double rate, double share) { return {rate * (1 - share), rate * (1 + share)}; }

}  // namespace penstock::sim
