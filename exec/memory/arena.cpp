#include "exec/memory/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "shared/error.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kPage = 4096;

void touch(std::byte* data, std::int64_t begin, std::int64_t end) {
  for (std::int64_t at = begin; at < end; at += kPage) data[at] = std::byte{0};
}

}  // namespace

Arena::Arena(std::int64_t bytes, const char* what) : bytes_(bytes) {
  if (bytes <= 0) return;
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw DoesNotFit(
        fmt::format("the {} arena of {} bytes could not be reserved: {}", what, bytes, std::strerror(errno)));
  data_ = static_cast<std::byte*>(memory);
  // Huge pages where the system has them: fewer TLB misses, much faster to touch. Without them all works as well.
  madvise(memory, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  const std::int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t share = (bytes / threads / kPage + 1) * kPage;
  std::vector<std::jthread> workers;
  for (std::int64_t begin = 0; begin < bytes; begin += share)
    workers.emplace_back([this, begin, share] { touch(data_, begin, std::min(begin + share, bytes_)); });
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}
Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace penstock::exec
