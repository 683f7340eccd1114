// Transfers between files and memory, several of them in flight: how the store talks to a drive. Two implementations
// here, io_uring and threads; tests have one more, whose transfers fail as told.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace penstock::exec {

/// Offset, memory and bytes are multiples of kDriveAlignment.
struct Transfer {
  bool is_write = false;
  int file = -1;  // descriptor
  std::int64_t offset = 0;
  std::byte* memory = nullptr;
  std::int64_t bytes = 0;
  std::uint64_t tag = 0;
};
struct Transferred {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes moved, which may be fewer than asked for; or -errno
};

class IoQueue {
 public:
  /// REQUIRES: nothing in flight.
  virtual ~IoQueue() = default;
  virtual std::string_view name() const = 0;
  /// Transfers that may be in flight.
  virtual int depth() const = 0;
  /// REQUIRES: fewer than depth() in flight. The memory stays as it is until `wait` has given the transfer back.
  virtual void submit(const Transfer& transfer) = 0;
  /// Blocks until one has ended. REQUIRES: one is in flight.
  virtual Transferred wait() = 0;
  /// Memory that many transfers will use, pinned once instead of for each of them. False: the system allows it not, or
  /// the queue has no use for it.
  virtual bool pin(std::span<const std::span<std::byte>> ranges) = 0;
};

/// nullptr where the system refuses io_uring (a container's filter, kernel.io_uring_disabled, an old kernel).
std::unique_ptr<IoQueue> make_uring_queue(int depth);
/// Threads that call pread and pwrite, one for each transfer in flight.
std::unique_ptr<IoQueue> make_thread_queue(int depth);
/// The first of the two that there is.
std::unique_ptr<IoQueue> make_io_queue(int depth);

}  // namespace penstock::exec
