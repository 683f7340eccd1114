#include "exec/cuda/pinned_ring.h"

#include <algorithm>
#include <vector>

#include "exec/cuda/stream_memory.h"
#include "tests/exec/cuda/gpu_test.h"

namespace penstock::exec {
namespace {

using PinnedRingTest = GpuTest;

TEST_F(PinnedRingTest, EveryByteArrivesBothWays) {
  const StreamHandle stream;
  PinnedRing ring(stream.get(), 2);
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{(256 << 10) + 1}, 8 * kRingSlotBytes,
                                   9 * kRingSlotBytes + 4097}) {
    std::vector<std::byte> from(static_cast<std::size_t>(bytes)), to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + i / 4093);
    const DeviceMemory device(std::max<std::int64_t>(1, bytes));
    ring.upload(device.data(), from.data(), bytes);
    ring.download(to.data(), device.data(), bytes);
    EXPECT_TRUE(to == from) << bytes;
  }
}

}  // namespace
}  // namespace penstock::exec
