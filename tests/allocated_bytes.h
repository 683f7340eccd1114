// How much memory a piece of code takes, counted where it is allocated: no clock, no other process decides it. Linking
// this into a test program replaces its operator new.
#pragma once

#include <cstdint>

namespace penstock {

/// Counts from its beginning on what all threads allocate with new.
class AllocatedBytes {
 public:
  AllocatedBytes();

  /// Most bytes that were allocated at one time, beyond those at the beginning.
  std::int64_t peak() const;
  /// All together, also what was freed again.
  std::int64_t total() const;

 private:
  std::int64_t live_ = 0, total_ = 0;
};

}  // namespace penstock
