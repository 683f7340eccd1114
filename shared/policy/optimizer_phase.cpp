#include "shared/policy/optimizer_phase.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "shared/drive_alignment.h"

namespace penstock {
namespace {

constexpr std::int64_t kScalarBytes = 64;  // StepScalars of exec/optimizer/adamw.h

std::int64_t aligned(std::int64_t bytes) { return (bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment; }

}  // namespace

OptimizerPhase::OptimizerPhase(Writer& writer, GradientStream& gradients, const Place& workspace)
    : writer_(writer), plan_(writer.plan()), gradients_(gradients), tensors_(plan_.state_tensors) {
  make_states();
  make_slots(workspace);
  make_nvme_slots();
  scalars_dram_ = writer_.buffer(TierKind::dram, kScalarBytes, "step scalars (host)");
  if (plan_.any_optimizer_on_gpu()) scalars_hbm_ = writer_.buffer(TierKind::hbm, kScalarBytes, "step scalars");
}

void OptimizerPhase::make_states() {
  upload_copies_.resize(static_cast<std::size_t>(plan_.model.layer_count()));
  states_.resize(upload_copies_.size() * tensors_.size());
  const auto make = [&](const char* name, int layer, TierKind tier, TensorKind tensor, std::int64_t bytes) {
    const Place place = writer_.buffer(tier, bytes, "{} {}", name, layer);
    writer_.builder().add_initial(place.buffer, {tensor, layer}, bytes);
    return place;
  };
  writer_.for_each_layer([&](int layer) {
    for (std::size_t i = 0; i < tensors_.size() && (i == 0 || plan_.trains(layer)); ++i)  // weights come first
      home(layer, i) = make(tensors_[i].name, layer, plan_.state_home(layer, tensors_[i].tensor), tensors_[i].tensor,
                            plan_.state_elements(layer) * tensors_[i].element_bytes);
    if (plan_.has_upload_copy(layer))
      upload_copies_[static_cast<std::size_t>(layer)] =
          make("upload copy", layer, TierKind::dram, TensorKind::weights, plan_.weight_bytes(layer));
  });
}

void OptimizerPhase::make_slots(const Place& workspace) {
  slot_of_.resize(static_cast<std::size_t>(plan_.model.layer_count()));
  const std::array<std::int64_t, 2> slot = plan_.update_slots();
  std::array<std::int64_t, 2> slab{};
  for (const auto& [layer, last] : plan_.alike)
    if (plan_.trains(layer) && !plan_.optimizer_on_gpu(layer) && plan_.gradient_home(layer) == TierKind::hbm)
      slab[plan_.is_edge(layer) ? 1 : 0] = std::max(slab[plan_.is_edge(layer) ? 1 : 0], plan_.gradient_bytes(layer));
  const auto make = [&](std::vector<Place>& places, const char* name, TierKind tier,
                        const std::array<std::int64_t, 2>& bytes) {
    places.resize(3);
    for (std::size_t i = 0; i < 2 && bytes[0] > 0; ++i) places[i] = writer_.buffer(tier, bytes[0], "{} {}", name, i);
    if (bytes[1] > 0) places[2] = writer_.buffer(tier, bytes[1], "{} edge", name);
  };
  if (plan_.update_slots_in_workspace())
    for (const std::int64_t offset : {std::int64_t{0}, slot[0], 2 * slot[0]})
      slots_.push_back({workspace.buffer, workspace.offset + offset});
  else
    make(slots_, "state slot", TierKind::hbm, slot);
  make(slabs_, "gradient slab (host)", TierKind::dram, slab);
}

void OptimizerPhase::make_nvme_slots() {
  nvme_slot_of_.resize(static_cast<std::size_t>(plan_.model.layer_count()));
  std::int64_t bytes = 0;
  for (const auto& [layer, last] : plan_.alike)
    if (plan_.trains(layer))
      bytes = std::max(
          bytes, nvme_slot_bytes(layer, tensors_.size()) + (gradient_on_nvme(layer) ? plan_.gradient_bytes(layer) : 0));
  for (int i = 0; i < plan_.parameters.nvme_slots && bytes > 0; ++i)
    nvme_slots_.push_back(writer_.drive_staging(bytes, "states from nvme {}", i));
}

std::int64_t OptimizerPhase::nvme_slot_bytes(int layer, std::size_t index) const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < index; ++i)
    if (is_on_nvme(layer, i)) bytes += padded_for_drive(plan_.state_elements(layer) * tensors_[i].element_bytes);
  return bytes;
}

