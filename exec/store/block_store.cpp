#include "exec/store/block_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "exec/store/checksum.h"
#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kBlock = kDriveAlignment;
constexpr std::int64_t kBounceBytes = std::int64_t{4} << 20;

struct AlignedFree {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kBlock}); }
};
std::unique_ptr<std::byte[], AlignedFree> make_blocks(std::int64_t bytes) {
  return std::unique_ptr<std::byte[], AlignedFree>(new (std::align_val_t{kBlock})
                                                       std::byte[static_cast<std::size_t>(bytes)]);
}

bool is_aligned(std::int64_t offset, const void* memory, std::size_t bytes) {
  return offset % kBlock == 0 && reinterpret_cast<std::uintptr_t>(memory) % kBlock == 0 && bytes % kBlock == 0;
}

std::int64_t share_of_file(const StorePlace& place, const StoreShape& shape) {
  const auto files = static_cast<std::int64_t>(place.folders.size());
  if (files == 1) return padded_for_drive(shape.bytes);
  const std::int64_t stripes = (shape.bytes + shape.transfer_bytes - 1) / shape.transfer_bytes;
  return (stripes + files - 1) / files * shape.transfer_bytes;
}

}  // namespace

/// Of one copy: what one transfer moves.
struct BlockStore::Part {
  bool is_write = false;
  std::int64_t offset = 0;
  std::byte* memory = nullptr;
  std::int64_t bytes = 0;
  std::int64_t done = 0;
};

