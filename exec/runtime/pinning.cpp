#include "exec/runtime/pinning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "shared/error.h"
#include "shared/pinned_ring.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr const char* kVariable = "PENSTOCK_PINNED_LIMIT";

std::string size(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

/// Linux under Windows: its kernel says so in its version.
bool is_wsl(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/version");
  const std::string version{std::istreambuf_iterator<char>(file), {}};
  return version.find("microsoft") != std::string::npos || version.find("Microsoft") != std::string::npos;
}

std::string what_to_set(std::int64_t wanted, const MemoryLimits& limits, const std::filesystem::path& root) {
  if (const char* const limit = std::getenv(kVariable); limit != nullptr && *limit != '\0')
    return fmt::format("the environment's {} is {}: raise or unset it", kVariable, limit);
  if (limits.lockable_bytes >= 0 && limits.lockable_bytes < wanted)
    return fmt::format(
        "the limit of locked memory is {}: `ulimit -l unlimited` (memlock in /etc/security/limits.conf), of a container "
        "--ulimit memlock=-1",
        size(limits.lockable_bytes));
  if (is_wsl(root))
    return "WSL pins only a part of the memory that it has: raise `memory` in .wslconfig of Windows, then wsl --shutdown";
  if (limits.container_bytes >= 0)
    return fmt::format("the container may have {} in all, of which {} are in use: raise its limit of memory",
                       size(limits.container_bytes), size(limits.container_used_bytes));
  return "no limit of this process is in the way: other programs may have pinned the rest";
}

}  // namespace

std::int64_t pinned_limit() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return -1;
  const std::string place = std::string("the environment's ") + kVariable;
  const std::int64_t limit = parse_bytes(text, place);
  if (limit < kRingsBytes)
    throw InputError(
        fmt::format("{}: expected at least {}, what the rings take through which memory is copied that is "
                    "not pinned; found \"{}\"",
                    place, size(kRingsBytes), text));
  return limit;
}

std::int64_t largest_pinnable(std::int64_t wanted, const std::function<bool(std::int64_t bytes)>& pin) {
  const std::int64_t most = wanted / kPinStep;
  std::int64_t low = 0, high = most + 1;  // in steps: low can be pinned, high cannot
  for (std::int64_t steps = 1; low < most && high > most; steps *= 2) {
    const std::int64_t tried = std::min(steps, most);
    (pin(tried * kPinStep) ? low : high) = tried;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (pin(middle * kPinStep) ? low : high) = middle;
  }
  return low * kPinStep;
}

std::string pinning_refused_text(std::int64_t wanted, std::int64_t pinnable, const std::string& reason,
                                 const MemoryLimits& limits, const std::filesystem::path& root) {
  const std::string place = fmt::format("the dram arena of {} cannot be pinned for the GPU's copies ({}); {} of it can",
                                        size(wanted), reason, size(pinnable));
  const std::string set = what_to_set(wanted, limits, root);
  if (pinnable < kRingsBytes)
    return fmt::format("{}, less than the {} of rings through which copies of memory that is not pinned would go: {}",
                       place, size(kRingsBytes), set);
  return fmt::format(
      "{}, and copies of the rest go through rings of pinned memory, slower: {}. To plan for it: --set "
      "machine.pinned=\"{} MiB\"",
      place, set, pinnable >> 20);
}

}  // namespace penstock::exec
