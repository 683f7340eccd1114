// One anonymous mapping, zeroed, touched before anything is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace penstock::exec {

/// The host's memory that is free while an arena takes its own. A system that runs out of memory kills a process without
/// a word, so that an arena gives up before.
struct FreeMemory {
  std::function<std::int64_t()> bytes;  // that can be taken now; called from several threads. None: nobody looks
  std::int64_t least_bytes = 0;         // that the arena must leave
};

/// An arena looks at the free memory each time it has taken so much more.
inline constexpr std::int64_t kFreeMemoryStep = std::int64_t{64} << 20;

class Arena {
 public:
  Arena() = default;
  /// Throws DoesNotFit with the system's reason, or where `free` has too little, before any page is taken or once it
  /// has: nothing is kept then. `what` names it in the message ("hbm").
  Arena(std::int64_t bytes, const char* what, const FreeMemory& free = {});
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace penstock::exec
