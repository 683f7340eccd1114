// What the attention kernels skip and what they do not, place by place; needs no GPU.
#include "exec/cuda/documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shared/random.h"

namespace penstock::exec {
namespace {

constexpr int kRows = 64;

std::vector<std::int32_t> random_starts(int length, std::uint64_t longest, std::uint64_t key) {
  std::vector<std::int32_t> starts;
  for (std::uint64_t i = 0; static_cast<int>(starts.size()) < length; ++i)
    starts.resize(starts.size() + 1 + random_below(key, i, longest), static_cast<std::int32_t>(starts.size()));
  starts.resize(static_cast<std::size_t>(length));
  return starts;
}

/// The first key that a query sees, by the rule.
int first_seen(const std::vector<std::int32_t>& starts, int window, int query) {
  const int start = starts.empty() ? 0 : starts[static_cast<std::size_t>(query)];
  return window == 0 ? start : std::max(start, query + 1 - window);
}

VisibleKeys keys_of(const std::vector<std::int32_t>& starts, int length, int window) {
  return {starts.empty() ? nullptr : starts.data(), length, window};
}

constexpr int kWindows[] = {0, 1, 2, 63, 64, 65, 200, 5000};

TEST(Documents, AQuerySeesItsDocumentWithinItsWindowAsFarAsItself) {
  for (const std::uint64_t longest : {0u, 1u, 5u, 100u, 700u})  // 0: no documents
    for (const int length : {1, 63, 64, 65, 500})
      for (const int window : kWindows) {
        const auto starts = longest == 0 ? std::vector<std::int32_t>() : random_starts(length, longest, longest);
        const VisibleKeys keys = keys_of(starts, length, window);
        for (int key = 0; key < length; ++key) {
          int end = key;
          while (end < length && first_seen(starts, window, end) <= key) ++end;
          EXPECT_EQ(keys.end_of_queries(key), end) << key << " of " << length << ", window " << window;
          EXPECT_EQ(keys.first_key(key), first_seen(starts, window, key));
        }
      }
}

/// A tile of keys is visited by a tile of queries if and only if one of these sees one of those. Queries begin at `past`,
/// 0 or where their chunk does.
TEST(Documents, NoTileIsVisitedInVainOrLeftOut) {
  for (const std::uint64_t longest : {0u, 1u, 30u, 64u, 200u, 2000u})
    for (const int length : {1, 64, 65, 1000, 1024})
      for (const int past : {0, 37, 64, 640})
        for (const int window : kWindows) {
          if (past >= length) continue;
          const auto starts = longest == 0 ? std::vector<std::int32_t>() : random_starts(length, longest, longest + 1);
          const VisibleKeys visible = keys_of(starts, length, window);
          for (int queries = 0; queries < (length - past + kRows - 1) / kRows; ++queries)
            for (int keys = 0; keys < (length + kRows - 1) / kRows; ++keys) {
              const int begin = past + queries * kRows, end = std::min(length, begin + kRows);
              bool meet = false;
              for (int query = begin; query < end; ++query)
                meet = meet || (first_seen(starts, window, query) < (keys + 1) * kRows && query >= keys * kRows);
              const bool forward = keys >= visible.first_key_tile(past, queries, kRows) && keys * kRows < end;
              const bool backward = end > keys * kRows && queries < visible.end_of_query_tiles(past, keys, kRows);
              EXPECT_EQ(forward, meet) << queries << ", " << keys << " of " << length << " from " << past
                                       << ", documents up to " << longest << ", window " << window;
              EXPECT_EQ(backward, meet) << queries << ", " << keys << " of " << length << " from " << past
                                        << ", documents up to " << longest << ", window " << window;
            }
        }
}

/// As a rehearsal finds it.
TEST(Documents, WhateverLiesThereNothingOutsideOfTheRowIsNamed) {
  constexpr int kLength = 300;
  std::vector<std::int32_t> garbage;
  for (std::uint64_t i = 0; i < kLength; ++i) garbage.push_back(static_cast<std::int32_t>(random64(3, i)));
  for (const int window : {0, 1, 70}) {
    const VisibleKeys keys{garbage.data(), kLength, window};
    for (int place = 0; place < kLength; ++place) {
      EXPECT_GE(keys.first_key(place), 0);
      EXPECT_LE(keys.first_key(place), place);
      EXPECT_GT(keys.end_of_queries(place), place);
      EXPECT_LE(keys.end_of_queries(place), kLength);
    }
  }
}

}  // namespace
}  // namespace penstock::exec
