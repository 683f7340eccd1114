// Writes the step of a streamed schedule visit by visit; the streams decide what crosses the link around each visit.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <numeric>

#include "shared/error.h"
#include "shared/policy/activation_store.h"
#include "shared/policy/evaluation.h"
#include "shared/policy/gradient_stream.h"
#include "shared/policy/kv_store.h"
#include "shared/policy/optimizer_phase.h"
#include "shared/policy/plan.h"
#include "shared/policy/step_inputs.h"
#include "shared/policy/weight_stream.h"
#include "shared/policy/writer.h"

namespace penstock {
namespace {

Schedule header(const Plan& plan) {
  Schedule schedule;
  schedule.policy = plan.parameters.name;
  schedule.model = plan.model.config;
  schedule.micro_batch = plan.batch;
  schedule.micro_batches = plan.micro_batches;
  schedule.library_bytes = plan.input.library_bytes;
  schedule.numerics = plan.parameters.numerics;
  schedule.tiers = {{TierKind::hbm, 0, plan.input.hbm_bytes}, {TierKind::dram, 0, plan.input.dram_bytes}};
  if (plan.uses_nvme()) schedule.tiers.push_back({TierKind::nvme, 0, plan.input.nvme_bytes});
  return schedule;
}

class StepWriter {
 public:
  StepWriter(const Plan& plan, ScheduleBuilder::Makes makes)
      : plan_(plan),
        writer_(plan, header(plan), makes),
        activations_(writer_),
        keys_(writer_),
        gradients_(writer_),
        optimizer_(writer_, gradients_, activations_.workspace_place()),
        weights_(writer_, optimizer_.upload_places()),
        inputs_(writer_) {
    const std::int64_t losses = loss_bytes() * plan.micro_batches;
    const Value all{TensorKind::loss, plan.head};
    loss_host_ = Writer::access(writer_.buffer(TierKind::dram, losses, "loss (host)"), losses, all);
    loss_ = Writer::access(writer_.buffer(TierKind::hbm, losses, "loss"), losses, all);
  }

  Schedule write() {
    start();
    for (int index = 0; index < plan_.visit_count(); ++index) write_visit(index);
    optimizer_.finish(inputs_);
    report();
    return writer_.builder().finish();
  }

  /// REQUIRES: a plan whose visits are forward and loss alone.
  Schedule write_evaluation() {
    evaluates_ = true;
    inputs_.read();
    activations_.start();
    keys_.start();
    weights_.start();
    inputs_.upload();
    weights_.start_ahead();
    for (int index = 0; index < plan_.visit_count(); ++index) write_visit(index);
    add_report({loss_host_});
    return writer_.builder().finish();
  }

  /// Every buffer is placed by the constructors.
  ArenaBytes arenas() {
    const ScheduleBuilder& builder = writer_.builder();
    return {builder.arena_bytes(TierKind::hbm), builder.arena_bytes(TierKind::dram),
            builder.arena_bytes(TierKind::nvme)};
  }

 private:
  void start() {
    inputs_.read();
    optimizer_.start(inputs_);
    activations_.start();
    keys_.start();
    gradients_.start();
    weights_.start();
    inputs_.upload();
    weights_.start_ahead();
  }

  void report() { add_report({loss_host_, optimizer_.host_scalars()}); }

  void add_report(std::vector<Access> reads) {
    Op op;
    op.name = "report";
    op.lane = writer_.input();
    op.phase = Phase::optimizer;
    op.work = ReportWork{};
    op.reads = std::move(reads);
    if (const auto trained = inputs_.trained_tokens(false)) op.reads.push_back(*trained);
    writer_.add(std::move(op));
  }

