// An arena of the host as the memory of a tier.
#pragma once

#include <cstring>

#include "exec/memory/arena.h"
#include "exec/memory/memory.h"

namespace penstock::exec {

class HostMemory : public Memory {
 public:
  /// Throws DoesNotFit, as Arena does.
  HostMemory(std::int64_t bytes, const char* what, const FreeMemory& free = {}) : arena_(bytes, what, free) {}

  std::int64_t bytes() const override { return arena_.bytes(); }
  std::byte* address() const override { return arena_.data(); }
  void read(std::int64_t offset, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), arena_.data() + offset, to.size());
  }
  void write(std::int64_t offset, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(arena_.data() + offset, from.data(), from.size());
  }

 private:
  Arena arena_;
};

}  // namespace penstock::exec
