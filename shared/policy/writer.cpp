#include "shared/policy/writer.h"

#include <fmt/format.h>

#include <utility>

namespace penstock {
namespace {

bool is_parameter_like(TensorKind tensor) {
  switch (tensor) {
    case TensorKind::weights:
    case TensorKind::low_bits:
    case TensorKind::master:
    case TensorKind::moment_m:
    case TensorKind::moment_v:
    case TensorKind::gradient_sum:
    case TensorKind::gradient_part:
    case TensorKind::gradient: return true;
    default: return false;
  }
}

void append(std::vector<Burst>& bursts, std::int64_t bytes) {
  if (bytes <= 0) return;
  if (!bursts.empty() && bursts.back().bytes == bytes)
    ++bursts.back().count;
  else
    bursts.push_back({bytes, 1});
}

}  // namespace

std::string op_name(const std::string& what, int layer, int micro_batch) {
  return micro_batch < 0 ? fmt::format("{} {}", what, layer) : fmt::format("{} {} #{}", what, layer, micro_batch);
}

Writer::Writer(const Plan& plan, Schedule header, ScheduleBuilder::Makes makes)
    : plan_(plan), builder_(std::move(header), makes) {}

int Writer::lane(const std::string& name, LaneKind kind) {
  const auto [it, is_new] = lanes_.try_emplace(name, 0);
  if (is_new) {
    it->second = builder_.add_lane(name, kind);
    last_on_lane_.push_back(-1);
  }
  return it->second;
}

int Writer::h2d() {
  return plan_.parameters.copy_lanes == CopyLanes::shared ? lane("copy", LaneKind::copy_both)
                                                          : lane("h2d", LaneKind::copy_h2d);
}

int Writer::d2h() {
  return plan_.parameters.copy_lanes == CopyLanes::shared ? lane("copy", LaneKind::copy_both)
                                                          : lane("d2h", LaneKind::copy_d2h);
}

int Writer::add(Op op) {
  const int op_lane = op.lane;
  const int id = builder_.add_op(std::move(op));
  last_on_lane_[static_cast<std::size_t>(op_lane)] = id;
  return id;
}

int Writer::last_on(int lane_index) const { return last_on_lane_[static_cast<std::size_t>(lane_index)]; }

int Writer::copy(const std::string& name, bool to_device, Phase phase, const Access& from, const Access& to) {
  return copy_on(to_device ? h2d() : d2h(), name, phase, from, to);
}

int Writer::read_nvme(const std::string& name, Phase phase, const Access& from, const Access& to) {
  return copy_on(lane("nvme read", LaneKind::nvme_read), name, phase, from, to);
}

int Writer::write_nvme(const std::string& name, Phase phase, const Access& from, const Access& to) {
  return copy_on(lane("nvme write", LaneKind::nvme_write), name, phase, from, to);
}

int Writer::fetch_from_nvme(const std::string& name, Phase phase, const Access& from, const Access& to) {
  return copy_on(lane("nvme fetch", LaneKind::nvme_read), name, phase, from, to);
}

int Writer::evict_to_nvme(const std::string& name, Phase phase, const Access& from, const Access& to) {
  return copy_on(lane("nvme evict", LaneKind::nvme_write), name, phase, from, to);
}

int Writer::copy_on(int on, const std::string& name, Phase phase, const Access& from, const Access& to) {
  Op op;
  op.name = name;
  op.lane = on;
  op.layer = from.value.layer;
  op.micro_batch = from.value.micro_batch;
  op.phase = phase;
  op.work = CopyWork{bursts(from.value, from.bytes)};
  op.reads = {from};
  op.writes = {to};
  return add(std::move(op));
}

int Writer::copy_on_host(const std::string& name, Phase phase, const Access& from, const Access& to) {
  Op op;
  op.name = name;
  op.lane = adam();
  op.layer = from.value.layer;
  op.phase = phase;
  op.work = CopyWork{{{from.bytes, 1}}, plan_.optimizer_threads};
  op.reads = {from};
  op.writes = {to};
  return add(std::move(op));
}

int Writer::wait(const std::string& name, int awaited, int layer, Phase phase) {
  Op op;
  op.name = name;
  op.lane = lane("launch", LaneKind::launch);
  op.layer = layer;
  op.phase = phase;
  op.work = WaitWork{awaited, 0};
  return add(std::move(op));
}

std::vector<Burst> Writer::bursts(const Value& value, std::int64_t bytes) const {
  const PolicyParameters& p = plan_.parameters;
  if (is_parameter_like(value.tensor) && p.burst == BurstKind::tensor) return tensor_bursts(value, bytes);
  if (is_parameter_like(value.tensor) && p.burst == BurstKind::fixed) {
    std::vector<Burst> cut;
    if (const std::int64_t whole = bytes / p.burst_bytes; whole > 0) cut.push_back({p.burst_bytes, whole});
    append(cut, bytes % p.burst_bytes);
    return cut;
  }
  return {{bytes, 1}};
}

/// One burst per parameter tensor; padding goes with the tensor before it.
std::vector<Burst> Writer::tensor_bursts(const Value& value, std::int64_t bytes) const {
  const Layer& layer = plan_.model.layers[static_cast<std::size_t>(value.layer)];
  const bool is_unfinished = value.tensor == TensorKind::gradient_sum || value.tensor == TensorKind::gradient_part;
  const std::int64_t elements = is_unfinished ? layer.gradient_elements : layer.state_elements;
  std::vector<std::int64_t> ends;
  for (std::size_t i = 1; i < layer.tensors.size(); ++i) ends.push_back(layer.tensors[i].offset);
  if (elements > layer.state_elements) ends.push_back(plan_.model.head.projection);
  ends.push_back(elements);
  std::vector<Burst> cut;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    append(cut, (end - begin) * (bytes / elements));
    begin = end;
  }
  return cut;
}

}  // namespace penstock
