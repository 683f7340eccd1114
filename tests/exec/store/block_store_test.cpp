// What was written is read, by every queue, over one file and several; what goes wrong is named and nothing else.
#include "exec/store/block_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <thread>

#include "shared/error.h"
#include "tests/exec/store/faulty_queue.h"
#include "tests/exec/store/refused_calls.h"
#include "tests/exec/store/small_store.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kBytes = 100 * kStoreBlock;

struct Kind {
  std::string name;
  std::function<std::unique_ptr<IoQueue>(int)> make;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{{"io_uring", make_uring_queue}, {"threads", make_thread_queue}};
  return all;
}

class BlockStoreTest : public testing::Test {
 protected:
  std::unique_ptr<BlockStore> store(std::map<int, IoFault> reads, std::map<int, IoFault> writes) {
    return std::make_unique<BlockStore>(store_place({folder_.path()}), store_shape(kBytes),
                                        std::make_unique<FaultyQueue>(make_thread_queue(3), std::move(reads)),
                                        std::make_unique<FaultyQueue>(make_thread_queue(3), std::move(writes)));
  }
  /// Written whole, so that reads may be tried.
  std::unique_ptr<BlockStore> written(std::map<int, IoFault> reads) {
    auto made = store(std::move(reads), {});
    made->write(0, blocks_.all());
    return made;
  }
  static Blocks random_blocks() {
    Blocks blocks(kBytes);
    fill_random(blocks.all(), 1);
    return blocks;
  }
  bool agree(const Blocks& other) const { return std::memcmp(blocks_.data(), other.data(), kBytes) == 0; }

  TemporaryFolder folder_;
  Blocks blocks_ = random_blocks();
};

TEST_F(BlockStoreTest, WhatWasWrittenIsReadByEveryQueueOverAnyNumberOfFiles) {
  const std::filesystem::path a = folder_.path() / "a", b = folder_.path() / "b", c = folder_.path() / "c";
  for (const auto& folder : {a, b, c}) std::filesystem::create_directory(folder);
  for (const Kind& kind : kinds())
    for (const auto& folders : {std::vector{a}, std::vector{a, b}, std::vector{a, b, c}})
      for (const int depth : {1, 2, 16}) {
        if (kind.make(depth) == nullptr) {
          std::fprintf(stderr, "%s is refused here\n", kind.name.c_str());
          continue;
        }
        for (const bool direct : {false, true}) {
          if (direct && !does_direct_io(a)) continue;
          StorePlace place = store_place(folders);
          place.direct = direct;
          BlockStore store(place, store_shape(kBytes), kind.make(depth), kind.make(depth));
          // Taken beforehand: seven transfers of 16 blocks, dealt to several files in turn, or what is in one.
          const std::int64_t blocks = folders.size() == 1 ? 100 : folders.size() == 2 ? 4 * 16 : 3 * 16;
          for (const auto& folder : folders)
            EXPECT_EQ(static_cast<std::int64_t>(std::filesystem::file_size(folder / kStoreName)),
                      kDataOffset + blocks * kStoreBlock);
          store.expect(std::vector{blocks_.all()});
          store.write(0, blocks_.all());
          Blocks found(kBytes);
          store.read(0, found.all());
          EXPECT_TRUE(agree(found)) << kind.name << ", " << folders.size() << " files, depth " << depth;
          // Ranges that end within a transfer, and begin in another file.
          store.read(37 * kStoreBlock, found.all().subspan(37 * kStoreBlock, 31 * kStoreBlock));
          EXPECT_TRUE(agree(found)) << kind.name;
          EXPECT_EQ(store.traffic().written_bytes, kBytes);
          EXPECT_EQ(store.traffic().read_bytes, kBytes + 31 * kStoreBlock);
        }
      }
}

