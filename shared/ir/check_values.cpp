// Executes the schedule in id order, with labels in place of bytes. Every segment holds the label of the last write,
// the version counted from step 0 on, so that what is left over from the step before is told from what this step made.
//
// One step would prove all: what step 0 reads was either written before in step 0 or lies there initially, and at the
// end of each step the initial places are compared again, one version later, so that step 1 finds the same. The second
// step is there for what a person wants to be told: "left over from the step before" says more than "nothing".
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "shared/ir/check_parts.h"
#include "shared/ir/contributions.h"
#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

constexpr int kSteps = 2;

/// What lies in a segment. `version` is absolute: the step's number plus the label's version.
struct Held {
  Value value;                                // workspace: nothing of value
  std::int64_t origin = 0;                    // address at which the value begins
  int writer = -1;                            // op, -1: initial
  int contributions = Contributions::kEmpty;  // of gradient_sum, gradient_part, kv_gradient
};

bool is_state(TensorKind tensor) {
  return tensor == TensorKind::weights || tensor == TensorKind::low_bits || tensor == TensorKind::master ||
         tensor == TensorKind::moment_m || tensor == TensorKind::moment_v;
}

class ValueCheck {
 public:
  ValueCheck(const Schedule& schedule, const Segments& segments, FaultList& faults)
      : schedule_(schedule),
        segments_(segments),
        faults_(faults),
        held_(segments.count()),
        read_stamp_(segments.count(), {-1, 0}),
        write_stamp_(segments.count(), -1) {}

  void run() {
    for (std::size_t i = 0; i < schedule_.initial.size(); ++i)
      put(schedule_.initial[i], segments_.initial(i), 0, -1, Contributions::kEmpty);
    for (step_ = 0; step_ < kSteps; ++step_) {
      for (const Op& op : schedule_.ops) run(op);
      compare_initial();
    }
    for (auto& [place, fault] : found_) faults_.add(fault.kind, fault.first_op, fault.second_op, std::move(fault.text));
  }

 private:
  /// Place of a fault: op (last: the end of the step) and which of its accesses. A later step's text replaces an
  /// earlier one's.
  using Key = std::pair<std::size_t, std::size_t>;
  static constexpr std::size_t kWhole = 1'000'000;

  void report(Key key, FaultKind kind, int first, int second, std::string text) {
    // Bounded: the list of faults is, and what is dropped here comes after what is kept.
    if (const auto at = found_.find(key); at != found_.end())
      at->second = {kind, first, second, std::move(text)};
    else if (found_.size() < kKept)
      found_.emplace(key, Fault{kind, first, second, std::move(text)});
  }
  static constexpr std::size_t kKept = 1'000;
  /// Whether a fault there would be kept: else it need not be put into words.
  bool wanted(Key key) const { return found_.size() < kKept || found_.contains(key); }

  // --- one op

  void run(const Op& op) {
    if (step_ == 0) check_overlap(op);
    found_sums_.clear();
    int carried = Contributions::kEmpty;
    for (std::size_t i = 0; i < op.reads.size(); ++i) {
      const Held* held = read(op, i);
      if (i == 0 && held) carried = held->contributions;
      if (held) found_sums_.emplace_back(op.reads[i].value, held->contributions);
    }
    if (std::holds_alternative<HostPassWork>(op.work)) return;  // leaves everything as it is
    int of_keys = carried;
    if (!std::holds_alternative<CopyWork>(op.work)) {
      carried = contribute(op);
      of_keys = contribute_to_keys(op);
    }
    for (std::size_t i = 0; i < op.writes.size(); ++i)
      put(op.writes[i], segments_.write(op.id, i), step_, op.id,
          op.writes[i].value.tensor == TensorKind::kv_gradient ? of_keys : carried);
  }

  void put(const Access& access, SegmentRange range, int step, int writer, int contributions) {
    Held held{access.value, tier_address(schedule_, access), writer, contributions};
    held.value.version += steps_of(held.value, step);
    for (std::uint32_t segment = range.first; segment < range.last; ++segment) held_[segment] = held;
  }

  /// By how much versions of the value grow in so many steps: what is frozen is the same in all of them.
  int steps_of(const Value& value, int steps) const {
    const bool is_frozen =
        value.layer >= 0 && is_state(value.tensor) &&
        std::binary_search(schedule_.model.frozen_layers.begin(), schedule_.model.frozen_layers.end(), value.layer);
    return is_frozen ? 0 : steps;
  }

