// Schedule files: whatever is read can be written, read again as the same, measured and checked.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "shared/error.h"
#include "shared/ir/checker.h"
#include "shared/ir/memory.h"
#include "shared/ir/schedule_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  try {
    const Schedule schedule = parse_schedule(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    const std::string text = schedule_text(schedule);
    const Schedule again = parse_schedule(text, "written");
    if (schedule_text(again) != text || schedule_hash(again) != schedule_hash(schedule)) std::abort();
    schedule_memory(schedule);
    // A schedule that is proved has room for what lives in it.
    if (check_schedule(schedule).empty())
      for (const TierMemory& tier : schedule_memory(schedule))
        if (tier.arena_bytes > tier.tier.capacity_bytes) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
