// Which micro-batches a gradient holds: sets that grow by one contribution at a time, in ascending order.
#pragma once

#include <vector>

namespace penstock {

/// Sets are numbered and never change; kEmpty is the set of none. A set is its predecessor plus one micro-batch, so
/// that every step costs constant time and memory. (The order is part of the numerics: sums are added in ascending
/// order of micro-batches, or the bits of the run change. Where sequences are cut a micro-batch counts here by its turn,
/// Schedule::turn.)
class Contributions {
 public:
  static constexpr int kEmpty = -1;

  enum class Fault { none, twice, out_of_order };

  struct Added {
    int set = kEmpty;
    Fault fault = Fault::none;
    int other_op = -1;  // twice: who contributed it before; out_of_order: who contributed the later one
  };

  /// `set` plus what `op` contributes for `micro_batch`. A faulty contribution leaves the set as it was.
  Added add(int set, int micro_batch, int op) {
    if (set != kEmpty && at(set).micro_batch >= micro_batch) {
      for (int other = set; other != kEmpty && at(other).micro_batch >= micro_batch; other = at(other).before)
        if (at(other).micro_batch == micro_batch) return {set, Fault::twice, at(other).op};
      return {set, Fault::out_of_order, at(set).op};
    }
    sets_.push_back({set, micro_batch, op, count(set) + 1});
    return {static_cast<int>(sets_.size()) - 1};
  }

  int count(int set) const { return set == kEmpty ? 0 : at(set).count; }

  struct Gap {
    int micro_batch = -1;  // the first one that is missing; -1: none
    int after_op = -1;     // the op that added the next one, -1 if there is no later one
  };
  /// REQUIRES: only micro-batches below `micro_batches` were added.
  Gap first_gap(int set, int micro_batches) const {
    if (count(set) == micro_batches) return {};
    Gap gap{micro_batches - 1, -1};  // walking down: the largest not yet seen
    int expected = micro_batches - 1, later = -1;
    for (; set != kEmpty; set = at(set).before) {
      if (at(set).micro_batch < expected) gap = {at(set).micro_batch + 1, later};
      expected = at(set).micro_batch - 1;
      later = at(set).op;
    }
    if (expected >= 0) gap = {0, later};
    return gap;
  }

 private:
  struct Set {
    int before;
    int micro_batch;  // the largest of the set
    int op;
    int count;
  };
  const Set& at(int set) const { return sets_[static_cast<std::size_t>(set)]; }

  std::vector<Set> sets_;
};

}  // namespace penstock
