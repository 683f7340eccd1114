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
  std::size_t taken = 0;  // in all blocks
  std::size_t most = 0;   // of `taken` so far
};

Block make_block(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kScratchAlignment}));
  return {std::unique_ptr<std::byte, AlignedDelete>(memory), bytes};
}

/// REQUIRES: nothing is taken. From here on one block serves what needed several.
void join_blocks(Stack& s) {
  s.blocks.clear();
  s.blocks.push_back(make_block(s.most));
}

Stack& stack() {
  thread_local Stack instance;
  return instance;
}

}  // namespace

ScratchScope::ScratchScope() : block_(stack().block), used_(stack().used), taken_(stack().taken) {}

ScratchScope::~ScratchScope() {
  Stack& s = stack();
  s.block = block_;
  s.used = used_;
  s.taken = taken_;
  if (taken_ == 0 && s.blocks.size() > 1) join_blocks(s);
}

std::int64_t ScratchScope::held_bytes() {
  std::int64_t bytes = 0;
  for (const Block& block : stack().blocks) bytes += static_cast<std::int64_t>(block.bytes);
  return bytes;
}

void* ScratchScope::take_bytes(std::size_t bytes) {
  Stack& s = stack();
  const std::size_t wanted = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  while (s.block < s.blocks.size() && s.used + wanted > s.blocks[s.block].bytes) {
    ++s.block;
    s.used = 0;
  }
  if (s.block == s.blocks.size()) {
    s.blocks.push_back(make_block(std::max(wanted, kSmallestBlock)));
    s.used = 0;
  }
  s.taken += wanted;
  s.most = std::max(s.most, s.taken);
  std::byte* const start = s.blocks[s.block].memory.get() + s.used;
  s.used += wanted;
  return start;
}

}  // namespace penstock::exec
