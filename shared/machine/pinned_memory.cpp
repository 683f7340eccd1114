#include "shared/machine/pinned_memory.h"

#include <fmt/format.h>

#include "shared/pinned_ring.h"
#include "shared/units.h"

namespace penstock {
namespace {

std::string size(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

}  // namespace

std::int64_t directly_copied_bytes(std::int64_t arena_bytes, const Machine& machine) {
  return machine.pinned_bytes ? directly_copied_bytes(arena_bytes, *machine.pinned_bytes) : arena_bytes;
}

std::string pinned_text(std::int64_t arena_bytes, const Machine& machine) {
  const std::int64_t direct = directly_copied_bytes(arena_bytes, machine);
  if (direct >= arena_bytes) return "";
  return fmt::format("pinned: {} of dram, so {} of the arena are copied directly and {} through rings of {}, slower",
                     size(*machine.pinned_bytes), size(direct), size(arena_bytes - direct), size(kRingsBytes));
}

}  // namespace penstock
