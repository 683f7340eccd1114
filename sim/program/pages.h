// The pages that --html writes (shared/report): what a command says, with pictures. Pages of tables are made from the
// JSON that the command prints (docs/commands.md), so that both say the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"
#include "sim/simulate.h"

namespace penstock::sim {

/// A schedule and what it does, as `simulate` and `search` know it.
struct PredictedStep {
  const Scenario& scenario;
  const Schedule& schedule;
  const Prediction& prediction;  // with its timeline
  const std::vector<TierMemory>& memory;
  // Lines for people; may be empty.
  std::string plan;
  std::string warnings;  // does not fit; or what it does to the drive
  std::string cost;      // bill_text
};

/// `simulate`.
std::string prediction_page(const PredictedStep& step);
/// `search`; `result` is "penstock-search/1".
std::string search_page(const PredictedStep& step, const nlohmann::ordered_json& result);
/// `result` is "penstock-sweep/1", `scenario` the name of what was varied.
std::string sweep_page(const std::string& scenario, const nlohmann::ordered_json& result);
/// `result` is "penstock-shop/1", `workload` what the machines are to do, in words.
std::string shop_page(const std::string& workload, const nlohmann::ordered_json& result);

}  // namespace penstock::sim
