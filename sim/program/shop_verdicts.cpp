#include "sim/program/shop_verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/model/config_json.h"
#include "shared/model/kernels.h"
#include "shared/model/sequence_limits.h"
#include "shared/standard_streams.h"
#include "shared/units.h"
#include "sim/cost/rates.h"
#include "sim/planner/candidate_text.h"
#include "sim/planner/evaluator.h"
#include "sim/planner/progress.h"
#include "sim/program/memory_text.h"
#include "sim/program/question.h"
#include "sim/program/range_text.h"
#include "sim/simulate.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMostOps = 4'000'000;        // of the search for one machine
constexpr std::int64_t kMostSequences = 1'000'000;  // of --sequences

double tokens(const Scenario& scenario) { return static_cast<double>(scenario.sequence_length) * scenario.sequences; }

double matmul_bound(const Scenario& scenario, const Machine& machine) {
  const BatchShape whole = scenario.shape(scenario.sequences);
  return tokens(scenario) * best_matmul_rate(machine.gpu) / model_flops(scenario.model, whole);
}

/// A micro-batch to start from.
int middle_divisor(int sequences) {
  int best = 1;
  for (int i = 1; i <= std::min(sequences, 16); ++i)
    if (sequences % i == 0) best = i;
  return best;
}

Scenario workload_of(const ShopOptions& options) {
  Scenario scenario;
  scenario.path = model_config_file(options.model, "shop: --model");
  scenario.model = make_model(read_model_config(scenario.path));
  scenario.name = scenario.model.config.name;
  const ModelConfig& config = scenario.model.config;
  scenario.sequence_length = options.sequence_length > 0 ? options.sequence_length : usual_sequence_length(config);
  for (const std::string& note : length_notes(config, scenario.sequence_length, scenario.rows))
    tell(fmt::format("penstock-sim: note: {}\n", note));
  scenario.sequences = options.sequences;
  scenario.policy = preset_parameters("penstock");
  scenario.micro_batch = middle_divisor(scenario.sequences);
  return scenario;
}

Scenario workload_of(const Scenario& scenario) {
  Scenario open = scenario;
  open.policy = preset_parameters("penstock");
  open.policy.numerics = scenario.policy.numerics;
  open.fixed.clear();
  return open;
}

}  // namespace

Asked asked(const Offer& offer) {
  const Machine& machine = offer.machine;
  // What a catalogue's table may change besides DRAM stands in the kind.
  std::string kind = fmt::format("{} {} {} {} {} {}", machine.source, machine.card.string(), machine.host.string(),
                                 machine.name, machine.gpu.hbm_bytes, machine.nvme.bytes);
  const std::optional<double> euros = offer.price.euros > 0 ? std::optional(offer.price.euros) : std::nullopt;
  return {{offer.name, std::move(kind), machine}, offer.price, euros};
}

Asked asked(const Asked& base, const Upgrade& upgrade) {
  const PlanningTask& task = base.task;
  std::string kind =
      fmt::format("{} {} {} {}", task.kind, upgrade.link_factor, upgrade.dram_bandwidth_factor, upgrade.drive_bytes);
  const std::optional<double> euros = base.euros ? std::optional(*base.euros + upgrade.price.euros) : std::nullopt;
  return {{task.name + " + " + upgrade.name, std::move(kind), upgraded(task.machine, upgrade)}, upgrade.price, euros};
}

Judge::Judge(const ShopOptions& options)
    : threads_(options.threads),
      cost_(cost_keys(options.cost)),
      prices_(prices_of(cost_)),
      scenario_(workload_of(options)),
      workload_(
          fmt::format("shop: --sequences {} of --sequence-length {}", options.sequences, options.sequence_length)) {
  require_moderate_step();
}

