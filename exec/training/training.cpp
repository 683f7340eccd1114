#include "exec/training/training.h"

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>

#include "exec/runtime/bind.h"
#include "exec/training/decay.h"
#include "exec/training/learning_rate.h"

namespace penstock::exec {
namespace {

AdamHyper hyper_of_step(const TrainingOptions& options, std::int64_t number) {
  AdamHyper hyper = options.hyper;
  hyper.learning_rate =
      learning_rate_of_step(number, hyper.learning_rate, options.learning_rate_warmup_steps, options.rate);
  return hyper;
}

/// Tells memories without an address from and to where they will be copied.
void announce_copies(const BoundSchedule& bound) {
  std::map<Memory*, std::map<std::byte*, std::int64_t>> partners;  // by where they begin: the longest copy's bytes
  for (const BoundOp& op : bound.ops) {
    const auto* copy = std::get_if<BoundCopy>(&op.work);
    if (copy == nullptr || (copy->from.address() != nullptr) == (copy->to.address() != nullptr)) continue;
    const bool reads = copy->from.address() == nullptr;
    const MemoryRange& partner = reads ? copy->to : copy->from;
    std::int64_t& bytes = partners[reads ? copy->from.memory : copy->to.memory][partner.address()];
    bytes = std::max(bytes, partner.bytes);
  }
  for (const auto& [memory, begins] : partners) {
    std::vector<std::span<std::byte>> ranges;  // joined where they touch
    for (const auto& [begin, bytes] : begins) {
      std::byte* const end = begin + bytes;
      if (!ranges.empty() && begin <= ranges.back().data() + ranges.back().size())
        ranges.back() = {ranges.back().data(), std::max(end, ranges.back().data() + ranges.back().size())};
      else
        ranges.emplace_back(begin, end);
    }
    memory->expect(ranges);
  }
}

}  // namespace

Training::Training(const Schedule& schedule, const Model& model, Backend& backend, std::unique_ptr<Memory> drive,
                   Decay decay)
    : schedule_(schedule), model_(model), backend_(backend), arena_bytes_(penstock::exec::arena_bytes(schedule)) {
  for (std::size_t tier = 0; tier < schedule.tiers.size(); ++tier) {
    const TierKind kind = schedule.tiers[tier].kind;
    // Nothing may be on it, as where the layers that would be are frozen: then no drive is needed.
    const bool on_drive = kind == TierKind::nvme && arena_bytes_[tier] > 0;
    if (on_drive && drive == nullptr) throw std::logic_error("a schedule with NVMe needs a drive");
    const TierKind in_memory = kind == TierKind::nvme ? TierKind::dram : kind;
    memories_.push_back(on_drive ? std::move(drive) : backend.allocate(in_memory, arena_bytes_[tier]));
  }
  bound_ = bind_schedule(schedule, model, memories_);
  for (BoundOp& op : bound_.ops)
    if (auto* update = std::get_if<BoundOptimizer>(&op.work))
      update->undecayed = undecayed_ranges(model.layers[static_cast<std::size_t>(op.op->layer)], decay);
  announce_copies(bound_);
}

void Training::load(const StateSource& source, std::int64_t steps_done) {
  load_states(schedule_, model_, memories_, source);
  steps_done_ = steps_done;
}

void Training::gate_updates(const StateUpdates& updates) {
  const int ops = static_cast<int>(bound_.ops.size());
  bound_.gates = model_.layer_count();
  for (BoundOp& op : bound_.ops)
    for (const int layer : updates.layers[static_cast<std::size_t>(op.op->id)])
      op.predecessors.push_back({ops + layer, 0, false});
}

ExecutorResult Training::run(const TrainingOptions& options) {
  if (options.tokens == nullptr) throw std::logic_error("a run needs tokens");
  if (options.tokens->rows() != schedule_.micro_batch.kind)
    throw std::logic_error("a run needs data in rows as its schedule has them");
  const std::int64_t before = steps_done_;
  bound_.source.number = [before](int step) { return before + step + 1; };
  bound_.source.hyper = [&options, before](int step) { return hyper_of_step(options, before + step + 1); };
  bound_.source.fill_rows = [&options, before](int step, const StepRows& rows) {
    options.tokens->fill(before + step + 1, rows);
  };
  bound_.source.report = options.report;
  ExecutorResult result = execute(bound_, backend_, options.executor);
  steps_done_ += result.steps;
  return result;
}

}  // namespace penstock::exec