TEST_F(BlockStoreTest, AnyRangeIsReadAndWrittenAndTheRestOfItsBlocksStays) {
  auto made = written({});
  std::vector<std::byte> other(3 * kStoreBlock + 77);
  fill_random(other, 2);
  const std::pair<std::int64_t, std::size_t> ranges[] = {
      {10, 20},                                       // within a block
      {5 * kStoreBlock - 3, 6},                       // over the end of one
      {7 * kStoreBlock + 100, 3 * kStoreBlock + 77},  // blocks in the middle
      {20 * kStoreBlock, kStoreBlock + 1},            // from a block's beginning
      {30 * kStoreBlock + 5, 2 * kStoreBlock - 5},    // to a block's end
      {kBytes - 1, 1},                                // the last byte
  };
  Blocks expected(kBytes);
  std::memcpy(expected.data(), blocks_.data(), kBytes);
  for (const auto& [offset, bytes] : ranges) {
    made->write(offset, std::span(other).first(bytes));
    std::memcpy(expected.data() + offset, other.data(), bytes);
    std::vector<std::byte> found(bytes);
    made->read(offset, found);
    EXPECT_EQ(std::memcmp(found.data(), other.data(), bytes), 0) << offset;
  }
  Blocks found(kBytes);
  made->read(0, found.all());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), kBytes), 0);
}

TEST_F(BlockStoreTest, ThePaddingOfANewBlockIsZero) {
  auto made = store({}, {});
  const std::vector<std::byte> few(10, std::byte{9});
  made->write(3 * kStoreBlock, few);
  Blocks found(kStoreBlock);
  fill_random(found.all(), 3);
  made->read(3 * kStoreBlock, found.all());
  EXPECT_EQ(found.data()[9], std::byte{9});
  for (std::int64_t i = 10; i < kStoreBlock; ++i) ASSERT_EQ(found.data()[i], std::byte{0}) << i;
}

TEST_F(BlockStoreTest, ReadersAndWritersWorkBesideOneAnother) {
  auto made = written({});
  const std::int64_t half = kBytes / 2;
  std::jthread writer([&] {
    for (int i = 0; i < 50; ++i) made->write(half, blocks_.all().subspan(half));
  });
  Blocks found(kBytes);
  for (int i = 0; i < 50; ++i) made->read(0, found.all().first(half));
  writer.join();
  EXPECT_EQ(std::memcmp(found.data(), blocks_.data(), static_cast<std::size_t>(half)), 0);
}

TEST_F(BlockStoreTest, ABlockThatWasNeverWrittenIsNotRead) {
  auto made = store({}, {});
  Blocks found(kStoreBlock);
  EXPECT_MENTIONS(failure_text([&] { made->read(60 * kStoreBlock, found.all()); }), "block 10 of \"master 1\"");
}

TEST_F(BlockStoreTest, ShortTransfersAreGoneOnWith) {
  const std::map<int, IoFault> faults{{0, IoFault::short_transfer}, {2, IoFault::short_transfer}, {3, IoFault::again}};
  auto made = store(faults, faults);
  made->write(0, blocks_.all());
  Blocks found(kBytes);
  made->read(0, found.all());
  EXPECT_TRUE(agree(found));
}

struct ReadFault {
  IoFault fault;
  std::string reason;
};

TEST_F(BlockStoreTest, WhatCannotBeReadIsNamedWithItsBlockAndPlace) {
  for (const ReadFault& expected : {ReadFault{IoFault::io_error, "could not be read: Input/output error"},
                                    ReadFault{IoFault::nothing, "could not be read: the file ends there"},
                                    ReadFault{IoFault::less_than_block, "could not be read: the file ends there"}})
    for (const int call : {0, 3, 6}) {  // first, in the middle, last: 100 blocks in transfers of 16
      auto made = written({{call, expected.fault}});
      Blocks found(kBytes);
      const std::string text = failure_text([&] { made->read(0, found.all()); });
      const int block = 16 * call;
      EXPECT_MENTIONS(text, fmt::format("block {} of \"master {}\"", block % 50, block / 50));
      EXPECT_MENTIONS(text, fmt::format("byte {} of {}", kDataOffset + block * kStoreBlock,
                                        (folder_.path() / kStoreName).string()));
      EXPECT_MENTIONS(text, expected.reason);
      // The store goes on: nothing of the failed copy is in flight any more.
      made->read(0, found.all());
      EXPECT_TRUE(agree(found));
    }
}

