// Thread-local scratch of the host kernels: the fp32 copies that Eigen multiplies.
//
// The host backend needs memory beyond the binding's workspace, which is laid out for the GPU: fp32 copies of one op's
// weights and activations, and the op's own fp32 weight gradient (host_kernel_bytes of exec/runtime/run_memory.h bounds
// it). Each lane's thread owns a stack of blocks that grows to what the largest op takes and is freed when the thread
// ends.
//
// Every piece starts at a multiple of kScratchAlignment. Kernels compute on scratch only, so how the caller's buffers
// are aligned can never reach the order of an addition.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::exec {

inline constexpr std::size_t kScratchAlignment = 64;
/// Row lengths of scratch matrices that whole vectors are computed on are rounded up to this many elements.
inline constexpr std::int64_t kScratchLanes = 16;

constexpr std::int64_t pad_to_lanes(std::int64_t count) {
  return (count + kScratchLanes - 1) / kScratchLanes * kScratchLanes;
}

/// What is taken from a scope is valid, and its content arbitrary, until the scope ends. Scopes of a thread nest.
class ScratchScope {
 public:
  ScratchScope();
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  /// T must be trivial; the memory is padded to whole vectors.
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<std::size_t>(pad_to_lanes(count)) * sizeof(T)));
  }

  /// What the calling thread's stack holds.
  static std::int64_t held_bytes();

 private:
  static void* take_bytes(std::size_t bytes);

  std::size_t block_ = 0;  // where the stack was when the scope began
  std::size_t used_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace penstock::exec