  void write_visit(int index) {
    const Visit visit = plan_.visit(index);
    const Group& group = plan_.groups[static_cast<std::size_t>(visit.group)];
    const bool contributes = plan_.contributes(visit) && !evaluates_;
    if (visit.kind == VisitKind::forward && visit.layer == 0) activations_.start_group(visit.group);
    weights_.enter(index);
    if (contributes) gradients_.enter(visit.layer, visit.group);
    for (int i = 0; i < group.count; ++i) {
      const int position = plan_.position(visit, i);
      keys_.enter(index, i);
      write_micro_batch(index, position, group.first + position);
      if (contributes) gradients_.after_contribution(visit.layer, group.first + position);
      if (i > 0) continue;
      if (contributes) gradients_.after_first_op();
      weights_.after_first_op(index);
    }
    const bool is_last_group = visit.group + 1 == static_cast<int>(plan_.groups.size());
    if (visit.kind == VisitKind::loss && is_last_group) writer_.copy("loss", false, Phase::loss, loss_, loss_host_);
    if (!contributes) return;
    gradients_.leave(visit.layer, visit.group);
    if (is_last_group) optimizer_.gradient_landed(visit.layer);
  }

  void write_micro_batch(int index, int position, int micro_batch) {
    const Visit visit = plan_.visit(index);
    const auto run = [&](const char* name, int layer, Pass pass) {
      template_op(name, index, layer, position, micro_batch, pass);
    };
    switch (visit.kind) {
      case VisitKind::forward:
        run("forward", visit.layer, Pass::forward);
        if (evaluates_) break;
        activations_.evict(visit.layer, position);
        keys_.evict(visit.layer, micro_batch);
        break;
      case VisitKind::loss: run("loss", plan_.head, evaluates_ ? Pass::evaluate : plan_.loss_pass()); break;
      case VisitKind::recompute:
        activations_.fetch(index, position);
        run("recompute", visit.layer, Pass::recompute);
        break;
      case VisitKind::redo_backward:
        activations_.fetch(index, position);
        run("recompute", visit.layer, Pass::recompute);
        run("backward", visit.layer, plan_.backward_pass(visit.layer));
        break;
      case VisitKind::backward:
        activations_.fetch(index, position);
        run("backward", visit.layer, plan_.backward_pass(visit.layer));
        break;
      case VisitKind::embedding_backward: run("backward", 0, Pass::backward); break;
    }
  }

  std::int64_t loss_bytes() const { return std::int64_t{8} * loss_numbers(plan_.model.config); }

  /// The pass of a template, with the operands that it has.
  void template_op(const char* name, int index, int layer, int position, int micro_batch, Pass pass) {
    const Slot slot{index, layer, position, micro_batch, pass};
    Op op;
    op.name = op_name(name, layer, micro_batch);
    op.lane = writer_.compute();
    op.layer = layer;
    op.micro_batch = micro_batch;
    op.phase = pass == Pass::forward ? Phase::forward : is_loss(pass) ? Phase::loss : Phase::backward;
    op.work = TemplateWork{plan_.kind(layer), pass, plan_.keep(layer)};
    for (const OperandUse& use : operand_uses(plan_.kind(layer), pass))
      if (use.is_of(plan_.batch, plan_.model.config)) add_operand(op, use, slot);
    writer_.add(std::move(op));
  }

  /// Where and what of the step a template op is.
  struct Slot {
    int visit, layer, position, micro_batch;
    Pass pass;
  };

