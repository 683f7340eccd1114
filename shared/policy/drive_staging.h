// The way between HBM and where a value waits. To and from NVMe it goes through a ring in DRAM: a copy on the link and
// one on the drive, each on a lane of its own, so that what leaves is written while the next one leaves, and what comes
// back is read as far ahead as there are slots.
#pragma once

#include <vector>

#include "shared/policy/writer.h"

namespace penstock {

class DriveStaging {
 public:
  explicit DriveStaging(Writer& writer) : writer_(writer) {}

  /// `slots` more places of `bytes`, called "`name` 0", "`name` 1", ...
  void add_slots(int slots, std::int64_t bytes, const char* name) {
    for (int i = 0; i < slots; ++i) slots_.push_back(writer_.drive_staging(bytes, "{} {}", name, i));
  }

  /// "evict kept 3": from HBM to its home, in DRAM or on NVMe. REQUIRES: slots for the latter.
  void send(const char* verb, const std::string& what, Phase phase, const Access& from, const Access& home,
            TierKind tier) {
    const Access landed = tier == TierKind::nvme ? take(home) : home;
    writer_.copy(title(verb, what), false, phase, from, landed);
    if (tier == TierKind::nvme) writer_.evict_to_nvme("write " + what, phase, landed, home);
  }
  /// "fetch kept 3": back.
  void bring(const char* verb, const std::string& what, Phase phase, const Access& home, TierKind tier,
             const Access& to) {
    const Access staged = tier == TierKind::nvme ? take(home) : home;
    if (tier == TierKind::nvme) writer_.fetch_from_nvme("read " + what, phase, home, staged);
    writer_.copy(title(verb, what), true, phase, staged, to);
  }

 private:
  static std::string title(const char* verb, const std::string& what) {
    return *verb == '\0' ? what : std::string(verb) + ' ' + what;
  }
  Access take(const Access& home) { return Writer::access(slots_[next_++ % slots_.size()], home.bytes, home.value); }

  Writer& writer_;
  std::vector<Place> slots_;
  std::size_t next_ = 0;
};

}  // namespace penstock
