#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "shared/drive_alignment.h"
#include "shared/ir/check_parts.h"
#include "shared/ir/operands.h"
#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

std::string_view word(std::span<const std::string_view> names, auto value) {
  return names[static_cast<std::size_t>(value)];
}

class OperandCheck {
 public:
  OperandCheck(const Schedule& schedule, const Model& model, FaultList& faults)
      : schedule_(schedule),
        model_(model),
        faults_(faults),
        table_(schedule, model),
        keeps_(model.layers.size(), nullptr) {}

  void run() {
    for (const Op& op : schedule_.ops) {
      if (faults_.full()) return;
      op_ = &op;
      std::visit([&](const auto& work) { check(work); }, op.work);
    }
  }

 private:
  template <typename... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.add(FaultKind::malformed, op_->id, -1,
                op_title(*op_) + " " + fmt::format(format, std::forward<Args>(args)...));
  }

  const Lane& lane() const { return schedule_.lanes[static_cast<std::size_t>(op_->lane)]; }
  const Tier& tier(const Access& access) const {
    return schedule_.tiers[static_cast<std::size_t>(schedule_.buffers[static_cast<std::size_t>(access.buffer)].tier)];
  }

  // --- lanes and tiers

  /// The lane's kind is one of `kinds`, and every access is in the memory that such a lane reaches.
  bool on(std::initializer_list<LaneKind> kinds) {
    if (std::find(kinds.begin(), kinds.end(), lane().kind) == kinds.end()) {
      std::string allowed;
      for (const LaneKind kind : kinds)
        allowed += fmt::format("{}{}", allowed.empty() ? "" : " or ", word(lane_kind_names(), kind));
      fault("is {} work on lane '{}' ({}): it belongs on {}", work_names()[op_->work.index()], lane().name,
            word(lane_kind_names(), lane().kind), allowed);
      return false;
    }
    bool reached = true;
    for (const std::vector<Access>* list : {&op_->reads, &op_->writes})
      for (const Access& access : *list) reached = within_reach(access) && reached;
    return reached;
  }

  bool within_reach(const Access& access) {
    const Tier& at = tier(access);
    const bool gpu = lane().kind == LaneKind::gpu_compute;
    if (gpu ? at.kind == TierKind::hbm && at.device == lane().device : at.kind == TierKind::dram) return true;
    fault("runs on lane '{}' ({}, device {}), which cannot reach {} in {}, device {}", lane().name,
          word(lane_kind_names(), lane().kind), lane().device, range_title(schedule_, access),
          word(tier_names(), at.kind), at.device);
    return false;
  }

  // --- operands

  bool has_layer(LayerKind* kind = nullptr) {
    if (op_->layer < 0) {
      fault("has no layer");
      return false;
    }
    if (kind) *kind = model_.layers[static_cast<std::size_t>(op_->layer)].kind;
    return true;
  }

  bool has_micro_batch() {
    if (op_->micro_batch < 0) fault("has no micro-batch");
    return op_->micro_batch >= 0;
  }

  void check_elements(std::int64_t found, std::int64_t expected) {
    if (found != expected) fault("works on {} elements, but layer {} has {}", found, op_->layer, expected);
  }

  void check_threads(int threads) {
    if (threads < 1) fault("uses {} threads: expected at least 1", threads);
  }

  void match(const std::vector<Access>& accesses, const std::vector<Operand>& operands, const char* verb) {
    seen_.assign(operands.size(), false);
    for (const Access& access : accesses) {
      const auto found =
          std::find_if(operands.begin(), operands.end(), [&](const Operand& o) { return o.fits(access.value); });
      if (found == operands.end()) {
        fault("{}s {}, for which it has no use", verb, value_label(access.value));
        continue;
      }
      const auto index = static_cast<std::size_t>(found - operands.begin());
      if (seen_[index]) fault("{}s {} twice", verb, value_label(access.value));
      seen_[index] = true;
      if (found->at_least ? access.bytes < found->bytes : access.bytes != found->bytes)
        fault("{}s {} as {} bytes ({}), but it has {}", verb, value_label(access.value), access.bytes,
              range_title(schedule_, access), found->bytes);
    }
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].required && !seen_[i]) fault("does not {} {}", verb, wanted(operands[i]));
  }

  static std::string wanted(const Operand& operand) {
    if (operand.any_micro_batch) return value_label(operand.value) + " of its last micro-batch";
    if (operand.at_least) return fmt::format("a workspace of {} bytes", operand.bytes);
    return value_label(operand.value);
  }

  void match(const Operands& operands) {
    match(op_->reads, operands.reads, "read");
    match(op_->writes, operands.writes, "write");
  }

  void count(std::size_t reads, std::size_t writes) {
    if (op_->reads.size() != reads || op_->writes.size() != writes)
      fault("has {} reads and {} writes: {} work has {} and {}", op_->reads.size(), op_->writes.size(),
            work_names()[op_->work.index()], reads, writes);
  }

  // --- by work

  void check(const CopyWork& work) {
    count(1, 1);
    if (op_->reads.size() != 1 || op_->writes.size() != 1) return;
    const Access &from = op_->reads[0], &to = op_->writes[0];
    copy_lane(tier(from), tier(to), work.threads);
    if (from.bytes != to.bytes) fault("copies {} bytes to a range of {}", from.bytes, to.bytes);
    if (!(from.value == to.value))
      fault("reads {} and writes {}: a copy changes no label", value_label(from.value), value_label(to.value));
    std::int64_t left = from.bytes;
    for (const Burst& burst : work.bursts) {
      if (burst.bytes < 1 || burst.count < 1 || burst.count > left / burst.bytes) {
        left = -1;
        break;
      }
      left -= burst.bytes * burst.count;
    }
    if (left != 0) fault("copies {} bytes, but its bursts do not sum to that", from.bytes);
    value_size(from);
  }

  void value_size(const Access& access) {
    const bool by_keep = access.value.tensor == TensorKind::kept || access.value.tensor == TensorKind::recomputed;
    std::int64_t bytes = -1;
    for (const Keep keep : kKeeps) {
      bytes = value_bytes(schedule_, model_, access.value, keep);
      if (bytes == access.bytes) return;
      if (!by_keep) break;
    }
    if (bytes < 0)
      fault("copies {}, which is not a value", value_label(access.value));
    else
      fault("copies {} as {} bytes, but it has {}", value_label(access.value), access.bytes, bytes);
  }

  void drive_range(const Access& access) {
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
    if (tier_address(schedule_, access) % kDriveAlignment != 0)
      fault("copies {}, which begins at byte {} of its tier: expected a multiple of {}, as drives need it",
            range_title(schedule_, access), tier_address(schedule_, access), kDriveAlignment);
    if (access.offset_bytes + padded_for_drive(access.bytes) > buffer.bytes)
      fault("copies {}, whose last block of {} bytes goes beyond the buffer's {}", range_title(schedule_, access),
            kDriveAlignment, buffer.bytes);
  }

  void copy_lane(const Tier& from, const Tier& to, int threads) {
    const LaneKind kind = lane().kind;
    const auto between = [&](TierKind a, TierKind b) { return from.kind == a && to.kind == b; };
    bool right = false;
    if (between(TierKind::dram, TierKind::hbm))
      right = (kind == LaneKind::copy_h2d || kind == LaneKind::copy_both) && lane().device == to.device;
    else if (between(TierKind::hbm, TierKind::dram))
      right = (kind == LaneKind::copy_d2h || kind == LaneKind::copy_both) && lane().device == from.device;
    else if (between(TierKind::nvme, TierKind::dram))
      right = kind == LaneKind::nvme_read && lane().device == from.device;
    else if (between(TierKind::dram, TierKind::nvme))
      right = kind == LaneKind::nvme_write && lane().device == to.device;
    else if (between(TierKind::hbm, TierKind::hbm))
      right = is_gpu(kind) && from.device == to.device && lane().device == from.device;
    else if (between(TierKind::dram, TierKind::dram))
      right = kind == LaneKind::host;
    if (kind == LaneKind::nvme_read || kind == LaneKind::nvme_write)
      for (const Access* access : {&op_->reads[0], &op_->writes[0]}) drive_range(*access);
    if (!right)
      fault("copies from {} (device {}) to {} (device {}) on lane '{}' ({}, device {}), which does not go there",
            word(tier_names(), from.kind), from.device, word(tier_names(), to.kind), to.device, lane().name,
            word(lane_kind_names(), kind), lane().device);
    check_threads(threads);
    if (threads > 1 && kind != LaneKind::host)
      fault("copies with {} threads on lane '{}' ({}): only host lanes have them", threads, lane().name,
            word(lane_kind_names(), kind));
  }

  void check(const TemplateWork& work) {
    LayerKind kind{};
    if (!on({LaneKind::gpu_compute}) || !has_layer(&kind) || !has_micro_batch()) return;
    if (work.kind != kind) {
      fault("binds the template {}, but layer {} is of kind {}", word(layer_kind_names(), work.kind), op_->layer,
            word(layer_kind_names(), kind));
      return;
    }
    if (operand_uses(kind, work.pass).empty()) {
      fault("runs pass {}, which the template {} does not have", word(pass_names(), work.pass),
            word(layer_kind_names(), kind));
      return;
    }
    if (const bool trains = model_.layers[static_cast<std::size_t>(op_->layer)].trains;
        !trains && contributes(work.pass)) {
      fault("runs pass {} of layer {}, which is frozen and has no gradient", word(pass_names(), work.pass), op_->layer);
      return;
    }
    same_keep(work);
    match(table_.of(*op_, work));
    one_behind_the_other(TensorKind::kv);
    one_behind_the_other(TensorKind::kv_gradient);
  }

  /// A template finds the values of a sequence's chunks by where the first one begins.
  void one_behind_the_other(TensorKind tensor) {
    const Access* first = nullptr;
    for (const std::vector<Access>* list : {&op_->reads, &op_->writes})
      for (const Access& access : *list) {
        if (access.value.tensor != tensor) continue;
        if (first == nullptr) first = &access;
        const std::int64_t full = value_bytes(schedule_, model_, {tensor, op_->layer, 0, 0}, Keep::input);
        const std::int64_t apart = full * (access.value.micro_batch - first->value.micro_batch);
        if (tier_address(schedule_, access) == tier_address(schedule_, *first) + apart) continue;
        fault("finds {} in {}, which is not {} bytes behind {}: chunks of one sequence lie one behind the other",
              value_label(access.value), range_title(schedule_, access), apart, value_label(first->value));
        return;
      }
  }

  /// Forward, recompute and backward of a layer must agree on what lies in the kept region.
  void same_keep(const TemplateWork& work) {
    if (!is_decoder(work.kind)) return;
    const Op*& first = keeps_[static_cast<std::size_t>(op_->layer)];
    if (!first) first = op_;
    const Keep before = std::get<TemplateWork>(first->work).keep;
    if (before != work.keep)
      fault("keeps {}, but {} of the same layer keeps {}", word(keep_names(), work.keep), op_title(*first),
            word(keep_names(), before));
  }

  void check(const OptimizerWork& work) {
    if (!on({LaneKind::host, LaneKind::gpu_compute}) || !has_layer()) return;
    check_elements(work.elements, model_.layers[static_cast<std::size_t>(op_->layer)].state_elements);
    check_threads(work.threads);
    match(table_.of(*op_, work));
    if (op_->reads.size() + op_->writes.size() > 16) return;  // faulty already
    for (const Access& write : op_->writes)
      for (const Access& read : op_->reads)
        if (read.value.tensor == write.value.tensor && tier_address(schedule_, read) != tier_address(schedule_, write))
          fault("reads {} and writes {} elsewhere: an optimizer works in place", value_label(read.value),
                value_label(write.value));
  }

  void check(const AccumulateWork& work) {
    if (!on({LaneKind::host}) || !has_layer() || !has_micro_batch()) return;
    check_elements(work.elements, model_.layers[static_cast<std::size_t>(op_->layer)].gradient_elements);
    check_threads(work.threads);
    match(table_.of(*op_, work));
  }

  void check(const FinishGradientWork& work) {
    if (!on({LaneKind::host, LaneKind::gpu_compute}) || !has_layer()) return;
    check_elements(work.elements, model_.layers[static_cast<std::size_t>(op_->layer)].state_elements);
    check_threads(work.threads);
    match(table_.of(*op_, work));
  }

  void check(const StepScalarsWork& work) {
    if (!on({LaneKind::host, LaneKind::gpu_compute})) return;
    if (scalars_) {
      faults_.add(
          FaultKind::incomplete, scalars_->id, op_->id,
          fmt::format("the norm is taken twice in one step, by {} and by {}", op_title(*scalars_), op_title(*op_)));
      return;
    }
    scalars_ = op_;
    Operands operands = table_.of(*op_, work);
    for (Operand& operand : operands.reads) {
      if (operand.value.tensor != TensorKind::norm_partial) continue;
      const bool read =
          std::any_of(op_->reads.begin(), op_->reads.end(), [&](const Access& a) { return operand.fits(a.value); });
      if (!read)
        faults_.add(FaultKind::incomplete, op_->id, -1,
                    fmt::format("{} leaves layer {} out of the norm: it does not read {}", op_title(*op_),
                                operand.value.layer, value_label(operand.value)));
      operand.required = false;
    }
    match(operands);
  }

  void check(const InputWork& work) {
    if (on({LaneKind::host})) match(table_.of(*op_, work));
  }

  void check(const ReportWork&) {
    if (!on({LaneKind::host})) return;
    if (!op_->writes.empty()) fault("writes: a report only reads");
    for (const Access& read : op_->reads)
      if (read.value.tensor != TensorKind::loss && read.value.tensor != TensorKind::step_scalars &&
          read.value.tensor != TensorKind::trained_tokens)
        fault("reads {}: a report reads loss, step_scalars and trained_tokens", value_label(read.value));
      else
        value_size(read);
    const auto reads = [&](TensorKind tensor) {
      return std::any_of(op_->reads.begin(), op_->reads.end(),
                         [&](const Access& a) { return a.value.tensor == tensor; });
    };
    if (schedule_.micro_batch.kind == BatchKind::packed && reads(TensorKind::loss) &&
        !reads(TensorKind::trained_tokens))
      fault("reads loss and not trained_tokens, by which it is divided");
  }

  void check(const WaitWork&) { count(0, 0); }

  void check(const HostPassWork& work) {
    if (!on({LaneKind::host})) return;
    check_threads(work.threads);
    if (work.traffic_bytes < 0) fault("has a traffic of {} bytes", work.traffic_bytes);
    auto read = op_->reads.begin();
    for (const Access& write : op_->writes) {
      read = std::find(read, op_->reads.end(), write);
      if (read != op_->reads.end()) continue;
      fault("writes {} without reading it (in the same order): a host pass changes nothing", value_label(write.value));
      return;
    }
  }

  const Schedule& schedule_;
  const Model& model_;
  FaultList& faults_;
  OperandTable table_;
  std::vector<const Op*> keeps_;  // first template op of each layer
  std::vector<bool> seen_;
  const Op* scalars_ = nullptr;
  const Op* op_ = nullptr;
};

