// Two predictions side by side: this machine or that, this policy or that. Schedules, machines and scenarios may
// differ.
//
// Nothing was measured, so there is no error: differences are shares of the first. Where steps hold different numbers
// of tokens, tokens/s are what can be compared.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/ir/schedule.h"
#include "shared/timeline/stalls.h"
#include "shared/timeline/timeline.h"

namespace penstock {

struct PredictedSide {
  const Schedule* schedule = nullptr;
  const Timeline* timeline = nullptr;
  std::string title;        // what tells it from the other: "A: megatrain on H200"
  double step_seconds = 0;  // mean of the periods
  double tokens_per_second = 0;
  StallReport stalls;
  std::vector<std::pair<std::string, double>> lane_seconds;  // busy per step, without the launch lane
  std::vector<TierMemory> memory;                            // capacities are those that the schedule was made for
};

using PredictionPair = std::array<PredictedSide, 2>;

/// Titles name the machine, the policy and, where they differ, the scenario and the batch. Throws InputError if a
/// timeline was measured, is not of its schedule, lacks ops or has fewer than 2 periods. Keeps pointers to its
/// arguments.
PredictionPair compare_predictions(const std::array<const Schedule*, 2>& schedules,
                                   const std::array<const Timeline*, 2>& timelines);

std::string pair_text(const PredictionPair& pair);  // a table for a terminal
/// "penstock-prediction-pair/1", described in docs/commands.md.
std::string pair_json(const PredictionPair& pair);
std::string pair_html(const PredictionPair& pair);

}  // namespace penstock
