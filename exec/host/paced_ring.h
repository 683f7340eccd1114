// The ring of the host backend (exec/runtime/copy_ring.h): slots in ordinary memory, and a thread in the copy engine's
// place that moves them at the link's pace.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "exec/host/backend.h"
#include "exec/memory/arena.h"
#include "exec/runtime/copy_ring.h"

namespace penstock::exec {

class PacedRing : private RingLink {
 public:
  explicit PacedRing(const HostBackendOptions& options);

  /// Blocks until the bytes are there. From one thread at a time.
  void upload(std::byte* to, const std::byte* from, std::int64_t bytes) { ring_.upload(to, from, bytes); }
  void download(std::byte* to, const std::byte* from, std::int64_t bytes) { ring_.download(to, from, bytes); }

 private:
  struct Transfer {
    int slot = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::int64_t bytes = 0;
    bool upload = false;
  };

  void begin(int slot, std::byte* to, const std::byte* from, std::int64_t bytes, bool upload) override;
  void wait(int slot) override;
  void serve(const std::stop_token& token);

  const HostBackendOptions options_;
  Arena slots_;
  CopyRing ring_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Transfer> begun_;
  int pending_[kRingSlots] = {};
  std::jthread thread_;  // last: it uses the others
};

}  // namespace penstock::exec
