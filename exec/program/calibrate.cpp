#include "exec/program/commands.h"
#include "shared/error.h"

namespace penstock::exec {

int calibrate_command(const CalibrateCommandOptions&) { throw InputError("calibrate: not yet"); }

}  // namespace penstock::exec
