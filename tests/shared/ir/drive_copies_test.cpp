// Copies to and from NVMe move whole blocks: the checker proves that they may.
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/drive_alignment.h"
#include "shared/ir/checker.h"
#include "shared/ir/segments.h"
#include "tests/shared/error_text.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

class DriveCopies : public testing::Test {
 protected:
  DriveCopies() {
    PolicyInput in = small::input(small::qwen2_tied(), "penstock");
    in.parameters.nvme_states = -1;
    in.parameters.nvme_weights = 2;
    in.parameters.gradients = TierKind::nvme;
    schedule_ = make_schedule(in);
  }
  bool is_drive_copy(const Op& op) const {
    const LaneKind kind = schedule_.lanes[static_cast<std::size_t>(op.lane)].kind;
    return kind == LaneKind::nvme_read || kind == LaneKind::nvme_write;
  }
  Op& first_read() {
    return *std::find_if(schedule_.ops.begin(), schedule_.ops.end(), [&](const Op& op) {
      return schedule_.lanes[static_cast<std::size_t>(op.lane)].kind == LaneKind::nvme_read;
    });
  }
  std::string faults() const {
    std::string text;
    for (const Fault& fault : check_schedule(schedule_)) text += fault.text + "\n";
    return text;
  }

  Schedule schedule_;
};

TEST_F(DriveCopies, BothEndsAreAlignedAndTheirPaddingIsTheirOwn) {
  EXPECT_EQ(faults(), "");
  int copies = 0, padded = 0;
  for (const Op& op : schedule_.ops) {
    if (!is_drive_copy(op)) continue;
    ++copies;
    if (op.reads[0].bytes % kDriveAlignment != 0) ++padded;
    for (const Access* access : {&op.reads[0], &op.writes[0]}) {
      const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access->buffer)];
      EXPECT_EQ(tier_address(schedule_, *access) % kDriveAlignment, 0) << op.name;
      EXPECT_LE(access->offset_bytes + padded_for_drive(access->bytes), buffer.bytes) << op.name;
    }
  }
  EXPECT_GT(copies, 0);
  EXPECT_GT(padded, 0);  // else nothing was tried
}

TEST_F(DriveCopies, AnEndThatIsNotAlignedIsRefused) {
  Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(first_read().writes[0].buffer)];
  buffer.offset_bytes += 256;
  EXPECT_MENTIONS(faults(), "expected a multiple of 4096");
}

TEST_F(DriveCopies, ALastBlockBeyondTheBufferIsRefused) {
  for (const Op& op : schedule_.ops) {
    if (!is_drive_copy(op) || op.reads[0].bytes % kDriveAlignment == 0) continue;
    Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(op.reads[0].buffer)];
    buffer.bytes = op.reads[0].offset_bytes + op.reads[0].bytes;
    break;
  }
  EXPECT_MENTIONS(faults(), "whose last block of 4096 bytes goes beyond the buffer's");
}

TEST_F(DriveCopies, PaddingThatSomethingElseUsesIsARace) {
  // The step's tokens lie right behind the bytes of a read, in its last block.
  const auto read = std::find_if(schedule_.ops.begin(), schedule_.ops.end(), [&](const Op& op) {
    return schedule_.lanes[static_cast<std::size_t>(op.lane)].kind == LaneKind::nvme_read &&
           op.writes[0].bytes % kDriveAlignment != 0 && kDriveAlignment - op.writes[0].bytes % kDriveAlignment >= 64;
  });
  ASSERT_NE(read, schedule_.ops.end());
  const std::int64_t behind = tier_address(schedule_, read->writes[0]) + read->writes[0].bytes;
  bool moved = false;
  for (Buffer& buffer : schedule_.buffers)
    if (buffer.name == "step scalars (host)") {
      buffer.offset_bytes = behind;
      moved = true;
    }
  ASSERT_TRUE(moved);
  EXPECT_NE(faults(), "");
}

}  // namespace
}  // namespace penstock
