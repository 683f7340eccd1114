#include "exec/runtime/pinning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "shared/error.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(LargestPinnable, IsWhatTheSystemTakesToAStep) {
  const struct {
    std::int64_t wanted, limit, expected;  // in steps, but limit has half of one more
  } cases[] = {{100, 37, 37},   {100, 0, 0},  {100, 1, 1}, {100, 64, 64}, {100, 99, 99},
               {100, 200, 100}, {64, 63, 63}, {1, 5, 1},   {1, 0, 0},     {0, 5, 0}};
  for (const auto& [wanted, limit, expected] : cases) {
    std::vector<std::int64_t> tried;
    const std::int64_t most = limit * kPinStep + kPinStep / 2;
    const std::int64_t found = largest_pinnable(wanted * kPinStep + 4096, [&](std::int64_t bytes) {
      tried.push_back(bytes);
      return bytes <= most;
    });
    EXPECT_EQ(found, expected * kPinStep) << wanted << " " << limit;
    EXPECT_LE(tried.size(), 16u);
    for (const std::int64_t bytes : tried) EXPECT_LE(bytes, wanted * kPinStep);
    if (wanted > 0) {
      EXPECT_EQ(tried.front(), kPinStep);  // small first
    }
  }
}

TEST(PinningRefused, NamesTheLimitAndWhatToSet) {
  const TemporaryFolder root;
  MemoryLimits limits;
  limits.lockable_bytes = 8 << 20;
  const auto text = [&] { return pinning_refused_text(24 * kGiB, kGiB, "out of memory", limits, root.path()); };
  EXPECT_MENTIONS(text(),
                  "arena of 24.00 GiB cannot be pinned for the GPU's copies (out of memory); 1.00 GiB of it can");
  EXPECT_MENTIONS(text(), "locked memory is 8.00 MiB: `ulimit -l unlimited`");
  EXPECT_MENTIONS(text(), "through rings of pinned memory, slower");
  EXPECT_MENTIONS(text(), "--set machine.pinned=\"1024 MiB\"");
  EXPECT_MENTIONS(pinning_refused_text(24 * kGiB, 100 << 20, "out of memory", limits, root.path()),
                  "100.00 MiB of it can, less than the 128.00 MiB of rings");
  limits.lockable_bytes = -1;
  EXPECT_MENTIONS(text(), "no limit of this process is in the way");
  limits.container_bytes = 32 * kGiB;
  EXPECT_MENTIONS(text(), "the container may have 32.00 GiB in all");
  std::filesystem::create_directory(root.path() / "proc");
  root.write("proc/version", "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@host)\n");
  EXPECT_MENTIONS(text(), ".wslconfig");
}

TEST(PinnedLimit, IsReadFromTheEnvironment) {
  ::unsetenv("PENSTOCK_PINNED_LIMIT");
  EXPECT_EQ(pinned_limit(), -1);
  ::setenv("PENSTOCK_PINNED_LIMIT", "1 GiB", 1);
  EXPECT_EQ(pinned_limit(), kGiB);
  EXPECT_MENTIONS(pinning_refused_text(2 * kGiB, kGiB, "", {}, "/nowhere"), "PENSTOCK_PINNED_LIMIT is 1 GiB: raise or");
  ::setenv("PENSTOCK_PINNED_LIMIT", "100 MiB", 1);
  EXPECT_THROW(pinned_limit(), InputError);
  ::setenv("PENSTOCK_PINNED_LIMIT", "much", 1);
  EXPECT_THROW(pinned_limit(), InputError);
  ::unsetenv("PENSTOCK_PINNED_LIMIT");
}

}  // namespace
}  // namespace penstock::exec
