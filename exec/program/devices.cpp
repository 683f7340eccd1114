#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "exec/cuda/backend.h"
#include "exec/program/commands.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/machine_name.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

std::string bytes_or(std::int64_t bytes, const char* otherwise) {
  return bytes < 0 ? otherwise : format_bytes(static_cast<double>(bytes));
}

}  // namespace

int devices_command(const DevicesCommandOptions& options) {
  const MemoryLimits limits = read_memory_limits();
  const bool usable = cuda_device_available();
  const std::string cuda = describe_cuda_devices();
  if (options.json) {
    const nlohmann::ordered_json json = {{"format", "penstock-devices/1"},
                                         {"cpu", cpu_name()},
                                         {"cores", limits.cores},
                                         {"physical_bytes", limits.physical_bytes},
                                         {"usable_bytes", limits.usable_bytes()},
                                         {"container_bytes", limits.container_bytes},
                                         {"lockable_bytes", limits.lockable_bytes},
                                         {"huge_page_bytes", limits.huge_page_bytes},
                                         {"cuda_usable", usable},
                                         {"cuda", cuda}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return kExitDone;
  }
  fmt::print("backend host  always usable\n");
  fmt::print("  cpu         {}, {} cores for this process\n", cpu_name(), limits.cores);
  fmt::print("  memory      {}, of which a run can take {} now (container limit: {})\n",
             format_bytes(static_cast<double>(limits.physical_bytes)),
             format_bytes(static_cast<double>(limits.usable_bytes())), bytes_or(limits.container_bytes, "none"));
  fmt::print("  pinnable    {}; transparent huge pages: {}\n", bytes_or(limits.lockable_bytes, "no limit"),
             limits.huge_page_bytes > 0 ? format_bytes(static_cast<double>(limits.huge_page_bytes)) : "none");
  fmt::print("backend cuda  {}\n  {}\n", usable ? "usable" : "not usable", cuda);
  return kExitDone;
}

}  // namespace penstock::exec
