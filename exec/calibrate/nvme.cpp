#include "exec/calibrate/nvme.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <stdexcept>

#include "exec/checkpoint/safetensors.h"
#include "exec/host/arena.h"
#include "exec/runtime/recorder.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{16} << 20;
constexpr std::int64_t kPageBytes = 4096;
constexpr std::int64_t kMostBytes = std::int64_t{2} << 30;
constexpr std::int64_t kLeastFreeBytes = std::int64_t{1} << 30;  // half of it holds kLeastBlocks
constexpr std::int64_t kLeastBlocks = 32;                        // three slices
constexpr int kInFlight = 4;
constexpr int kSliceBlocks = 8;
constexpr double kLimitSeconds = 4;  // each way

double seconds_since(std::int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-9; }

[[noreturn]] void refuse(const std::filesystem::path& folder, const std::string& what) {
  throw InputError(fmt::format("--nvme {}: {}", folder.string(), what));
}

/// What the folder's file system has free for this user.
std::int64_t free_bytes(const std::filesystem::path& folder) {
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0)
    refuse(folder, fmt::format("{}; name a folder on the drive", std::strerror(errno)));
  if (!std::filesystem::is_directory(folder)) refuse(folder, "is not a folder; name one on the drive");
  // Newer kernels take O_DIRECT there and copy memory.
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)
    refuse(folder, "lies in memory (tmpfs); name a folder on the drive");
  const std::int64_t bytes = static_cast<std::int64_t>(system.f_bavail) * static_cast<std::int64_t>(system.f_frsize);
  if (bytes < kLeastFreeBytes)
    refuse(folder, fmt::format("has {} free; measuring takes {}", format_bytes(static_cast<double>(bytes)),
                               format_bytes(static_cast<double>(kLeastFreeBytes))));
  return bytes;
}

/// A file without a name, for direct I/O.
class DriveFile {
 public:
  DriveFile(const std::filesystem::path& folder, std::int64_t bytes) : folder_(folder), file_(make(folder)) {
    // Places on the drive, so that writes need not wait for the file to grow.
    if (const int reason = ::posix_fallocate(file_.get(), 0, bytes); reason != 0) fail("make a file", reason);
    // Only now: a file system without it would refuse to open the file, and leave it there.
    if (::fcntl(file_.get(), F_SETFL, O_DIRECT) != 0)
      refuse(folder, fmt::format("its file system does no direct I/O (O_DIRECT: {}); name a folder on a local drive",
                                 std::strerror(errno)));
  }

  void read(std::byte* to, std::int64_t bytes, std::int64_t offset) const {
    check("read", ::pread(file_.get(), to, static_cast<std::size_t>(bytes), offset), bytes);
  }
  void write(const std::byte* from, std::int64_t bytes, std::int64_t offset) const {
    check("write", ::pwrite(file_.get(), from, static_cast<std::size_t>(bytes), offset), bytes);
  }

 private:
  static int make(const std::filesystem::path& folder) {
    std::string name = (folder / ".penstock-nvme-XXXXXX").string();
    const int file = ::mkostemp(name.data(), O_CLOEXEC);
    if (file < 0) refuse(folder, fmt::format("cannot be written: {}; name a folder that can", std::strerror(errno)));
    ::unlink(name.c_str());
    return file;
  }
  [[noreturn]] void fail(const char* what, int reason) const {
    throw std::runtime_error(fmt::format("--nvme {}: cannot {} there: {}", folder_.string(), what,
                                         reason != 0 ? std::strerror(reason) : "it stopped half way"));
  }
  void check(const char* what, ssize_t done, std::int64_t bytes) const {
    if (done != bytes) fail(what, done < 0 ? errno : 0);
  }

  std::filesystem::path folder_;
  FileHandle file_;
};

/// Calls move(block in memory, its number) for blocks 0, 1, ... below `blocks`, kInFlight at a time, until time is up.
/// Returns when each was done, in seconds.
std::vector<double> move_blocks(const Arena& memory, std::int64_t blocks,
                                const std::function<void(std::byte*, std::int64_t)>& move) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t start = now_ns();
  const auto work = [&](std::byte* block) {
    std::vector<double> ends;
    while (next < kLeastBlocks || seconds_since(start) < kLimitSeconds) {
      const std::int64_t number = next++;
      if (number >= blocks) break;
      move(block, number);
      ends.push_back(seconds_since(start));
    }
    return ends;
  };
  std::vector<std::future<std::vector<double>>> workers;
  for (int i = 0; i < kInFlight; ++i)
    workers.push_back(std::async(std::launch::async, work, memory.data() + i * kBlockBytes));
  std::vector<double> all;
  for (auto& worker : workers) {
    const std::vector<double> ends = worker.get();
    all.insert(all.end(), ends.begin(), ends.end());
  }
  return all;
}

}  // namespace

MeasuredRate rate_of_blocks(std::vector<double> ends, double block_bytes, int in_flight, int slice_blocks) {
  std::sort(ends.begin(), ends.end());
  std::vector<double> slices;
  const auto step = static_cast<std::size_t>(slice_blocks);
  for (std::size_t i = static_cast<std::size_t>(in_flight) - 1; i + step < ends.size(); i += step)
    slices.push_back(ends[i + step] - ends[i]);
  const Measured slice = summarise(std::move(slices));
  return {slice_blocks * block_bytes / slice.seconds, slice.spread};
}

MeasuredNvme measure_nvme(const std::filesystem::path& folder) {
  MeasuredNvme measured;
  measured.drive.bytes = free_bytes(folder);
  const std::int64_t most = std::min(kMostBytes, measured.drive.bytes / 2) / kBlockBytes;
  const DriveFile file(folder, most * kBlockBytes);
  const Arena memory(kInFlight * kBlockBytes, "blocks for the drive");
  std::mt19937_64 random(1);
  for (std::int64_t at = 0; at < memory.bytes(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(memory.data() + at, &word, 8);
  }

  const auto rate = [&](const char* name, const std::vector<double>& ends) {
    const MeasuredRate found = rate_of_blocks(ends, static_cast<double>(kBlockBytes), kInFlight, kSliceBlocks);
    measured.spread[name] = found.spread;
    return found.per_second;
  };
  const std::vector<double> writes = move_blocks(memory, most, [&](std::byte* block, std::int64_t number) {
    // No two pages alike, lest the drive store one of them.
    for (std::int64_t at = 0; at < kBlockBytes; at += kPageBytes) std::memcpy(block + at, &number, sizeof number);
    file.write(block, kBlockBytes, number * kBlockBytes);
  });
  measured.drive.write_bytes_per_second = rate("nvme write", writes);
  const auto written = static_cast<std::int64_t>(writes.size());
  measured.drive.read_bytes_per_second =
      rate("nvme read", move_blocks(memory, written, [&](std::byte* block, std::int64_t number) {
             file.read(block, kBlockBytes, number * kBlockBytes);
           }));
  std::uniform_int_distribution<std::int64_t> page(0, written * kBlockBytes / kPageBytes - 1);
  const Measured latency = measure_call([&] { file.read(memory.data(), kPageBytes, page(random) * kPageBytes); },
                                        {.least = 50, .most = 1000, .enough_seconds = 1, .limit_seconds = 2});
  measured.drive.latency_seconds = latency.seconds;
  measured.spread["nvme latency"] = latency.spread;
  return measured;
}

}  // namespace penstock::exec