Judge::Judge(const ShopOptions& options, const Scenario& scenario)
    : threads_(options.threads),
      cost_(scenario.cost),
      prices_(prices_of(cost_)),
      scenario_(workload_of(scenario)),
      workload_(fmt::format("{}: {} sequences of {} tokens", scenario.path.string(), scenario.sequences,
                            scenario.sequence_length)) {
  require_moderate_step();
}

std::vector<Verdict> Judge::judge(const std::vector<Asked>& machines) const {
  StatusLine status("planning");
  std::vector<PlanningTask> tasks;
  for (const Asked& machine : machines) tasks.push_back(machine.task);
  SearchOptions options;
  options.tolerance = 0.003;
  options.front = false;
  options.most_ops = kMostOps;
  options.threads = threads_;
  std::vector<SearchResult> plans;
  try {
    plans = plan_machines(scenario_, tasks, default_space, options,
                          [&](const std::string& name, const SearchProgress& progress) {
                            status.update(fmt::format("{} machine{}, {}: {}", tasks.size(),
                                                      tasks.size() == 1 ? "" : "s", name, progress_text(progress)));
                          });
  } catch (const InputError& error) {
    // Keys that the planner speaks of may be nobody's.
    throw InputError(fmt::format("{} cannot be planned for in micro-batches of {}: {}", workload_,
                                 scenario_.micro_batch, error.what()));
  }
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < machines.size(); ++i) verdicts.push_back(verdict(machines[i], plans[i]));
  return verdicts;
}

Verdict Judge::verdict(const Asked& asked, const SearchResult& plan) const {
  const Machine& machine = asked.task.machine;
  Verdict verdict;
  verdict.name = asked.task.name;
  verdict.price = asked.price;
  verdict.bound_tokens_per_second = matmul_bound(scenario_, machine);
  verdict.error = step_error_range(machine);
  if (plan.best.empty()) {
    verdict.shortage = shortage_text(plan.shortage.arenas, machine);
    return verdict;
  }
  const Evaluated& best = plan.best.front();
  verdict.fits = true;
  verdict.tokens_per_second = tokens(scenario_) / best.step_seconds;
  verdict.plan = candidate_text(best.candidate);
  Scenario scenario = scenario_;
  scenario.machine = machine;
  set_plan(best.candidate, scenario);
  const Schedule schedule = make_schedule(scenario.policy_input());
  verdict.bill = bill(asked, schedule.tokens_per_step(), best.step_seconds);
  verdict.binding = simulate(schedule, machine, {64, false, false}).bounds.binding;
  return verdict;
}

std::optional<Bill> Judge::bill(const Asked& machine, std::int64_t tokens_per_step, double step_seconds) const {
  CostKeys cost = cost_;
  if (machine.euros) cost.price = machine.euros;
  return make_bill(cost, prices_, machine.task.machine, tokens_per_step, step_seconds,
                   step_error_range(machine.task.machine));
}

/// Of a step with ever more micro-batches tokens/s change ever less, but each machine's search takes ever longer.
void Judge::require_moderate_step() const {
  const SearchSpace space = default_space(scenario_);
  const int largest = *std::max_element(space.micro_batches.begin(), space.micro_batches.end());
  const std::int64_t ops = expected_ops(scenario_, {largest, scenario_.policy});
  if (!is_huge(ops, kMostOps)) return;
  const std::int64_t micro_batches = scenario_.sequences / largest, ops_of_one = ops / micro_batches;
  std::int64_t most = std::max<std::int64_t>(1, kMostOps / ops_of_one);
  while (most > 1 && is_huge(ops_of_one * most, kMostOps)) --most;
  const std::int64_t size = std::max<std::int64_t>(1, kMostMicroBatchTokens / scenario_.sequence_length);
  const std::int64_t sequences = std::min(most, kMostSequences / size) * size;
  throw InputError(fmt::format(
      "{} make {} micro-batches or more; machines are compared by steps of at most {} (of {} layers), since tokens/s "
      "hardly depend on more: give {} sequences or fewer, divisible by {}",
      workload_, micro_batches, most, scenario_.model.layer_count(), sequences, size));
}