Place OptimizerPhase::in_nvme_slot(int layer, std::size_t index) const {
  Place place = nvme_slot_of_[static_cast<std::size_t>(layer)];
  place.offset += nvme_slot_bytes(layer, index);
  return place;
}

Place OptimizerPhase::reachable_state(int layer, std::size_t index) const {
  return is_on_nvme(layer, index) ? in_nvme_slot(layer, index) : home(layer, index);
}

std::vector<Place> OptimizerPhase::upload_places() const {
  std::vector<Place> homes;
  homes.reserve(upload_copies_.size());
  for (std::size_t layer = 0; layer < upload_copies_.size(); ++layer)
    homes.push_back(upload_copies_[layer].buffer >= 0 ? upload_copies_[layer] : home(static_cast<int>(layer), 0));
  return homes;
}

Access OptimizerPhase::host_scalars() const {
  return Writer::access(scalars_dram_, kScalarBytes, {TensorKind::step_scalars});
}

void OptimizerPhase::start(const StepInputs& inputs) {
  if (!plan_.parameters.numerics.clip) write_scalars(inputs);
}

void OptimizerPhase::write_scalars(const StepInputs& inputs) {
  const bool on_gpu = plan_.scalars_on_gpu();
  const Access on_device = Writer::access(scalars_hbm_, kScalarBytes, {TensorKind::step_scalars});
  Op op;
  op.name = "step scalars";
  op.lane = on_gpu ? writer_.compute() : writer_.adam();
  op.phase = Phase::optimizer;
  op.work = StepScalarsWork{};
  op.reads = gradients_.norm_partials();
  if (const auto trained = inputs.trained_tokens(on_gpu)) op.reads.push_back(*trained);
  op.writes = {on_gpu ? on_device : host_scalars()};
  writer_.add(std::move(op));
  if (on_gpu)
    writer_.copy("step scalars to host", false, Phase::optimizer, on_device, host_scalars());
  else if (plan_.any_optimizer_on_gpu())
    writer_.copy("step scalars to device", true, Phase::optimizer, host_scalars(), on_device);
}

void OptimizerPhase::gradient_landed(int layer) {
  if (plan_.parameters.optimizer_time != OptimizerTime::backward) return;
  if (needs_slot(layer)) load(layer);
  update(layer);
}

void OptimizerPhase::finish(const StepInputs& inputs) {
  if (plan_.parameters.optimizer_time == OptimizerTime::backward) return;
  const int begin = writer_.next_id();
  const int last_compute = writer_.last_on(writer_.compute());
  if (plan_.parameters.host_waits != HostWaits::none) {
    writer_.wait("wait for backward", last_compute, -1, Phase::backward);
    writer_.wait("wait for gradients", writer_.last_on(writer_.d2h()), -1, Phase::backward);
  }
  if (plan_.parameters.numerics.clip) write_scalars(inputs);
  write_host_passes();
  update_in_order();
  if (plan_.parameters.optimizer_time == OptimizerTime::end) order_serially(begin, last_compute);
}

void OptimizerPhase::write_host_passes() {
  const double per_parameter = plan_.parameters.host_pass_bytes_per_parameter;
  if (per_parameter <= 0) return;
  Op op;
  op.name = "host passes";
  op.lane = writer_.adam();
  op.phase = Phase::optimizer;
  op.work =
      HostPassWork{std::llround(per_parameter * static_cast<double>(plan_.model.parameters)), plan_.optimizer_threads};
  const int id = writer_.add(std::move(op));
  for (int layer = 0; layer < plan_.model.layer_count(); ++layer)
    if (plan_.trains(layer)) writer_.builder().add_edge(gradients_.landed(layer), id, 0);
}

