#include "shared/ir/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "shared/error.h"
#include "shared/ir/limits.h"
#include "shared/ir/segments.h"

namespace penstock {
namespace {

constexpr int kStepPhases = 4;  // of the enum Phase: forward, loss, backward, optimizer
constexpr std::array<std::string_view, kMemoryPhases> kPhaseNames{"load",      "forward",    "loss", "backward",
                                                                  "optimizer", "first step", "save", "resume"};
constexpr std::array<std::string_view, 9> kContents{"weights",   "moments",         "master",
                                                    "gradients", "activations",     "step inputs",
                                                    "workspace", "keys and values", "unused"};
enum Content : std::uint8_t { weights, moments, master, gradients, activations, inputs, scratch, keys_values, unused };

Content content_of(TensorKind tensor) {
  switch (tensor) {
    case TensorKind::weights: return weights;
    case TensorKind::low_bits:
    case TensorKind::master: return master;
    case TensorKind::moment_m:
    case TensorKind::moment_v: return moments;
    case TensorKind::gradient_sum:
    case TensorKind::gradient_part:
    case TensorKind::gradient: return gradients;
    case TensorKind::boundary:
    case TensorKind::boundary_gradient:
    case TensorKind::kept:
    case TensorKind::recomputed: return activations;
    case TensorKind::norm_partial:
    case TensorKind::step_scalars:
    case TensorKind::tokens:
    case TensorKind::labels:
    case TensorKind::document_starts:
    case TensorKind::trained_tokens:
    case TensorKind::loss: return inputs;
    case TensorKind::kv:
    case TensorKind::kv_gradient: return keys_values;
    case TensorKind::workspace: return scratch;
  }
  return unused;
}

/// Which phases have an op among a range of ids; steps follow one another without a gap.
class PhaseRanges {
 public:
  explicit PhaseRanges(const std::vector<Op>& ops) : before_(ops.size() + 1) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      before_[i + 1] = before_[i];
      ++before_[i + 1][static_cast<std::size_t>(ops[i].phase)];
    }
  }
  /// Bit p is set if phase p has an op in [first, last].
  unsigned mask(int first, int last) const {
    unsigned mask = 0;
    for (unsigned phase = 0; phase < kStepPhases; ++phase)
      if (before_[static_cast<std::size_t>(last) + 1][phase] > before_[static_cast<std::size_t>(first)][phase])
        mask |= 1u << phase;
    return mask;
  }

 private:
  std::vector<std::array<int, kStepPhases>> before_;
};

struct SegmentUse {
  unsigned phases = 0;
  int first_op = -1, last_op = -1;
  bool first_reads = false;
  bool is_initial = false;
  Content content = unused;
};

/// Walks all accesses in id order and collects in which phases each segment is live.
std::vector<SegmentUse> segment_uses(const Schedule& schedule, const Segments& segments) {
  const PhaseRanges phases(schedule.ops);
  std::vector<SegmentUse> uses(segments.count());
  const auto touch = [&](const Op& op, const Access& access, SegmentRange range, bool reads) {
    for (std::uint32_t i = range.first; i < range.last; ++i) {
      SegmentUse& use = uses[i];
      if (use.content == unused || use.content == scratch) use.content = content_of(access.value.tensor);
      use.phases |= 1u << static_cast<unsigned>(op.phase);
      if (use.first_op < 0) {
        use.first_op = op.id;
        use.first_reads = reads;
      } else if (reads) {
        use.phases |= phases.mask(use.last_op, op.id);  // held since it was last touched
      }
      use.last_op = op.id;
    }
  };
  for (std::size_t i = 0; i < schedule.initial.size(); ++i)
    for (std::uint32_t at = segments.initial(i).first; at < segments.initial(i).last; ++at) {
      uses[at].is_initial = true;
      uses[at].content = content_of(schedule.initial[i].value.tensor);
    }
  for (const Op& op : schedule.ops) {
    for (std::size_t i = 0; i < op.reads.size(); ++i) touch(op, op.reads[i], segments.read(op.id, i), true);
    for (std::size_t i = 0; i < op.writes.size(); ++i) touch(op, op.writes[i], segments.write(op.id, i), false);
  }
  const int last = static_cast<int>(schedule.ops.size()) - 1;
  for (SegmentUse& use : uses)
    if (use.first_reads) use.phases |= phases.mask(use.last_op, last) | phases.mask(0, use.first_op);
  return uses;
}