  /// Whether `held` is what `access` declares for that segment.
  bool agrees(const Held& held, const Access& access, std::int64_t start) const {
    const Value& wanted = access.value;
    const Value& value = held.value;
    if (value.tensor != wanted.tensor || value.layer != wanted.layer ||
        value.version != wanted.version + steps_of(wanted, step_))
      return false;
    if (value.micro_batch == wanted.micro_batch) return held.origin == tier_address(schedule_, access);
    // All losses together are the losses of the micro-batches, one behind the other.
    if (wanted.tensor != TensorKind::loss || wanted.micro_batch != -1) return false;
    const std::int64_t bytes = 8 * loss_numbers(schedule_.model);
    const std::int64_t piece = (start - tier_address(schedule_, access)) / bytes;
    return value.micro_batch == piece && held.origin == tier_address(schedule_, access) + bytes * piece;
  }

  /// Returns what lies at the access's first byte.
  const Held* read(const Op& op, std::size_t index) {
    const Access& access = op.reads[index];
    const SegmentRange range = segments_.read(op.id, index);
    if (access.value.tensor == TensorKind::workspace) return nullptr;
    for (std::uint32_t segment = range.first; segment < range.last; ++segment) {
      const Held& held = held_[segment];
      if (agrees(held, access, segments_.start(segment))) continue;
      if (sum_lacks_contributions(op, access, held)) break;  // told better by require_complete
      wrong_value(op, index, segment);
      break;
    }
    return range.size() > 0 ? &held_[range.first] : nullptr;
  }

  bool sum_lacks_contributions(const Op& op, const Access& access, const Held& held) const {
    return std::holds_alternative<FinishGradientWork>(op.work) && access.value.tensor == TensorKind::gradient_sum &&
           held.value.tensor == TensorKind::gradient_sum && held.value.layer == access.value.layer &&
           held.value.version == access.value.version + step_ && held.origin == tier_address(schedule_, access) &&
           contributions_.count(held.contributions) < schedule_.micro_batches;
  }

  void wrong_value(const Op& op, std::size_t index, std::uint32_t segment) {
    const Access& access = op.reads[index];
    const Held& held = held_[segment];
    const Key key{static_cast<std::size_t>(op.id), index};
    if (!wanted(key)) return;
    const std::string reads =
        fmt::format("{} reads {} in {}", op_title(op), value_label(access.value), range_title(schedule_, access));
    if (held.value.tensor == TensorKind::workspace && held.writer < 0) {
      report(key, FaultKind::wrong_value, -1, op.id,
             reads + ", but nothing was put there before: it is neither initial nor written");
      return;
    }
    const std::int64_t at = segments_.start(segment) - tier_address(schedule_, access) + access.offset_bytes;
    std::string text = fmt::format("{}, but finds {} at bytes [{}, {}), {}", reads, found_label(held), at,
                                   at + segments_.bytes(segment), writer_text(held));
    text += advice(access, held);
    report(key, FaultKind::wrong_value, held.writer, op.id, std::move(text));
  }

  std::string found_label(const Held& held) const {
    if (held.value.tensor == TensorKind::workspace) return "scratch";
    Value value = held.value;
    value.version -= steps_of(value, step_);
    return value_label(value);
  }

  std::string writer_text(const Held& held) const {
    if (held.writer < 0) return "which lies there initially";
    return "left by " + op_title(schedule_.ops[static_cast<std::size_t>(held.writer)]);
  }

  std::string advice(const Access& access, const Held& held) const {
    const Value& wanted = access.value;
    const Value& value = held.value;
    if (value.tensor != wanted.tensor || value.layer != wanted.layer || value.micro_batch != wanted.micro_batch)
      return "";
    const int found = value.version - steps_of(value, step_);
    if (found == wanted.version)
      return fmt::format(": the value begins {} bytes away from where the read begins",
                         held.origin - tier_address(schedule_, access));
    if (!is_state(wanted.tensor)) return found < wanted.version ? ": it is left over from the step before" : "";
    return found < wanted.version ? ": it was taken before the update" : ": it was updated before this read";
  }

  // --- contributions

  /// What the sum that `op` writes holds.
  int contribute(const Op& op) {
    if (const auto* work = std::get_if<TemplateWork>(&op.work)) {
      if (!contributes(work->pass)) return Contributions::kEmpty;
      return add(op, sum_read(op.layer), op.micro_batch);
    }
    if (std::holds_alternative<AccumulateWork>(op.work)) return add(op, sum_read(op.layer), op.micro_batch);
    if (std::holds_alternative<FinishGradientWork>(op.work)) require_complete(op);
    return Contributions::kEmpty;
  }