void check_updates(const Schedule& schedule, const Model& model, FaultList& faults) {
  std::vector<const Op*> update(model.layers.size(), nullptr);
  for (const Op& op : schedule.ops) {
    if (!std::holds_alternative<OptimizerWork>(op.work) || op.layer < 0) continue;
    const Op*& first = update[static_cast<std::size_t>(op.layer)];
    if (first)
      faults.add(FaultKind::incomplete, first->id, op.id,
                 fmt::format("layer {} is updated twice in one step, by {} and by {}", op.layer, op_title(*first),
                             op_title(op)));
    else
      first = &op;
  }
  for (const Layer& layer : model.layers)
    if (const Op* op = update[static_cast<std::size_t>(layer.index)]; op && !layer.trains)
      faults.add(FaultKind::malformed, op->id, -1,
                 fmt::format("{} updates layer {}, which is frozen", op_title(*op), layer.index));
    else if (layer.state_elements > 0 && layer.trains && !op)
      faults.add(FaultKind::incomplete, -1, -1,
                 fmt::format("layer {} has no optimizer op: it is never updated", layer.index));
}

}  // namespace

void check_operands(const Schedule& schedule, const Model& model, FaultList& faults) {
  OperandCheck(schedule, model, faults).run();
  check_updates(schedule, model, faults);
}

}  // namespace penstock
