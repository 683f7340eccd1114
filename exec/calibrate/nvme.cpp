#include "exec/calibrate/nvme.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <span>

#include "exec/calibrate/stopwatch.h"
#include "exec/memory/arena.h"
#include "exec/runtime/recorder.h"
#include "exec/store/block_store.h"
#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kCopyBytes = std::int64_t{64} << 20;
// Copies that a buffer holds, used in turn: more than caches do, as a run's slots are.
constexpr std::int64_t kBuffered = 8;
constexpr std::int64_t kLeastFreeBytes = std::int64_t{1} << 30;
constexpr std::int64_t kTransfers[] = {std::int64_t{256} << 10, std::int64_t{1} << 20, std::int64_t{4} << 20,
                                       std::int64_t{16} << 20};
constexpr int kDepths[] = {1, 4, 16, 32};
constexpr int kLeastCopies = 3;
constexpr double kAsGood = 0.97;      // of the best
constexpr double kMarkedly = 1.15;    // faster, and worth a remark
constexpr double kZerosFaster = 1.3;  // likewise, of zeros

double seconds_since(std::int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-9; }

/// Copies between memory and a store, one after the other through all of the file.
class Drive {
 public:
  Drive(const std::filesystem::path& folder, std::int64_t bytes)
      : copies_(bytes / kCopyBytes),
        reading_(kBuffered * kCopyBytes, "blocks to be read"),
        writing_(kBuffered * kCopyBytes, "blocks to write") {
    const StorePlace place = measuring_place(folder, "--nvme");
    StoreShape shape;
    shape.bytes = copies_ * kCopyBytes;
    store_ = std::make_unique<BlockStore>(place, shape, make_io_queue(kDefaultDepth), make_io_queue(kDefaultDepth));
    fill_random();
  }

  void cut(std::int64_t transfer_bytes, int depth) {
    store_->cut(transfer_bytes, make_io_queue(depth), make_io_queue(depth));
    const std::span<std::byte> ranges[] = {all(reading_), all(writing_)};
    store_->expect(ranges);
  }
  void read() {
    const std::span<std::byte> to = buffered(reading_, next_read_);
    store_->read(next(next_read_) * kCopyBytes, to);
  }
  void write() {
    const std::span<std::byte> from = buffered(writing_, next_write_);
    // No two pages alike, lest the drive store one of them.
    for (std::size_t at = 0; at < from.size(); at += kDriveAlignment)
      std::memcpy(from.data() + at, &stamp_, sizeof stamp_), ++stamp_;
    store_->write(next(next_write_) * kCopyBytes, from);
  }
  /// Writes the copies in order, for so long; later calls keep to what is written then.
  void fill(double seconds) {
    const std::int64_t start = now_ns();
    std::int64_t filled = 0;
    while (filled < copies_ && (filled < 2 || seconds_since(start) < seconds)) write(), ++filled;
    copies_ = filled;
    next_write_ = 0;
  }
  void halve(bool halved) { halved_ = halved; }
  void fill_zero() { std::memset(writing_.data(), 0, all(writing_).size()); }
  void write_zeros() {
    const std::span<std::byte> from = buffered(writing_, next_write_);
    store_->write(next(next_write_) * kCopyBytes, from);
  }
  void read_page(std::int64_t page) {
    store_->read(page * kDriveAlignment, all(reading_).first(static_cast<std::size_t>(kDriveAlignment)));
  }
  std::int64_t pages() const { return copies_ * kCopyBytes / kDriveAlignment; }
  std::string describe() const { return store_->describe(); }

