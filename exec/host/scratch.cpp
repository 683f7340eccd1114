#include "exec/host/scratch.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

namespace penstock::exec {
namespace {

constexpr std::size_t kSmallestBlock = std::size_t{1} << 20;

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kScratchAlignment}); }
};

struct Block {
  std::unique_ptr<std::byte, AlignedDelete> memory;
  std::size_t bytes = 0;
};

struct Stack {
  std::vector<Block> blocks;
  std::size_t block = 0;  // the block that is being filled
  std::size_t used = 0;   // bytes of it
};

Stack& stack() {
  thread_local Stack instance;
  return instance;
}

}  // namespace

ScratchScope::ScratchScope() : block_(stack().block), used_(stack().used) {}

ScratchScope::~ScratchScope() {
  stack().block = block_;
  stack().used = used_;
}

void* ScratchScope::take_bytes(std::size_t bytes) {
  Stack& s = stack();
  const std::size_t wanted = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  while (s.block < s.blocks.size() && s.used + wanted > s.blocks[s.block].bytes) {
    ++s.block;
    s.used = 0;
  }
  if (s.block == s.blocks.size()) {
    const std::size_t size = std::max({wanted, kSmallestBlock, s.blocks.empty() ? 0 : 2 * s.blocks.back().bytes});
    auto* memory = static_cast<std::byte*>(::operator new (size, std::align_val_t{kScratchAlignment}));
    s.blocks.push_back({std::unique_ptr<std::byte, AlignedDelete>(memory), size});
    s.used = 0;
  }
  std::byte* const start = s.blocks[s.block].memory.get() + s.used;
  s.used += wanted;
  return start;
}

}  // namespace penstock::exec