  /// What the gradients of keys and values hold that `op` writes: each chunk's queries add to those of all chunks up to
  /// their own, the last chunk's first. With its own addition the op's own chunk has all, and is used.
  int contribute_to_keys(const Op& op) {
    const auto* work = std::get_if<TemplateWork>(&op.work);
    if (work == nullptr || !schedule_.micro_batch.is_cut() || !is_decoder(work->kind) || !is_backward(work->pass))
      return Contributions::kEmpty;
    const int chunks = schedule_.chunks(), turn = schedule_.turn(op.micro_batch);
    int all = Contributions::kEmpty;
    for (const auto& [value, set] : found_sums_) {
      if (value.tensor != TensorKind::kv_gradient) continue;
      all = set;
      if (contributions_.count(set) == turn % chunks || found_.size() >= kKept) continue;
      report({static_cast<std::size_t>(op.id), 2 * kWhole + static_cast<std::size_t>(value.micro_batch)},
             FaultKind::incomplete, -1, op.id,
             fmt::format("{} adds to {} when {} of the {} chunks behind its own have: chunks add from the last one on",
                         op_title(op), value_label(value), contributions_.count(set), turn % chunks));
    }
    return contributions_.add(all, turn, op.id).set;
  }

  int sum_read(int layer) const {
    for (const auto& [value, set] : found_sums_)
      if (value.tensor == TensorKind::gradient_sum && value.layer == layer) return set;
    return Contributions::kEmpty;
  }

  int add(const Op& op, int set, int micro_batch) {
    if (found_.size() >= kKept) return set;
    const Contributions::Added added = contributions_.add(set, schedule_.turn(micro_batch), op.id);
    if (added.fault == Contributions::Fault::none) return added.set;
    const std::string other = op_title(schedule_.ops[static_cast<std::size_t>(added.other_op)]);
    const Key key{static_cast<std::size_t>(op.id), kWhole};
    if (added.fault == Contributions::Fault::twice)
      report(key, FaultKind::incomplete, added.other_op, op.id,
             fmt::format("{} adds micro-batch {} to the gradient of layer {} a second time: {} has added it already",
                         op_title(op), micro_batch, op.layer, other));
    else
      report(key, FaultKind::incomplete, added.other_op, op.id,
             fmt::format("{} adds micro-batch {} to the gradient of layer {} after {}: the order of the sum is part of "
                         "the numerics, "
                         "{} add in ascending order{}",
                         op_title(op), micro_batch, op.layer, other,
                         schedule_.micro_batch.is_cut() ? "sequences" : "micro-batches",
                         schedule_.micro_batch.is_cut() ? ", the chunks of one from its last to its first" : ""));
    return added.set;
  }

  void require_complete(const Op& op) {
    if (found_.size() >= kKept) return;
    for (const auto& [value, set] : found_sums_) {
      if (value.tensor != TensorKind::gradient_sum) continue;
      Contributions::Gap gap = contributions_.first_gap(set, schedule_.micro_batches);
      if (gap.micro_batch < 0) continue;
      gap.micro_batch = schedule_.turn(gap.micro_batch);
      std::string text =
          fmt::format("{} finishes the gradient of layer {} with {} of {} contributions: micro-batch {} is missing",
                      op_title(op), value.layer, contributions_.count(set), schedule_.micro_batches, gap.micro_batch);
      int culprit = gap.after_op;
      if (culprit >= 0) {
        text += fmt::format("; {} added the next one without it",
                            op_title(schedule_.ops[static_cast<std::size_t>(culprit)]));
      } else if (const Op* late = contribution_after(op, value.layer, gap.micro_batch)) {
        culprit = late->id;
        text += fmt::format("; {} adds it only after this op", op_title(*late));
      }
      report({static_cast<std::size_t>(op.id), kWhole + static_cast<std::size_t>(value.layer)}, FaultKind::incomplete,
             culprit, op.id, std::move(text));
    }
  }

  /// The op behind `op` that computes or accumulates the contribution, if there is one.
  const Op* contribution_after(const Op& op, int layer, int micro_batch) {
    if (contributions_to_.empty())
      for (const Op& other : schedule_.ops)
        for (const Access& write : other.writes)
          if (write.value.tensor == TensorKind::gradient_sum)
            contributions_to_[{other.layer, other.micro_batch}].push_back(other.id);
    const auto found = contributions_to_.find({layer, micro_batch});
    if (found == contributions_to_.end()) return nullptr;
    const auto next = std::upper_bound(found->second.begin(), found->second.end(), op.id);
    return next == found->second.end() ? nullptr : &schedule_.ops[static_cast<std::size_t>(*next)];
  }

