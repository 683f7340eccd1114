// Stores in a temporary folder, with direct I/O where the file system does it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exec/store/block_store.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {

inline constexpr std::int64_t kStoreBlock = 4096;

/// Aligned memory.
class Blocks {
 public:
  explicit Blocks(std::int64_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kStoreBlock, static_cast<std::size_t>(bytes)))) {
    std::memset(memory_.get(), 0, static_cast<std::size_t>(bytes));
  }
  std::span<std::byte> all() const { return {memory_.get(), static_cast<std::size_t>(bytes_)}; }
  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::int64_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// What any exception says that `action` throws; "" if it throws none.
template <class Action>
std::string failure_text(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

inline void fill_random(std::span<std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
}

inline StorePlace store_place(std::vector<std::filesystem::path> folders) {
  StorePlace place;
  place.folders = std::move(folders);
  place.schedule = "5f0c";
  place.from = "random numbers";
  place.direct = false;
  return place;
}

/// Whether files there take O_DIRECT, as far as a store can tell.
inline bool does_direct_io(const std::filesystem::path& folder) {
  StorePlace place = store_place({folder});
  place.direct = true;
  try {
    const StoreFiles files(place, kStoreBlock);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

inline StoreShape store_shape(std::int64_t bytes, std::int64_t transfer_bytes = 16 * kStoreBlock) {
  StoreShape shape;
  shape.bytes = bytes;
  shape.transfer_bytes = transfer_bytes;
  shape.regions = {{"master 0", 0, bytes / 2}, {"master 1", bytes / 2, bytes - bytes / 2}};
  return shape;
}

}  // namespace penstock::exec