  void add_operand(Op& op, const OperandUse& use, const Slot& slot) {
    std::vector<Access>& accesses = use.use == Use::reads ? op.reads : op.writes;  // of a single value
    const auto& [visit_index, layer, position, micro_batch, pass] = slot;
    const Visit visit = plan_.visit(visit_index);
    const bool backward = pass == Pass::recompute || is_backward(pass);
    switch (use.operand) {
      case TemplateOperand::weights:
        for (const Access& weights : weights_.reads(visit_index)) accesses.push_back(weights);
        break;
      case TemplateOperand::tied_weights: break;  // among what the weights' stream needs for the visit
      case TemplateOperand::tokens:
      case TemplateOperand::labels:
      case TemplateOperand::document_starts:
      case TemplateOperand::trained_tokens: accesses.push_back(inputs_.on_device(facts(use.operand).tensor)); break;
      case TemplateOperand::input:
        accesses.push_back(backward ? activations_.backward_input(layer, position)
                                    : activations_.forward_input(layer, position));
        break;
      case TemplateOperand::output:
        if (pass == Pass::forward) accesses.push_back(activations_.forward_output(layer, position));
        if (pass == Pass::recompute && visit.writes_output)
          accesses.push_back(activations_.recompute_output(visit, position));
        break;
      case TemplateOperand::kept:
        if (activations_.has_kept(layer))
          accesses.push_back(backward ? activations_.kept(layer, position)
                                      : activations_.forward_kept(layer, position));
        break;
      case TemplateOperand::recomputed:
        if (pass == Pass::recompute || plan_.recomputes(layer))
          accesses.push_back(activations_.recomputed(visit, position));
        break;
      case TemplateOperand::output_gradient:
        accesses.push_back(activations_.boundary_gradient(layer + 1, position));
        break;
      case TemplateOperand::input_gradient: accesses.push_back(activations_.boundary_gradient(layer, position)); break;
      case TemplateOperand::gradient: gradients_.contribute(op, layer, micro_batch); break;
      case TemplateOperand::kv:
        if (use.use == Use::writes)
          accesses.push_back(keys_.made(layer, micro_batch));
        else if (attends(pass, plan_.keep(layer)))
          keys_.add_reads(op, layer, micro_batch, use.use == Use::reads_through);
        break;
      case TemplateOperand::kv_gradient: keys_.add_gradients(op, layer, micro_batch); break;
      case TemplateOperand::loss:
        accesses.push_back(
            {loss_.buffer, loss_bytes() * micro_batch, loss_bytes(), {TensorKind::loss, layer, 0, micro_batch}});
        break;
      case TemplateOperand::workspace:
        if (const std::int64_t bytes = plan_.workspace_bytes(layer, pass); bytes > 0)
          accesses.push_back(activations_.workspace(bytes));
        break;
    }
  }

  const Plan& plan_;
  Writer writer_;
  ActivationStore activations_;
  KvStore keys_;
  GradientStream gradients_;
  OptimizerPhase optimizer_;
  WeightStream weights_;
  StepInputs inputs_;
  Access loss_host_, loss_;
  bool evaluates_ = false;
};

}  // namespace

Schedule make_schedule(const PolicyInput& input) {
  check_policy_input(input);
  const Plan plan(input);
  return StepWriter(plan, ScheduleBuilder::Makes::schedule).write();
}

Schedule make_evaluation(const PolicyInput& input) {
  check_policy_input(input);
  Plan plan(input);
  plan.visits.resize(static_cast<std::size_t>(plan.head) + 1);  // forward of each layer, and the loss
  Schedule schedule = StepWriter(plan, ScheduleBuilder::Makes::schedule).write_evaluation();
  schedule.model.frozen_layers.resize(static_cast<std::size_t>(plan.head) + 1);
  std::iota(schedule.model.frozen_layers.begin(), schedule.model.frozen_layers.end(), 0);
  return schedule;
}

void require_same_places(const Schedule& training, const Schedule& evaluation, const std::string& place) {
  const auto same = [](const Access& a, const Access& b) {
    return a.buffer == b.buffer && a.offset_bytes == b.offset_bytes && a.bytes == b.bytes && a.value == b.value;
  };
  const bool same_states = std::equal(training.initial.begin(), training.initial.end(), evaluation.initial.begin(),
                                      evaluation.initial.end(), same);
  if (same_states && training.buffers == evaluation.buffers && training.tiers.size() == evaluation.tiers.size()) return;
  throw InputError(
      fmt::format("{}: [eval] evaluates over the memory of the policy's own schedule, and this one has "
                  "its states elsewhere: leave [eval] out, or --schedule",
                  place));
}

ArenaBytes arena_bytes(const PolicyInput& input) {
  check_policy_input(input);
  const Plan plan(input);
  return StepWriter(plan, ScheduleBuilder::Makes::places).arenas();
}

}  // namespace penstock
