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

TEST(Documents, AQuerySeesItsDocumentAsFarAsItself) {
  for (const std::uint64_t longest : {1u, 5u, 100u, 700u})
    for (const int length : {1, 63, 64, 65, 500}) {
      const auto starts = random_starts(length, longest, longest);
      for (int key = 0; key < length; ++key) {
        int end = key;
        while (end < length && starts[static_cast<std::size_t>(end)] <= key) ++end;
        EXPECT_EQ(end_of_queries(starts.data(), length, key), end) << key << " of " << length;
        EXPECT_EQ(first_key(starts.data(), key), starts[static_cast<std::size_t>(key)]);
      }
    }
}

/// A tile of keys is visited by a tile of queries if and only if one of these sees one of those. Queries begin at `past`,
/// 0 or where their chunk does.
TEST(Documents, NoTileIsVisitedInVainOrLeftOut) {
  for (const std::uint64_t longest : {1u, 30u, 64u, 200u, 2000u})
    for (const int length : {1, 64, 65, 1000, 1024})
      for (const int past : {0, 37, 64, 640}) {
        if (past >= length) continue;
        const auto starts = random_starts(length, longest, longest + 1);
        for (int queries = 0; queries < (length - past + kRows - 1) / kRows; ++queries)
          for (int keys = 0; keys < (length + kRows - 1) / kRows; ++keys) {
            const int begin = past + queries * kRows, end = std::min(length, begin + kRows);
            bool meet = false;
            for (int query = begin; query < end; ++query)
              meet = meet || (starts[static_cast<std::size_t>(query)] < (keys + 1) * kRows && query >= keys * kRows);
            const bool forward = keys >= first_key_tile(starts.data(), past, queries, kRows) && keys * kRows < end;
            const bool backward =
                end > keys * kRows && queries < end_of_query_tiles(starts.data(), length, past, keys, kRows);
            EXPECT_EQ(forward, meet) << queries << ", " << keys << " of " << length << " from " << past
                                     << ", documents up to " << longest;
            EXPECT_EQ(backward, meet) << queries << ", " << keys << " of " << length << " from " << past
                                      << ", documents up to " << longest;
          }
      }
}

/// As a rehearsal finds it.
TEST(Documents, WhateverLiesThereNothingOutsideOfTheRowIsNamed) {
  constexpr int kLength = 300;
  std::vector<std::int32_t> garbage;
  for (std::uint64_t i = 0; i < kLength; ++i) garbage.push_back(static_cast<std::int32_t>(random64(3, i)));
  for (int place = 0; place < kLength; ++place) {
    EXPECT_GE(first_key(garbage.data(), place), 0);
    EXPECT_LE(first_key(garbage.data(), place), place);
    EXPECT_GT(end_of_queries(garbage.data(), kLength, place), place);
    EXPECT_LE(end_of_queries(garbage.data(), kLength, place), kLength);
  }
}

}  // namespace
}  // namespace penstock::exec
