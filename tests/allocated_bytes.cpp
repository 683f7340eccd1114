#include "tests/allocated_bytes.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace penstock {
namespace {

std::atomic<std::int64_t> live_bytes = 0, peak_bytes = 0, total_bytes = 0;

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<std::int64_t>(::malloc_usable_size(memory));
  total_bytes += bytes;
  const std::int64_t live = live_bytes += bytes;
  std::int64_t peak = peak_bytes;
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) live_bytes -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

AllocatedBytes::AllocatedBytes() : live_(live_bytes), total_(total_bytes) { peak_bytes = live_; }
std::int64_t AllocatedBytes::peak() const { return peak_bytes - live_; }
std::int64_t AllocatedBytes::total() const { return total_bytes - total_; }

}  // namespace penstock

void* operator new(std::size_t bytes) { return penstock::counted(std::malloc(bytes)); }
void* operator new[](std::size_t bytes) { return penstock::counted(std::malloc(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  void* const memory = std::malloc(bytes);  // std::stable_sort asks in this way
  return memory == nullptr ? nullptr : penstock::counted(memory);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& nothrow) noexcept { return operator new(bytes, nothrow); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return penstock::counted(std::aligned_alloc(step, (bytes + step - 1) / step * step));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
void operator delete(void* memory) noexcept { penstock::release(memory); }
void operator delete[](void* memory) noexcept { penstock::release(memory); }
void operator delete(void* memory, std::size_t) noexcept { penstock::release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { penstock::release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { penstock::release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { penstock::release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { penstock::release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { penstock::release(memory); }
