#include "exec/memory/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kPiece = std::int64_t{2} << 20;

/// Takes the pages of a mapping, unless the system has too little left.
class Toucher {
 public:
  Toucher(std::byte* data, std::int64_t bytes, const FreeMemory& free) : data_(data), bytes_(bytes), free_(free) {}

  /// False if it gave up.
  bool touch_all() {
    if (!leaves_enough(bytes_)) return false;
    const std::int64_t threads = std::max(1u, std::thread::hardware_concurrency());
    const std::int64_t share = (bytes_ / threads / kPage + 1) * kPage;
    std::vector<std::jthread> workers;
    for (std::int64_t begin = 0; begin < bytes_; begin += share)
      workers.emplace_back([this, begin, share] { touch(begin, std::min(begin + share, bytes_)); });
    workers.clear();
    return !short_;
  }
  std::int64_t touched() const { return touched_; }
  /// As found when it gave up.
  std::int64_t free_bytes() const { return free_bytes_; }

 private:
  bool leaves_enough(std::int64_t to_take) {
    if (!free_.bytes) return true;
    const std::int64_t now = free_.bytes();
    if (now >= to_take + free_.least_bytes) return true;
    if (!short_.exchange(true)) free_bytes_ = now;
    return false;
  }

  void touch(std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end && !short_; piece += kPiece) {
      const std::int64_t until = std::min(piece + kPiece, end);
      for (std::int64_t at = piece; at < until; at += kPage) data_[at] = std::byte{0};
      const std::int64_t before = touched_.fetch_add(until - piece);
      // All that is left to take, so that it is known as early as can be.
      const std::int64_t now = before + until - piece;
      if (before / kFreeMemoryStep != now / kFreeMemoryStep) leaves_enough(bytes_ - now);
    }
  }

  std::byte* const data_;
  const std::int64_t bytes_;
  const FreeMemory& free_;
  std::atomic<std::int64_t> touched_ = 0, free_bytes_ = 0;
  std::atomic<bool> short_ = false;
};

std::string size(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

/// Of this process, which no plan counts with: "; a process may have 1.00 GiB of address space here (ulimit -v)".
std::string address_limits_text() {
  std::string text;
  const auto add = [&text](auto resource, const char* of, const char* option) {
    struct rlimit limit {};
    if (::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      text += fmt::format("; a process may have {} of {} here (ulimit {})",
                          size(static_cast<std::int64_t>(limit.rlim_cur)), of, option);
  };
  add(RLIMIT_AS, "address space", "-v");
  add(RLIMIT_DATA, "data", "-d");
  return text;
}

}  // namespace

Arena::Arena(std::int64_t bytes, const char* what, const FreeMemory& free) : bytes_(bytes) {
  if (bytes <= 0) return;
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    const std::string why = std::strerror(errno);
    throw DoesNotFit(
        fmt::format("the {} arena of {} could not be reserved: {}{}", what, size(bytes), why, address_limits_text()));
  }
  data_ = static_cast<std::byte*>(memory);
  // Huge pages where the system has them: fewer TLB misses, much faster to touch. Without them all works as well.
  madvise(memory, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  Toucher toucher(data_, bytes, free);
  if (toucher.touch_all()) return;
  munmap(memory, static_cast<std::size_t>(bytes));
  data_ = nullptr;
  throw DoesNotFit(fmt::format(
      "the {} arena of {}, of which {} were taken: this machine has {} left, and the rest of the arena and {} that must "
      "stay free (page tables, pinning, the system) are {}: {} too few. Other programs have taken memory since this was "
      "planned: end them, or start again and plan for what is free now; machine.dram says how much a plan may count with.",
      what, size(bytes), size(toucher.touched()), size(toucher.free_bytes()), size(free.least_bytes),
      size(bytes - toucher.touched() + free.least_bytes),
      size(bytes - toucher.touched() + free.least_bytes - toucher.free_bytes())));
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