/// Embedding first, then as the next forward needs them; what comes over the link comes one layer ahead.
void OptimizerPhase::update_in_order() {
  std::vector<int> loads;
  for (int layer = 0; layer < plan_.model.layer_count(); ++layer)
    if (needs_slot(layer)) loads.push_back(layer);
  std::size_t loaded = 0;
  for (int layer = 0; layer < plan_.model.layer_count(); ++layer) {
    if (!plan_.trains(layer)) continue;
    while (needs_slot(layer) && loaded < loads.size() && loads[loaded] <= layer) load(loads[loaded++]);
    const bool shares_slot = loaded < loads.size() && plan_.is_edge(layer) && plan_.is_edge(loads[loaded]);
    if (needs_slot(layer) && loaded < loads.size() && !shares_slot) load(loads[loaded++]);
    update(layer);
  }
}

Access OptimizerPhase::state(const Place& place, int layer, const Plan::StateTensor& tensor, int version) const {
  return Writer::access(place, plan_.state_elements(layer) * tensor.element_bytes, {tensor.tensor, layer, version});
}

Place OptimizerPhase::state_in_slot(int layer, std::size_t index) const {
  Place place = slot_of_[static_cast<std::size_t>(layer)];
  for (std::size_t i = 0; i < index; ++i)
    place.offset += aligned(plan_.state_elements(layer) * tensors_[i].element_bytes);
  return place;
}

void OptimizerPhase::load(int layer) {
  const auto row = static_cast<std::size_t>(layer);
  slot_of_[row] = plan_.is_edge(layer) ? slots_[2] : slots_[static_cast<std::size_t>(next_slot_++ % 2)];
  for (std::size_t i = 0; i < tensors_.size() && streams(layer); ++i)
    writer_.copy(op_name(fmt::format("load {}", tensors_[i].name), layer), true, Phase::optimizer,
                 state(home(layer, i), layer, tensors_[i], 0), state(state_in_slot(layer, i), layer, tensors_[i], 0));
  if (!gradient_returns(layer)) return;
  const Access gradient = gradients_.finished(layer);
  writer_.copy(op_name("load gradient", layer), true, Phase::optimizer, gradient,
               Writer::access(gradient_in_slot(layer), gradient.bytes, gradient.value));
}

void OptimizerPhase::read_nvme(int layer) {
  const auto row = static_cast<std::size_t>(layer);
  if (nvme_slot_bytes(layer, tensors_.size()) == 0) return;
  nvme_slot_of_[row] = nvme_slots_[next_nvme_slot_++ % nvme_slots_.size()];
  if (nvme_slots_.size() == 1 && last_nvme_write_ >= 0)
    writer_.builder().add_edge(last_nvme_write_, writer_.next_id(), 0);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (is_on_nvme(layer, i) && plan_.update_reads(tensors_[i].tensor))
      writer_.read_nvme(op_name(fmt::format("read {}", tensors_[i].name), layer), Phase::optimizer,
                        state(home(layer, i), layer, tensors_[i], 0),
                        state(in_nvme_slot(layer, i), layer, tensors_[i], 0));
  if (!gradient_on_nvme(layer)) return;
  const Access gradient = gradients_.finished(layer);
  writer_.read_nvme(op_name("read gradient", layer), Phase::optimizer, gradient,
                    Writer::access(in_nvme_slot(layer, tensors_.size()), gradient.bytes, gradient.value));
}

void OptimizerPhase::write_nvme(int layer) {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (is_on_nvme(layer, i))
      last_nvme_write_ = writer_.write_nvme(op_name(fmt::format("write {}", tensors_[i].name), layer), Phase::optimizer,
                                            state(in_nvme_slot(layer, i), layer, tensors_[i], 1),
                                            state(home(layer, i), layer, tensors_[i], 1));
}

