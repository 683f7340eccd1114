// Schedules of a few ops, written by hand: lanes, ops, edges, and just enough values for causes to be told apart.
#pragma once

#include <string>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock::test {

class TinySchedule {
 public:
  TinySchedule() {
    schedule.tiers = {{TierKind::hbm, 0, 1 << 20}, {TierKind::dram, 0, 1 << 20}, {TierKind::nvme, 0, 1 << 20}};
    schedule.buffers = {{"hbm", 0, 0, 1000}, {"dram", 1, 0, 1000}, {"nvme", 2, 0, 1000}};
    schedule.lanes = {{"compute", LaneKind::gpu_compute, 0},
                      {"h2d", LaneKind::copy_h2d, 0},
                      {"d2h", LaneKind::copy_d2h, 0},
                      {"host", LaneKind::host, 0},
                      {"launch", LaneKind::launch, 0}};
  }

  static constexpr int kCompute = 0, kH2d = 1, kD2h = 2, kHost = 3, kLaunch = 4;

  int add_lane(const std::string& name, LaneKind kind) {
    schedule.lanes.push_back({name, kind, 0});
    return static_cast<int>(schedule.lanes.size()) - 1;
  }

  int op(const std::string& name, int lane, Work work) {
    Op op;
    op.id = static_cast<int>(schedule.ops.size());
    op.name = name;
    op.lane = lane;
    op.work = std::move(work);
    schedule.ops.push_back(op);
    return op.id;
  }

  int compute(const std::string& name, Pass pass = Pass::forward) {
    return op(name, kCompute, TemplateWork{LayerKind::decoder, pass, Keep::input});
  }
  int upload(const std::string& name, TensorKind tensor, std::int64_t bytes = 100) {
    return copy(name, kH2d, 1, 0, tensor, bytes);
  }
  int download(const std::string& name, TensorKind tensor, std::int64_t bytes = 100) {
    return copy(name, kD2h, 0, 1, tensor, bytes);
  }

  /// Buffers: 0 in HBM, 1 in DRAM, 2 on NVMe.
  int copy(const std::string& name, int lane, int from, int to, TensorKind tensor, std::int64_t bytes = 100) {
    const int id = op(name, lane, CopyWork{{{bytes, 1}}});
    const Value value{tensor, 1, 0, -1};
    schedule.ops[id].reads.push_back({from, 0, bytes, value});
    schedule.ops[id].writes.push_back({to, 0, bytes, value});
    return id;
  }

  void after(int to, std::initializer_list<int> from) {
    for (const int op : from) schedule.edges.push_back({op, to, 0});
  }
  void after_previous_step(int to, std::initializer_list<int> from) {
    for (const int op : from) schedule.edges.push_back({op, to, 1});
  }

  Schedule schedule;
};

}  // namespace penstock::test