std::int64_t& phase(TierMemory& memory, MemoryPhase phase) {
  return memory.phase_bytes[static_cast<std::size_t>(phase)];
}

constexpr MemoryPhase kOfStep[kStepPhases] = {MemoryPhase::forward, MemoryPhase::loss, MemoryPhase::backward,
                                              MemoryPhase::optimizer};

/// The states of the largest layer as they lie in a checkpoint: what passes through when saving and resuming.
std::int64_t staging_bytes(const Schedule& schedule) {
  const Model model = make_model(schedule.model);
  std::int64_t elements = 0;
  for (const Layer& layer : model.layers) elements = std::max(elements, layer.state_elements);
  const std::int64_t master_bytes = schedule.numerics.states == StateFormat::planes            ? 2
                                    : schedule.numerics.states == StateFormat::master_and_copy ? 4
                                                                                               : 0;
  return elements * (2 + master_bytes + 2 * element_bytes(schedule.numerics.moments));
}

void finish(TierMemory& memory, std::int64_t staging) {
  std::int64_t steady = 0;
  for (const MemoryPhase step_phase : kOfStep) steady = std::max(steady, phase(memory, step_phase));
  phase(memory, MemoryPhase::first_step) = steady;
  const std::int64_t state = phase(memory, MemoryPhase::load);
  for (const MemoryPhase with_files : {MemoryPhase::save, MemoryPhase::resume})
    phase(memory, with_files) = state + (memory.tier.kind == TierKind::dram ? staging : 0);
  const auto peak = std::max_element(memory.phase_bytes.begin(), memory.phase_bytes.end());
  memory.peak_bytes = *peak;
  memory.peak_phase = static_cast<MemoryPhase>(peak - memory.phase_bytes.begin());
}

}  // namespace

const char* memory_phase_name(MemoryPhase phase) { return kPhaseNames[static_cast<std::size_t>(phase)].data(); }

std::vector<TierMemory> schedule_memory(const Schedule& schedule) {
  std::vector<TierMemory> tiers(schedule.tiers.size());
  std::vector<std::array<std::int64_t, kContents.size()>> contents(tiers.size());
  for (std::size_t i = 0; i < tiers.size(); ++i) tiers[i].tier = schedule.tiers[i];
  for (const Buffer& buffer : schedule.buffers) {
    std::int64_t& end = tiers[static_cast<std::size_t>(buffer.tier)].arena_bytes;
    end = std::max(end, buffer.offset_bytes + buffer.bytes);
  }

  const Segments segments(schedule);
  if (segments.visits() > kMaxSegmentVisits)
    throw InputError(
        fmt::format("the schedule's accesses overlap too finely to be counted: {} pieces of memory touched {} times",
                    segments.count(), segments.visits()));
  const std::vector<SegmentUse> uses = segment_uses(schedule, segments);
  for (std::uint32_t i = 0; i < segments.count(); ++i) {
    const auto tier = static_cast<std::size_t>(segments.tier(i));
    contents[tier][uses[i].content] += segments.bytes(i);
    for (unsigned p = 0; p < kStepPhases; ++p)
      if (uses[i].is_initial || (uses[i].phases >> p & 1u)) phase(tiers[tier], kOfStep[p]) += segments.bytes(i);
    if (uses[i].is_initial) phase(tiers[tier], MemoryPhase::load) += segments.bytes(i);
  }

  const std::int64_t staging = staging_bytes(schedule);
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    finish(tiers[i], staging);
    std::int64_t used = 0;
    for (std::size_t c = 0; c < unused; ++c) used += contents[i][c];
    contents[i][unused] = tiers[i].arena_bytes - used;
    for (std::size_t c = 0; c < kContents.size(); ++c)
      if (contents[i][c] > 0) tiers[i].contents.emplace_back(kContents[c], contents[i][c]);
    std::stable_sort(tiers[i].contents.begin(), tiers[i].contents.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  return tiers;
}

}  // namespace penstock