void OptimizerPhase::update(int layer) {
  read_nvme(layer);
  write_update(layer);
  write_nvme(layer);
  const auto row = static_cast<std::size_t>(layer);
  for (std::size_t i = 0; i < tensors_.size() && streams(layer); ++i)
    writer_.copy(op_name(fmt::format("store {}", tensors_[i].name), layer), false, Phase::optimizer,
                 state(state_in_slot(layer, i), layer, tensors_[i], 1), state(home(layer, i), layer, tensors_[i], 1));
  if (plan_.has_upload_copy(layer))
    writer_.copy_on_host(op_name("upload copy", layer), Phase::optimizer, state(home(layer, 0), layer, tensors_[0], 1),
                         state(upload_copies_[row], layer, tensors_[0], 1));
}

void OptimizerPhase::write_update(int layer) {
  const bool on_gpu = plan_.optimizer_on_gpu(layer);
  Access gradient = gradients_.finished(layer);
  if (gradient_on_nvme(layer)) {
    gradient = Writer::access(in_nvme_slot(layer, tensors_.size()), gradient.bytes, gradient.value);
  } else if (gradient_returns(layer)) {
    gradient = Writer::access(gradient_in_slot(layer), gradient.bytes, gradient.value);
  } else if (!on_gpu && plan_.gradient_home(layer) == TierKind::hbm) {
    const Place slab = plan_.is_edge(layer) ? slabs_[2] : slabs_[static_cast<std::size_t>(next_slab_++ % 2)];
    const Access landed = Writer::access(slab, gradient.bytes, gradient.value);
    writer_.copy(op_name("gradient to host", layer), false, Phase::optimizer, gradient, landed);
    gradient = landed;
  }
  Op op;
  op.name = op_name("adamw", layer);
  op.lane = !on_gpu ? writer_.adam() : streams(layer) ? writer_.optimizer_gpu() : writer_.compute();
  op.layer = layer;
  op.phase = Phase::optimizer;
  op.work = OptimizerWork{plan_.state_elements(layer), on_gpu ? 1 : plan_.optimizer_threads};
  op.reads = {gradient,
              Writer::access(on_gpu ? scalars_hbm_ : scalars_dram_, kScalarBytes, {TensorKind::step_scalars})};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Place place = streams(layer) ? state_in_slot(layer, i) : reachable_state(layer, i);
    if (!is_on_nvme(layer, i) || plan_.update_reads(tensors_[i].tensor))
      op.reads.push_back(state(place, layer, tensors_[i], 0));
    op.writes.push_back(state(place, layer, tensors_[i], 1));
  }
  writer_.add(std::move(op));
}

/// optimizer_time = end: the phase starts behind the last backward op, and the next step's GPU ops and NVMe reads
/// behind all of the phase.
void OptimizerPhase::order_serially(int begin, int last_compute) {
  const std::vector<Op>& ops = writer_.builder().schedule().ops;
  const std::vector<Lane>& lanes = writer_.builder().schedule().lanes;
  std::vector<int> first_of_phase(lanes.size(), -1), last_of_phase(lanes.size(), -1), first_of_step(lanes.size(), -1);
  for (const Op& op : ops) {
    const auto lane = static_cast<std::size_t>(op.lane);
    if (first_of_step[lane] < 0) first_of_step[lane] = op.id;
    if (op.id < begin || lanes[lane].kind == LaneKind::launch) continue;
    if (first_of_phase[lane] < 0) first_of_phase[lane] = op.id;
    last_of_phase[lane] = op.id;
  }
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (first_of_phase[lane] >= 0) writer_.builder().add_edge(last_compute, first_of_phase[lane], 0);
    if (last_of_phase[lane] < 0) continue;
    for (std::size_t next = 0; next < lanes.size(); ++next)
      if (is_gpu(lanes[next].kind) || lanes[next].kind == LaneKind::nvme_read)
        writer_.builder().add_edge(last_of_phase[lane], first_of_step[next], 1);
  }
}

}  // namespace penstock
