// What machines do with a model, and what an upgrade of one is worth: the parts of `shop`.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/money/bill.h"
#include "sim/planner/catalogue.h"
#include "sim/planner/machine_plans.h"
#include "sim/program/commands.h"
#include "sim/validate/error_bar.h"

namespace penstock::sim {

/// What a machine does with the model.
struct Verdict {
  std::string name;
  Price price;
  bool fits = false;
  double tokens_per_second = 0;
  double bound_tokens_per_second = 0;  // at the matmul rate
  std::string plan, shortage;
  std::string binding;       // what bounds the plan
  ErrorRange error;          // of the prediction, by the machine's file
  std::optional<Bill> bill;  // of --tokens, where it fits

  Range range() const { return rate_range(tokens_per_second, error); }
  /// What such a machine gives at least: verdicts are ranked by it.
  double sure() const { return range().low; }
};

/// A machine that is to be judged.
struct Asked {
  PlanningTask task;
  Price price;
  std::optional<double> euros;  // that a bill spreads over its life; none: those of its parts
};
Asked asked(const Offer& offer);
/// `base` with the upgrade, at the upgrade's price.
Asked asked(const Asked& base, const Upgrade& upgrade);

/// Judges machines by one workload.
class Judge {
 public:
  /// Of `--model`, `--sequences` and `--sequence-length`: policy `penstock`, nothing fixed.
  explicit Judge(const ShopOptions& options);
  /// Model, workload, numerics and [cost] of a scenario.
  Judge(const ShopOptions& options, const Scenario& scenario);

  const Scenario& workload() const { return scenario_; }
  /// In the order of `machines`, with a line on the terminal meanwhile.
  std::vector<Verdict> judge(const std::vector<Asked>& machines) const;

 private:
  void require_moderate_step() const;
  Verdict verdict(const Asked& machine, const SearchResult& plan) const;
  std::optional<Bill> bill(const Asked& machine, std::int64_t tokens_per_step, double step_seconds) const;

  const int threads_;
  const CostKeys cost_;
  const PartPrices prices_;
  Scenario scenario_;
  std::string workload_;  // for messages: "--sequences 160 of --sequence-length 1024"
};

/// An upgrade of a machine, and what it gains.
struct NextEuro {
  Upgrade upgrade;
  Verdict verdict;
  double gain = 0;  // tokens/s

  double per_euro() const;
};
/// The most gain per euro first; of equal ones the cheaper.
void rank(std::vector<NextEuro>& next);
std::vector<NextEuro> next_euros(const Judge& judge, const std::vector<Upgrade>& upgrades, const Asked& machine,
                                 const Verdict& now);

/// Throws DoesNotFit where neither the machine nor any one upgrade of `catalogue` holds the model.
void require_room(const Judge& judge, const Verdict& now, const std::vector<NextEuro>& next,
                  const std::filesystem::path& catalogue);

/// "3500", and "3500*" where it is assumed.
std::string euros(const Price& price);
std::string next_text(const std::vector<NextEuro>& next, const Verdict& now);
nlohmann::ordered_json verdict_json(const Verdict& verdict);
nlohmann::ordered_json next_json(const std::vector<NextEuro>& next);

}  // namespace penstock::sim
