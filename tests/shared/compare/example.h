// A step that fits on a napkin, for the tests of this folder:
//
//   h2d      [load 1]
//   compute            [forward 1][backward 1]
//
// The forward waits for the load (edge), the next step's load for this step's backward (edge with distance 1): the
// whole step is one chain, and compute idles exactly while the load runs.
#pragma once

#include <string>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/ir/schedule_json.h"
#include "shared/timeline/timeline.h"

namespace penstock {

inline Schedule example_schedule() {
  constexpr std::int64_t kBytes = 1024;
  Schedule schedule;
  schedule.policy = "example";
  schedule.model.name = "napkin";
  schedule.micro_batch = {1, 8};
  schedule.tiers = {{TierKind::hbm, 0, 4096}, {TierKind::dram, 0, 4096}};
  schedule.lanes = {{"compute", LaneKind::gpu_compute, 0}, {"h2d", LaneKind::copy_h2d, 0}};
  schedule.buffers = {{"slot", 0, 0, kBytes}, {"weights 1", 1, 0, kBytes}};
  const Value weights{TensorKind::weights, 1, 0, -1};
  schedule.initial = {{1, 0, kBytes, weights}};
  const Access slot{0, 0, kBytes, weights}, home{1, 0, kBytes, weights};
  schedule.ops = {
      {0, "load 1", 1, 1, -1, Phase::forward, CopyWork{{{kBytes, 1}}}, {home}, {slot}},
      {1,
       "forward 1 #0",
       0,
       1,
       0,
       Phase::forward,
       TemplateWork{LayerKind::decoder, Pass::forward, Keep::input},
       {slot},
       {}},
      {2,
       "backward 1 #0",
       0,
       1,
       0,
       Phase::backward,
       TemplateWork{LayerKind::decoder, Pass::backward, Keep::input},
       {slot},
       {}},
  };
  schedule.edges = {{0, 1, 0}, {2, 0, 1}};
  return schedule;
}

/// Seconds of the three ops in one step.
struct ExampleStep {
  double load = 0, forward = 0, backward = 0;
};

inline Timeline example_timeline(TimelineSource source, int warmup_steps, const std::vector<ExampleStep>& steps) {
  Timeline timeline;
  timeline.source = source;
  timeline.schedule_hash = schedule_hash(example_schedule());
  timeline.scenario = "napkin";
  timeline.machine = "desk";
  timeline.first_step = 3;
  timeline.steps = static_cast<int>(steps.size());
  timeline.warmup_steps = warmup_steps;
  double now = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double seconds[] = {steps[i].load, steps[i].forward, steps[i].backward};
    for (int op = 0; op < 3; ++op) {
      timeline.ops.push_back({timeline.first_step + static_cast<int>(i), op, now, now + seconds[op]});
      now += seconds[op];
    }
  }
  return timeline;
}

}  // namespace penstock
