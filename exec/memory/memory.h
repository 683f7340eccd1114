// The memory of one tier: bytes that can be read and written by range, and perhaps an address. A host arena and a
// pinned one have an address that host threads use, a device arena has one that the device uses, a drive has none:
// only copies reach it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock::exec {

class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::int64_t bytes() const = 0;
  /// nullptr: it has none.
  virtual std::byte* address() const = 0;
  /// Of host memory, what the GPU's copies reach by themselves, from its beginning: all, or what could be pinned; the
  /// others go through a ring (exec/runtime/copy_ring.h).
  virtual std::int64_t directly_copied_bytes() const { return bytes(); }
  /// A copy within a run begins at a multiple of it, here and at its other end, and moves whole multiples.
  virtual std::int64_t alignment() const { return 1; }

  /// Any range; blocks until it is done. Several threads may call at once, for ranges that do not overlap.
  virtual void read(std::int64_t offset, std::span<std::byte> to) = 0;
  virtual void write(std::int64_t offset, std::span<const std::byte> from) = 0;
  /// Before a run: memory of the host that its copies go to and come from, over and over.
  virtual void expect(std::span<const std::span<std::byte>> ranges) { static_cast<void>(ranges); }
};

/// By tier of a schedule.
using TierMemories = std::vector<std::unique_ptr<Memory>>;

struct MemoryRange {
  Memory* memory = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;

  /// nullptr where the memory has none.
  std::byte* address() const { return memory->address() == nullptr ? nullptr : memory->address() + offset; }
};

}  // namespace penstock::exec