/// A queue for one copy; waits until one is idle.
class BlockStore::Lent {
 public:
  explicit Lent(Way& way) : way_(way) {
    std::unique_lock lock(way.mutex);
    way.changed.wait(lock, [&] { return !way.idle.empty(); });
    queue_ = way.idle.back();
    way.idle.pop_back();
  }
  ~Lent() {
    const std::lock_guard lock(way_.mutex);
    way_.idle.push_back(queue_);
    way_.changed.notify_one();
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  IoQueue& operator*() const { return *queue_; }

 private:
  Way& way_;
  IoQueue* queue_ = nullptr;
};

void BlockStore::Way::add(std::unique_ptr<IoQueue> queue) {
  idle.push_back(queue.get());
  queues.push_back(std::move(queue));
}

BlockStore::BlockStore(const StorePlace& place, StoreShape shape, std::unique_ptr<IoQueue> reader,
                       std::unique_ptr<IoQueue> writer)
    : shape_(std::move(shape)), files_(place, share_of_file(place, shape_)) {
  if (shape_.transfer_bytes < kBlock || shape_.transfer_bytes % kBlock != 0)
    throw InputError(
        fmt::format("{}: transfers of {} bytes; expected a multiple of {}", place.key, shape_.transfer_bytes, kBlock));
  add_queues(std::move(reader), std::move(writer));
  checksums_.resize(static_cast<std::size_t>((shape_.bytes + kBlock - 1) / kBlock));
}

BlockStore::~BlockStore() = default;

std::int64_t BlockStore::alignment() const { return kBlock; }

std::string BlockStore::describe() const {
  return fmt::format("{} file{}, {}, {} x {} in flight each way", files_.count(), files_.count() == 1 ? "" : "s",
                     reader_.queues.front()->name(), reader_.queues.front()->depth(),
                     format_bytes(static_cast<double>(shape_.transfer_bytes)));
}

void BlockStore::expect(std::span<const std::span<std::byte>> ranges) {
  // Without it all works as well, only slower.
  for (const Way* way : {&reader_, &writer_})
    for (const auto& queue : way->queues) queue->pin(ranges);
}

void BlockStore::add_queues(std::unique_ptr<IoQueue> reader, std::unique_ptr<IoQueue> writer) {
  reader_.add(std::move(reader));
  writer_.add(std::move(writer));
}

void BlockStore::cut(std::int64_t transfer_bytes, std::unique_ptr<IoQueue> reader, std::unique_ptr<IoQueue> writer) {
  if (files_.count() != 1) throw std::logic_error("other transfers would be other stripes");
  shape_.transfer_bytes = transfer_bytes;
  for (Way* way : {&reader_, &writer_}) {
    way->idle.clear();
    way->queues.clear();
  }
  add_queues(std::move(reader), std::move(writer));
}

std::size_t BlockStore::file_of(std::int64_t offset) const {
  return static_cast<std::size_t>(offset / shape_.transfer_bytes) % files_.count();
}

std::int64_t BlockStore::file_offset(std::int64_t offset) const {
  const auto files = static_cast<std::int64_t>(files_.count());
  return kDataOffset + offset / shape_.transfer_bytes / files * shape_.transfer_bytes + offset % shape_.transfer_bytes;
}

std::string BlockStore::place(std::int64_t offset) const {
  const auto after = std::upper_bound(shape_.regions.begin(), shape_.regions.end(), offset,
                                      [](std::int64_t at, const StoreRegion& region) { return at < region.offset; });
  const std::string in_file = fmt::format("byte {} of {}", file_offset(offset), files_.path(file_of(offset)).string());
  if (after == shape_.regions.begin()) return fmt::format("block {} ({})", offset / kBlock, in_file);
  const StoreRegion& region = *(after - 1);
  return fmt::format("block {} of \"{}\" ({})", (offset - region.offset) / kBlock, region.name, in_file);
}

void BlockStore::read(std::int64_t offset, std::span<std::byte> to) {
  if (to.empty()) return;
  if (is_aligned(offset, to.data(), to.size()))
    return move(reader_, false, offset, to.data(), static_cast<std::int64_t>(to.size()));
  for (std::size_t at = 0; at < to.size();) {
    const std::int64_t from = offset + static_cast<std::int64_t>(at);
    const auto count = std::min(to.size() - at, static_cast<std::size_t>(kBounceBytes - from % kBounceBytes));
    read_partly(from, to.subspan(at, count));
    at += count;
  }
}

void BlockStore::write(std::int64_t offset, std::span<const std::byte> from) {
  if (from.empty()) return;
  // The queue reads it only.
  if (is_aligned(offset, from.data(), from.size()))
    return move(writer_, true, offset, const_cast<std::byte*>(from.data()), static_cast<std::int64_t>(from.size()));
  for (std::size_t at = 0; at < from.size();) {
    const std::int64_t to = offset + static_cast<std::int64_t>(at);
    const auto count = std::min(from.size() - at, static_cast<std::size_t>(kBounceBytes - to % kBounceBytes));
    write_partly(to, from.subspan(at, count));
    at += count;
  }
}

void BlockStore::read_partly(std::int64_t offset, std::span<std::byte> to) {
  const std::int64_t begin = offset / kBlock * kBlock;
  const std::int64_t bytes = padded_for_drive(offset + static_cast<std::int64_t>(to.size())) - begin;
  const auto blocks = make_blocks(bytes);
  move(reader_, false, begin, blocks.get(), bytes);
  std::memcpy(to.data(), blocks.get() + (offset - begin), to.size());
}

/// What of the first and last block is not written stays, or is zero where there was nothing.
void BlockStore::write_partly(std::int64_t offset, std::span<const std::byte> from) {
  const std::int64_t begin = offset / kBlock * kBlock, end = offset + static_cast<std::int64_t>(from.size());
  const std::int64_t bytes = padded_for_drive(end) - begin;
  const auto blocks = make_blocks(bytes);
  const std::lock_guard lock(partly_);
  const auto keep = [&](std::int64_t block) {
    if (checksums_[static_cast<std::size_t>(block / kBlock)] == 0)
      std::fill_n(blocks.get() + (block - begin), kBlock, std::byte{0});
    else
      move(reader_, false, block, blocks.get() + (block - begin), kBlock);
  };
  const std::int64_t last = begin + bytes - kBlock;
  if (begin != offset) keep(begin);
  if (end % kBlock != 0 && (last != begin || begin == offset)) keep(last);
  std::memcpy(blocks.get() + (offset - begin), from.data(), from.size());
  move(writer_, true, begin, blocks.get(), bytes);
}

void BlockStore::note_checksums(const Part& part) {
  for (std::int64_t at = 0; at < part.bytes; at += kBlock)
    checksums_[static_cast<std::size_t>((part.offset + at) / kBlock)] = block_checksum(part.memory + at);
}

std::string BlockStore::verify(const Part& part) const {
  for (std::int64_t at = 0; at < part.bytes; at += kBlock) {
    const std::uint32_t noted = checksums_[static_cast<std::size_t>((part.offset + at) / kBlock)];
    if (noted == 0) return fmt::format("{} was never written", place(part.offset + at));
    if (const std::uint32_t found = block_checksum(part.memory + at); found != noted)
      return fmt::format(
          "{} is not what was written there: its checksum is {:08x}, {:08x} was noted. Drive, cable or memory is "
          "faulty; go on from a checkpoint, on another drive",
          place(part.offset + at), found, noted);
  }
  return {};
}

void BlockStore::submit(IoQueue& queue, const Part& part, std::uint64_t tag) {
  const std::int64_t offset = part.offset + part.done;
  queue.submit({part.is_write, files_.descriptor(file_of(offset)), file_offset(offset), part.memory + part.done,
                part.bytes - part.done, tag});
}

std::string BlockStore::take(Part& part, std::int64_t result) {
  const auto failed = [&](const std::string& why) {
    return fmt::format("{} could not be {}: {}", place(part.offset + part.done), part.is_write ? "written" : "read",
                       why);
  };
  if (result == -EINTR || result == -EAGAIN) return {};  // asked again
  if (result < 0) return failed(std::generic_category().message(static_cast<int>(-result)));
  const std::int64_t moved = std::min(result, part.bytes - part.done) / kBlock * kBlock;
  // Less than a block is no progress that direct I/O could go on from.
  if (moved == 0) return failed("the file ends there");
  part.done += moved;
  return {};
}

void BlockStore::move(Way& way, bool is_write, std::int64_t offset, std::byte* memory, std::int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset + bytes > padded_for_drive(shape_.bytes))
    throw std::logic_error(fmt::format("bytes {} to {} of a store of {}", offset, offset + bytes, shape_.bytes));
  const Lent lent(way);
  IoQueue& queue = *lent;
  std::vector<Part> parts(static_cast<std::size_t>(queue.depth()));
  std::vector<std::size_t> free(parts.size());
  for (std::size_t i = 0; i < free.size(); ++i) free[i] = i;
  std::string failed;
  for (std::int64_t at = offset, end = offset + bytes; (at < end && failed.empty()) || free.size() < parts.size();) {
    if (at < end && failed.empty() && !free.empty()) {
      Part& part = parts[free.back()];
      part = {is_write, at, memory + (at - offset),
              std::min(end - at, shape_.transfer_bytes - at % shape_.transfer_bytes), 0};
      if (is_write) note_checksums(part);
      submit(queue, part, free.back());
      free.pop_back();
      at += part.bytes;
      continue;
    }
    const Transferred done = queue.wait();
    Part& part = parts[done.tag];
    std::string wrong = take(part, done.result);
    if (wrong.empty() && failed.empty() && part.done < part.bytes) {
      submit(queue, part, done.tag);
      continue;
    }
    if (wrong.empty() && !is_write && part.done == part.bytes) wrong = verify(part);
    if (failed.empty()) failed = wrong;
    free.push_back(done.tag);
  }
  // Only now: nothing is in flight that would touch memory.
  if (!failed.empty()) throw std::runtime_error("NVMe: " + failed);
  (is_write ? written_bytes_ : read_bytes_) += bytes;
}

std::int64_t checksum_bytes(std::int64_t store_bytes) {
  return (store_bytes + kBlock - 1) / kBlock * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

}  // namespace penstock::exec
