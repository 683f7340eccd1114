#include "exec/checkpoint/state_snapshot.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "exec/memory/arena.h"
#include "exec/optimizer/thread_team.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kPiece = std::int64_t{4} << 20;

/// Where states begin and how long they are, in one tier; joined where they touch or overlap.
using Ranges = std::map<std::int64_t, std::int64_t>;

bool is_state(TensorKind tensor) {
  return tensor == TensorKind::weights || tensor == TensorKind::low_bits || tensor == TensorKind::master ||
         tensor == TensorKind::moment_m || tensor == TensorKind::moment_v;
}

bool on_gpu(const Schedule& schedule, const Access& access) {
  const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(access.buffer)];
  return schedule.tiers[static_cast<std::size_t>(buffer.tier)].kind == TierKind::hbm;
}

Ranges joined(std::vector<std::pair<std::int64_t, std::int64_t>> pieces) {
  std::sort(pieces.begin(), pieces.end());
  Ranges ranges;
  for (const auto& [begin, bytes] : pieces) {
    if (ranges.empty() || begin > ranges.rbegin()->first + ranges.rbegin()->second)
      ranges.emplace(begin, bytes);
    else
      ranges.rbegin()->second = std::max(ranges.rbegin()->second, begin + bytes - ranges.rbegin()->first);
  }
  return ranges;
}

/// By tier: what StateReader reads. A state that lies on the GPU and in another tier is read from that one.
std::vector<Ranges> state_ranges(const Schedule& schedule) {
  std::map<std::pair<TensorKind, int>, bool> elsewhere;
  for (const Access& access : schedule.initial)
    elsewhere[{access.value.tensor, access.value.layer}] |= !on_gpu(schedule, access);
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> pieces(schedule.tiers.size());
  for (const Access& access : schedule.initial) {
    if (!is_state(access.value.tensor)) continue;
    if (on_gpu(schedule, access) && elsewhere.at({access.value.tensor, access.value.layer})) continue;
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(access.buffer)];
    pieces[static_cast<std::size_t>(buffer.tier)].emplace_back(buffer.offset_bytes + access.offset_bytes, access.bytes);
  }
  std::vector<Ranges> ranges;
  for (auto& of_tier : pieces) ranges.push_back(joined(std::move(of_tier)));
  return ranges;
}

std::int64_t bytes_of(const Ranges& ranges) {
  std::int64_t bytes = 0;
  for (const auto& range : ranges) bytes += range.second;
  return bytes;
}

/// Ranges of another memory, one behind the other, under the offsets that they have there.
class RangesCopy : public Memory {
 public:
  explicit RangesCopy(const Ranges& ranges)
      : arena_(std::max<std::int64_t>(1, bytes_of(ranges)), "a copy of the states") {
    std::int64_t at = 0;
    for (const auto& [begin, bytes] : ranges) {
      pieces_.emplace(begin, Piece{bytes, at});
      at += bytes;
    }
  }

  std::int64_t bytes() const override { return arena_.bytes(); }
  std::byte* address() const override { return nullptr; }
  void read(std::int64_t offset, std::span<std::byte> to) override {
    if (to.empty()) return;
    std::memcpy(to.data(), place(offset, static_cast<std::int64_t>(to.size())), to.size());
  }
  void write(std::int64_t offset, std::span<const std::byte> from) override {
    if (from.empty()) return;
    std::memcpy(place(offset, static_cast<std::int64_t>(from.size())), from.data(), from.size());
  }

  void take(Memory& memory, int threads) {
    for (const auto& [begin, piece] : pieces_)
      for_ranges(piece.bytes, kPiece, threads, [&, first = begin, at = piece.at](std::int64_t from, std::int64_t to) {
        for (; from < to; from += kPiece) {
          const std::int64_t bytes = std::min(kPiece, to - from);
          memory.read(first + from, {arena_.data() + at + from, static_cast<std::size_t>(bytes)});
        }
      });
  }

 private:
  struct Piece {
    std::int64_t bytes = 0, at = 0;
  };

  std::byte* place(std::int64_t offset, std::int64_t bytes) const {
    const auto after = pieces_.upper_bound(offset);
    if (after != pieces_.begin()) {
      const auto& [begin, piece] = *std::prev(after);
      if (offset + bytes <= begin + piece.bytes) return arena_.data() + piece.at + (offset - begin);
    }
    throw std::logic_error("a snapshot holds states alone");
  }

  Arena arena_;
  std::map<std::int64_t, Piece> pieces_;  // by where they begin in the other memory
};

}  // namespace

std::int64_t snapshot_bytes(const Schedule& schedule) {
  std::int64_t bytes = 0;
  for (const Ranges& ranges : state_ranges(schedule)) bytes += bytes_of(ranges);
  return bytes;
}

StateSnapshot::StateSnapshot(const Schedule& schedule, const Model& model)
    : schedule_(schedule), model_(model), bytes_(snapshot_bytes(schedule)) {
  for (const Ranges& ranges : state_ranges(schedule)) copies_.push_back(std::make_unique<RangesCopy>(ranges));
}

void StateSnapshot::take(const TierMemories& memories, int threads) {
  for (std::size_t tier = 0; tier < copies_.size(); ++tier)
    static_cast<RangesCopy&>(*copies_[tier]).take(*memories[tier], threads);
}

}  // namespace penstock::exec