TEST_F(BlockStoreTest, AFlippedBitIsCaughtAndItsBlockNamed) {
  for (const int call : {0, 4, 6}) {
    auto made = written({{call, IoFault::bit_flip}});
    Blocks found(kBytes);
    const std::string text = failure_text([&] { made->read(0, found.all()); });
    const int flipped = 16 * call + (call == 6 ? 2 : 8);  // in the middle of the transfer, the last one is of 4 blocks
    EXPECT_MENTIONS(text, fmt::format("block {} of \"master {}\"", flipped % 50, flipped / 50));
    EXPECT_MENTIONS(text, "is not what was written there");
  }
  // One that was flipped on the way to the drive is caught when it is read.
  auto made = store({}, {{1, IoFault::bit_flip}});
  made->write(0, blocks_.all());
  Blocks found(kBytes);
  EXPECT_MENTIONS(failure_text([&] { made->read(0, found.all()); }), "block 24 of \"master 0\"");
}

TEST_F(BlockStoreTest, ABitThatFlipsOnTheDriveIsCaught) {
  auto made = written({});
  std::fstream file(folder_.path() / kStoreName, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kDataOffset + 70 * kStoreBlock + 5);
  file.put(static_cast<char>(blocks_.data()[70 * kStoreBlock + 5] ^ std::byte{1}));
  file.close();
  Blocks found(kBytes);
  EXPECT_MENTIONS(failure_text([&] { made->read(0, found.all()); }), "block 20 of \"master 1\"");
  EXPECT_MENTIONS(failure_text([&] {
                    std::vector<std::byte> few(3);
                    made->read(70 * kStoreBlock + 50, few);
                  }),
                  "block 20 of \"master 1\"");
}

TEST_F(BlockStoreTest, AFullDriveIsNamed) {
  for (const int call : {0, 5}) {
    auto made = store({}, {{call, IoFault::no_space}});
    EXPECT_MENTIONS(failure_text([&] { made->write(0, blocks_.all()); }),
                    "could not be written: No space left on device");
  }
}

TEST_F(BlockStoreTest, EveryCallMayFailAndNothingWrongIsEverRead) {
  for (const IoFault fault : {IoFault::io_error, IoFault::nothing, IoFault::short_transfer, IoFault::bit_flip})
    for (int call = 0; call < 8; ++call) {
      auto made = written({{call, fault}});
      Blocks found(kBytes);
      if (failure_text([&] { made->read(0, found.all()); }).empty()) {
        EXPECT_TRUE(agree(found)) << call;
      }
    }
}

TEST(IoQueues, ThreadsWorkWhereARingMayBeMadeAndNotUsed) {
  const int code = in_child([] { return refuse_call(SYS_io_uring_enter, EPERM); },
                            [] {
                              if (make_uring_queue(4) != nullptr) return 2;
                              return make_io_queue(4)->name() == "threads" ? 0 : 3;
                            });
  if (code == kNoFilter) GTEST_SKIP() << "no filter may be set here";
  EXPECT_EQ(code, 0);
}

TEST_F(BlockStoreTest, TransfersMustBeWholeBlocks) {
  EXPECT_THROW(
      BlockStore(store_place({folder_.path()}), store_shape(kBytes, 5000), make_thread_queue(1), make_thread_queue(1)),
      InputError);
}

TEST(Checksums, TakeAThousandthOfTheStore) {
  EXPECT_EQ(checksum_bytes(std::int64_t{1} << 40), std::int64_t{1} << 30);
  EXPECT_EQ(checksum_bytes(1), 4);
}

}  // namespace
}  // namespace penstock::exec