  /// The last op that updates the layer; -1: none does.
  int last_update(int layer) {
    if (last_updates_.empty()) {
      last_updates_.assign(static_cast<std::size_t>(schedule_.model.decoder_layers) + 3, -1);
      for (const Op& op : schedule_.ops)
        if (std::holds_alternative<OptimizerWork>(op.work))
          last_updates_[static_cast<std::size_t>(op.layer + 1)] = op.id;
    }
    return last_updates_[static_cast<std::size_t>(layer + 1)];
  }

  // --- overlap within one op

  /// Reads and writes of one op overlap only in place: the same value (or its next version) from the same first byte
  /// on.
  void check_overlap(const Op& op) {
    for (std::size_t i = 0; i < op.reads.size(); ++i) {
      const SegmentRange range = segments_.read(op.id, i);
      for (std::uint32_t segment = range.first; segment < range.last; ++segment) read_stamp_[segment] = {op.id, i};
    }
    for (std::size_t i = 0; i < op.writes.size(); ++i) {
      const Access& write = op.writes[i];
      const SegmentRange range = segments_.write(op.id, i);
      for (std::uint32_t segment = range.first; segment < range.last; ++segment) {
        const bool written = std::exchange(write_stamp_[segment], op.id) == op.id;
        const Access* read = read_stamp_[segment].first == op.id ? &op.reads[read_stamp_[segment].second] : nullptr;
        if (!written && (!read || in_place(op, *read, write))) continue;
        if (!wanted({static_cast<std::size_t>(op.id), kWhole - 1})) return;
        report({static_cast<std::size_t>(op.id), kWhole - 1}, FaultKind::malformed, op.id, op.id,
               fmt::format("{} writes {} over bytes that it {}s ({})", op_title(op), value_label(write.value),
                           written ? "also write" : "read", range_title(schedule_, write)));
        return;
      }
    }
  }

  bool in_place(const Op& op, const Access& read, const Access& write) const {
    if (tier_address(schedule_, read) != tier_address(schedule_, write) || std::holds_alternative<CopyWork>(op.work))
      return false;
    if (read.value.tensor == write.value.tensor) return true;
    return read.value.tensor == TensorKind::gradient_sum && write.value.tensor == TensorKind::gradient &&
           schedule_.numerics.gradient_sum == schedule_.numerics.gradient_link;
  }

  // --- the end of the step

  void compare_initial() {
    const std::size_t end = schedule_.ops.size();
    for (std::size_t i = 0; i < schedule_.initial.size(); ++i) {
      const Access& access = schedule_.initial[i];
      if (access.value.tensor == TensorKind::workspace) continue;
      const SegmentRange range = segments_.initial(i);
      for (std::uint32_t segment = range.first; segment < range.last; ++segment) {
        const Held& held = held_[segment];
        Value next = held.value;
        next.version -= steps_of(next, step_ + 1);
        if (next == access.value && held.origin == tier_address(schedule_, access)) continue;
        left_behind(Key{end, i}, access, held);
        break;
      }
    }
  }

  void left_behind(Key key, const Access& access, const Held& held) {
    if (found_.size() >= kKept) return;
    Value expected = access.value;
    expected.version += steps_of(expected, 1);
    std::string text =
        fmt::format("at the end of the step {} holds {}, {}, where the next step expects {}",
                    range_title(schedule_, access), found_label(held), writer_text(held), value_label(expected));
    const int update = last_update(access.value.layer);
    if (update >= 0 && is_state(access.value.tensor))
      text += fmt::format(": {} updates the layer, and no later op brings the new value here",
                          op_title(schedule_.ops[static_cast<std::size_t>(update)]));
    report(key, FaultKind::wrong_value, held.writer, update, std::move(text));
  }

  const Schedule& schedule_;
  const Segments& segments_;
  FaultList& faults_;
  std::vector<Held> held_;
  Contributions contributions_;
  int step_ = 0;
  std::vector<std::pair<Value, int>> found_sums_;  // of the op being run: values read and the contributions found there
  std::vector<std::pair<int, std::size_t>> read_stamp_;  // last op that reads the segment, and by which access
  std::vector<int> write_stamp_;
  std::map<Key, Fault> found_;
  // Made when something is wrong: by layer + 1, and by layer and micro-batch, ascending.
  std::vector<int> last_updates_;
  std::map<std::pair<int, int>, std::vector<int>> contributions_to_;
};

}  // namespace

void check_values(const Schedule& schedule, const Segments& segments, FaultList& faults) {
  ValueCheck(schedule, segments, faults).run();
}

}  // namespace penstock
