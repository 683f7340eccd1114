#pragma once

#include <string>

namespace penstock::exec {

/// "Intel(R) Xeon(R) ...", as the system names it; "unknown CPU" where it does not.
std::string cpu_name();

}  // namespace penstock::exec
