#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "exec/cuda/backend.h"
#include "exec/numerics/cpu_target.h"
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
  const CudaAttention attention = cuda_attention();
  const CudaMemory memory = usable ? measure_cuda_memory() : CudaMemory{};
  if (options.json) {
    nlohmann::ordered_json json = {{"format", "penstock-devices/1"},
                                   {"cpu", cpu_name()},
                                   {"kernels", cpu_target_name(cpu_target())},
                                   {"cores", limits.cores},
                                   {"physical_bytes", limits.physical_bytes},
                                   {"usable_bytes", limits.usable_bytes()},
                                   {"container_bytes", limits.container_bytes},
                                   {"lockable_bytes", limits.lockable_bytes},
                                   {"huge_page_bytes", limits.huge_page_bytes},
                                   {"cuda_usable", usable},
                                   {"cuda", cuda}};
    if (!attention.name.empty()) json["cuda_attention"] = attention.name;
    if (usable)
      json.update({{"gpu_bytes", memory.total_bytes},
                   {"gpu_context_bytes", memory.context_bytes},
                   {"gpu_later_bytes", memory.later_bytes}});
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return kExitDone;
  }
  fmt::print("backend host  always usable\n");
  fmt::print("  cpu         {}, {} for this process\n", cpu_name(),
             limits.cores == 1 ? "1 core" : fmt::format("{} cores", limits.cores));
  fmt::print("  kernels     {}\n", describe_cpu_target());
  fmt::print("  memory      {}, of which a run can take {} now (container limit: {})\n",
             format_bytes(static_cast<double>(limits.physical_bytes)),
             format_bytes(static_cast<double>(limits.usable_bytes())), bytes_or(limits.container_bytes, "none"));
  fmt::print("  pinnable    {}; transparent huge pages: {}\n", bytes_or(limits.lockable_bytes, "no limit"),
             limits.huge_page_bytes > 0 ? format_bytes(static_cast<double>(limits.huge_page_bytes)) : "none");
  fmt::print("backend cuda  {}\n  {}\n", usable ? "usable" : "not usable", cuda);
  if (!attention.name.empty())
    fmt::print("  attention   {}{}{}\n", attention.name, attention.note.empty() ? "" : ": ", attention.note);
  if (usable) {
    const auto size = [](std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    const std::int64_t kept = memory.context_bytes + memory.later_bytes;
    fmt::print(
        "  context     {} of {}: {} with context and libraries (and other programs), {} for kernels loaded at first "
        "use;\n              arenas may have {}. In a hardware file: [gpu] context = \"{:.0f} MiB\"\n",
        size(kept), size(memory.total_bytes), size(memory.context_bytes), size(memory.later_bytes),
        size(memory.total_bytes - kept), std::ceil(static_cast<double>(kept) / (1 << 20)));
  }
  return kExitDone;
}

}  // namespace penstock::exec