double NextEuro::per_euro() const { return gain / std::max(1.0, upgrade.price.euros); }

void rank(std::vector<NextEuro>& next) {
  std::stable_sort(next.begin(), next.end(), [](const NextEuro& a, const NextEuro& b) {
    return a.per_euro() != b.per_euro() ? a.per_euro() > b.per_euro() : a.upgrade.price.euros < b.upgrade.price.euros;
  });
}

std::vector<NextEuro> next_euros(const Judge& judge, const std::vector<Upgrade>& upgrades, const Asked& machine,
                                 const Verdict& now) {
  std::vector<Asked> machines;
  for (const Upgrade& upgrade : upgrades) machines.push_back(asked(machine, upgrade));
  std::vector<Verdict> verdicts = judge.judge(machines);
  std::vector<NextEuro> result;
  for (std::size_t i = 0; i < upgrades.size(); ++i) {
    Verdict& then = verdicts[i];
    // The schedule of before still runs, no slower; the search may miss that by its tolerance.
    then.tokens_per_second = std::max(then.tokens_per_second, now.tokens_per_second);
    result.push_back({upgrades[i], then, then.tokens_per_second - now.tokens_per_second});
  }
  rank(result);
  return result;
}

void require_room(const Judge& judge, const Verdict& now, const std::vector<NextEuro>& next,
                  const std::filesystem::path& catalogue) {
  if (now.fits || std::any_of(next.begin(), next.end(), [](const NextEuro& one) { return one.verdict.fits; })) return;
  throw DoesNotFit(fmt::format("{}: {} holds no plan, with any one upgrade of {} neither: {}", judge.workload().name,
                               now.name, catalogue.string(), now.shortage));
}

std::string euros(const Price& price) { return fmt::format("{:.0f}{}", price.euros, price.assumed ? "*" : ""); }

ordered_json verdict_json(const Verdict& verdict) {
  ordered_json json = {{"machine", verdict.name},
                       {"euros", verdict.price.euros},
                       {"price_source", verdict.price.source},
                       {"price_date", verdict.price.date},
                       {"price_assumed", verdict.price.assumed},
                       {"fits", verdict.fits}};
  if (verdict.fits) {
    json["tokens_per_second"] = verdict.tokens_per_second;
    json["tokens_per_second_at_least"] = verdict.sure();
    json["plan"] = verdict.plan;
    if (verdict.bill) json["cost"] = bill_json(*verdict.bill);
    json["executable"] = true;
  } else {
    json["shortage"] = verdict.shortage;
  }
  json["bound_tokens_per_second"] = verdict.bound_tokens_per_second;
  return json;
}

ordered_json next_json(const std::vector<NextEuro>& next) {
  ordered_json upgrades = ordered_json::array();
  for (const NextEuro& one : next) {
    ordered_json upgrade = verdict_json(one.verdict);
    upgrade["gain_tokens_per_second"] = one.gain;
    upgrades.push_back(upgrade);
  }
  return upgrades;
}

std::string next_text(const std::vector<NextEuro>& next, const Verdict& now) {
  std::vector<std::vector<std::string>> rows{
      {"what the next euro buys", "EUR", "tokens/s", "between", "gain", "per 1000 EUR"}};
  for (const NextEuro& one : next) {
    const Verdict& then = one.verdict;
    if (!then.fits) {
      rows.push_back({"  " + one.upgrade.name, euros(one.upgrade.price), "no room", "", "", ""});
      continue;
    }
    rows.push_back({"  " + one.upgrade.name, euros(one.upgrade.price), fmt::format("{:.0f}", then.tokens_per_second),
                    rate_range_text(then.tokens_per_second, then.error),
                    now.fits ? percent_text(one.gain / now.tokens_per_second) : "holds it",
                    fmt::format("{:+.1f}", one.per_euro() * 1000)});
  }
  return table_text(rows);
}

}  // namespace penstock::sim
