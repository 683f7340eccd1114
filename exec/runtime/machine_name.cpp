#include "exec/runtime/machine_name.h"

#include <fstream>

namespace penstock::exec {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("model name")) {
      const std::size_t at = line.find(": ");
      if (at != std::string::npos) return line.substr(at + 2);
    }
  return "unknown CPU";
}

}  // namespace penstock::exec