 private:
  static std::span<std::byte> all(const Arena& arena) {
    return {arena.data(), static_cast<std::size_t>(arena.bytes())};
  }
  static std::span<std::byte> buffered(const Arena& arena, std::int64_t copy) {
    return all(arena).subspan(static_cast<std::size_t>(copy % kBuffered * kCopyBytes), kCopyBytes);
  }
  /// Both ways at once keep to a half each, lest one reads what the other is writing.
  std::int64_t next(std::int64_t& at) const {
    if (!halved_) return at++ % copies_;
    const std::int64_t half = copies_ / 2;
    return (&at == &next_read_ ? half : 0) + at++ % half;
  }
  void fill_random() {
    std::mt19937_64 random(1);
    for (std::int64_t at = 0; at < writing_.bytes(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(writing_.data() + at, &word, 8);
    }
  }

  std::int64_t copies_;
  bool halved_ = false;
  Arena reading_, writing_;
  std::unique_ptr<BlockStore> store_;
  std::int64_t next_read_ = 0, next_write_ = 0;
  std::uint64_t stamp_ = 0;
};

/// Seconds of each copy, for as long as `seconds`.
std::vector<double> time_copies(double seconds, int least, const std::function<void()>& copy) {
  std::vector<double> times;
  const std::int64_t start = now_ns();
  while (static_cast<int>(times.size()) < least || seconds_since(start) < seconds) {
    const std::int64_t begin = now_ns();
    copy();
    times.push_back(seconds_since(begin));
  }
  return times;
}

double rate(const Measured& copy) { return static_cast<double>(kCopyBytes) / copy.seconds; }

std::vector<NvmePoint> measure_points(Drive& drive, const NvmeEffort& effort) {
  std::vector<NvmePoint> points;
  for (const std::int64_t transfer_bytes : kTransfers)
    for (const int depth : kDepths) {
      drive.cut(transfer_bytes, depth);
      const double reads = rate(summarise(time_copies(effort.point_seconds, kLeastCopies, [&] { drive.read(); })));
      const double writes = rate(summarise(time_copies(effort.point_seconds, kLeastCopies, [&] { drive.write(); })));
      points.push_back({transfer_bytes, depth, reads, writes});
    }
  return points;
}

/// The point with the fewest bytes in flight of those that are as good as the best, both ways taken together.
NvmePoint best_point(const std::vector<NvmePoint>& points) {
  double most_reads = 0, most_writes = 0;
  for (const NvmePoint& point : points) {
    most_reads = std::max(most_reads, point.read_bytes_per_second);
    most_writes = std::max(most_writes, point.write_bytes_per_second);
  }
  const auto worth = [&](const NvmePoint& point) {
    return point.read_bytes_per_second / most_reads + point.write_bytes_per_second / most_writes;
  };
  double best = 0;
  for (const NvmePoint& point : points) best = std::max(best, worth(point));
  const NvmePoint* found = nullptr;
  for (const NvmePoint& point : points)
    if (worth(point) >= kAsGood * best &&
        (found == nullptr || point.transfer_bytes * point.depth < found->transfer_bytes * found->depth))
      found = &point;
  return *found;
}

std::vector<double> later_half(const std::vector<double>& seconds) {
  return {seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end()};
}

void measure_both(Drive& drive, const NvmeEffort& effort, Nvme& measured) {
  drive.halve(true);
  const auto writes = std::async(std::launch::async, [&] {
                        return time_copies(effort.both_seconds, kLeastCopies, [&] { drive.write(); });
                      }).share();
  std::vector<double> reads;
  while (static_cast<int>(reads.size()) < kLeastCopies ||
         writes.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    reads.push_back(time_copies(0, 1, [&] { drive.read(); }).front());
  measured.both_write_bytes_per_second = later_rate(writes.get(), static_cast<double>(kCopyBytes));
  measured.both_read_bytes_per_second = later_rate(reads, static_cast<double>(kCopyBytes));
  drive.halve(false);
}

void measure_turns(Drive& drive, const NvmeEffort& effort, MeasuredNvme& measured) {
  std::vector<double> reads, writes;
  const std::int64_t start = now_ns();
  do {
    std::ranges::copy(time_copies(0, kBuffered, [&] { drive.read(); }), std::back_inserter(reads));
    std::ranges::copy(time_copies(0, kBuffered, [&] { drive.write(); }), std::back_inserter(writes));
  } while (seconds_since(start) < effort.turns_seconds);
  measured.drive.read_bytes_per_second = later_rate(reads, static_cast<double>(kCopyBytes));
  measured.drive.write_bytes_per_second = later_rate(writes, static_cast<double>(kCopyBytes));
  measured.spread["nvme read"] = summarise(later_half(reads)).spread;
  measured.spread["nvme write"] = summarise(later_half(writes)).spread;
  if (const double first = faster_at_first(writes); first > kMarkedly)
    measured.remarks.push_back(
        fmt::format("it writes {:.2f} times as fast at first as after {}: a cache, which fills up; the profile has the "
                    "rate of after it",
                    first, format_seconds(effort.turns_seconds)));
}

}  // namespace

double later_rate(const std::vector<double>& seconds, double copy_bytes) {
  const std::vector<double> later = later_half(seconds);
  return copy_bytes * static_cast<double>(later.size()) / std::accumulate(later.begin(), later.end(), 0.0);
}

double faster_at_first(const std::vector<double>& seconds) {
  const auto median = [&](std::size_t from, std::size_t to) {
    return summarise(
               {seconds.begin() + static_cast<std::ptrdiff_t>(from), seconds.begin() + static_cast<std::ptrdiff_t>(to)})
        .seconds;
  };
  const std::size_t n = seconds.size();
  return median(n - n / 4, n) / median(0, std::max<std::size_t>(1, n / 8));
}

MeasuredNvme measure_nvme(const std::filesystem::path& folder, const NvmeEffort& effort, const Nvme* before) {
  const StorePlace place = measuring_place(folder, "--nvme");
  MeasuredNvme measured;
  measured.drive.bytes = free_for_store(place);
  if (measured.drive.bytes < kLeastFreeBytes)
    throw InputError(fmt::format("--nvme {}: has {} free; measuring takes {}", folder.string(),
                                 format_bytes(static_cast<double>(measured.drive.bytes)),
                                 format_bytes(static_cast<double>(kLeastFreeBytes))));
  Drive drive(folder, std::min(effort.most_bytes, measured.drive.bytes / 2));
  drive.fill(effort.fill_seconds);
  if (before != nullptr && before->transfer_bytes > 0 && before->depth > 0) {
    measured.drive.points = before->points;
    measured.drive.transfer_bytes = before->transfer_bytes;
    measured.drive.depth = before->depth;
  } else {
    measured.drive.points = measure_points(drive, effort);
    const NvmePoint best = best_point(measured.drive.points);
    measured.drive.transfer_bytes = best.transfer_bytes;
    measured.drive.depth = best.depth;
  }
  drive.cut(measured.drive.transfer_bytes, measured.drive.depth);
  measure_turns(drive, effort, measured);
  measure_both(drive, effort, measured.drive);
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::int64_t> page(0, drive.pages() - 1);
  const Measured latency = measure_call([&] { drive.read_page(page(random)); },
                                        {.least = 50, .most = 1000, .enough_seconds = 1, .limit_seconds = 2});
  measured.drive.latency_seconds = latency.seconds;
  measured.spread["nvme latency"] = latency.spread;
  drive.fill_zero();
  const double zeros = rate(summarise(time_copies(effort.point_seconds, kLeastCopies, [&] { drive.write_zeros(); })));
  if (zeros > kZerosFaster * measured.drive.write_bytes_per_second)
    measured.remarks.push_back(
        fmt::format("it writes zeros {:.1f} times as fast: thin or compressing; all was measured with random contents",
                    zeros / measured.drive.write_bytes_per_second));
  measured.remarks.push_back(drive.describe());
  return measured;
}

}  // namespace penstock::exec
