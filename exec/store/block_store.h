// A drive as the memory of a schedule's NVMe tier: one file or several striped ones, direct I/O, several transfers in
// flight, a checksum of every block of 4096 bytes that is verified whenever the block is read.
//
// Checksums lie in memory (4 bytes per block): what is on the drive is of no use without the run (store_files.h).
//
// A copy of a run comes aligned and is moved without a copy in memory. Each lane of a schedule on the drive has a queue
// of its own, so that none waits for another's copy. Everything else (loading, saving) goes through blocks
// in memory.
//
// Errors are std::runtime_error with the region ("master 3"), the block, its place in which file, and the reason.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/memory/memory.h"
#include "exec/store/io_queue.h"
#include "exec/store/store_files.h"

namespace penstock::exec {

/// The kernel cuts a transfer into what the drive takes, and each one's end wakes a thread, which a busy CPU makes dear:
/// against small ones. A copy's last transfers, all that are in flight, are verified when nothing is read any more:
/// against many large ones. Calibration measures what is best for a drive and a CPU.
inline constexpr std::int64_t kDefaultTransferBytes = std::int64_t{4} << 20;
inline constexpr int kDefaultDepth = 8;

/// What lies where, for messages: the buffers of the tier. Ascending in offset.
struct StoreRegion {
  std::string name;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct StoreShape {
  std::int64_t bytes = 0;                               // of all files together
  std::int64_t transfer_bytes = kDefaultTransferBytes;  // what one transfer moves at most, and one stripe
  std::vector<StoreRegion> regions;
};

/// Bytes that the run has moved, of the whole blocks that went over the wire.
struct StoreTraffic {
  std::int64_t read_bytes = 0, written_bytes = 0;
};

class BlockStore : public Memory {
 public:
  /// Throws as StoreFiles does, and InputError if transfer_bytes is no multiple of kDriveAlignment.
  BlockStore(const StorePlace& place, StoreShape shape, std::unique_ptr<IoQueue> reader,
             std::unique_ptr<IoQueue> writer);
  ~BlockStore() override;

  std::int64_t bytes() const override { return shape_.bytes; }
  std::byte* address() const override { return nullptr; }
  std::int64_t alignment() const override;
  void read(std::int64_t offset, std::span<std::byte> to) override;
  void write(std::int64_t offset, std::span<const std::byte> from) override;
  void expect(std::span<const std::span<std::byte>> ranges) override;

  /// More queues, for as many more copies at once; reading, writing. REQUIRES: nothing under way.
  void add_queues(std::unique_ptr<IoQueue> reader, std::unique_ptr<IoQueue> writer);
  /// Goes on with other transfers, for whoever measures what is best. REQUIRES: one file, nothing under way.
  void cut(std::int64_t transfer_bytes, std::unique_ptr<IoQueue> reader, std::unique_ptr<IoQueue> writer);

  StoreTraffic traffic() const { return {read_bytes_, written_bytes_}; }
  const std::vector<std::string>& notes() const { return files_.notes(); }
  /// "2 files, io_uring, 16 x 1.00 MiB in flight each way"
  std::string describe() const;

 private:
  /// The queues of one direction.
  struct Way {
    std::vector<std::unique_ptr<IoQueue>> queues;
    std::vector<IoQueue*> idle;
    std::mutex mutex;
    std::condition_variable changed;

    void add(std::unique_ptr<IoQueue> queue);
  };
  class Lent;
  struct Part;

  void move(Way& way, bool is_write, std::int64_t offset, std::byte* memory, std::int64_t bytes);
  void submit(IoQueue& queue, const Part& part, std::uint64_t tag);
  /// Returns what is wrong, empty if nothing is; advances the part.
  std::string take(Part& part, std::int64_t result);
  void write_partly(std::int64_t offset, std::span<const std::byte> from);
  void read_partly(std::int64_t offset, std::span<std::byte> to);
  void note_checksums(const Part& part);
  std::string verify(const Part& part) const;
  std::string place(std::int64_t offset) const;
  std::int64_t file_offset(std::int64_t offset) const;
  std::size_t file_of(std::int64_t offset) const;

  StoreShape shape_;
  StoreFiles files_;
  Way reader_, writer_;
  std::vector<std::uint32_t> checksums_;  // by block; 0: never written
  std::mutex partly_;                     // reads a block, changes a part of it and writes it
  std::atomic<std::int64_t> read_bytes_{0}, written_bytes_{0};
};

/// Bytes of memory that a store of that size keeps for its checksums.
std::int64_t checksum_bytes(std::int64_t store_bytes);

}  // namespace penstock::exec
