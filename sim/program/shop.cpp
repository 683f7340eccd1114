#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "shared/catalogue.h"
#include "shared/command_files.h"
#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/model/config_json.h"
#include "shared/model/kernels.h"
#include "shared/model/sequence_limits.h"
#include "shared/standard_streams.h"
#include "shared/units.h"
#include "sim/cost/rates.h"
#include "sim/front_desk.h"
#include "sim/money/bill.h"
#include "sim/planner/candidate_text.h"
#include "sim/planner/catalogue.h"
#include "sim/planner/evaluator.h"
#include "sim/planner/progress.h"
#include "sim/planner/search.h"
#include "sim/program/bill_table.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"
#include "sim/program/pages.h"
#include "sim/program/shop_question.h"
#include "sim/simulate.h"
#include "sim/validate/error_bar.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

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

  double sure() const { return rate_range(tokens_per_second, error).low; }
};

class Shop {
 public:
  /// `machines` will be judged at most, the catalogue's and one of them with each upgrade.
  Shop(const ShopOptions& options, std::size_t machines)
      : options_(options), cost_(cost_keys(options.cost)), prices_(prices_of(cost_)), machines_(machines) {
    scenario_.path = model_config_file(options.model, "shop: --model");
    scenario_.model = make_model(read_model_config(scenario_.path));
    scenario_.name = scenario_.model.config.name;
    scenario_.sequence_length = options.sequence_length;
    const ModelConfig& config = scenario_.model.config;
    if (const std::string why = window_reached(config, options.sequence_length); !why.empty())
      throw InputError("shop: --sequence-length: " + why);
    for (const std::string& note : length_notes(config, options.sequence_length))
      tell(fmt::format("penstock-sim: note: {}\n", note));
    scenario_.sequences = options.sequences;
    scenario_.policy = preset_parameters("penstock");
    scenario_.micro_batch = middle_divisor(scenario_.sequences);
    require_moderate_step();
  }

  const std::string& model() const { return scenario_.name; }

  Verdict judge(const std::string& name, const Price& price, const Machine& machine) {
    const std::string head = fmt::format("{} ({} of {}): ", name, ++judged_, machines_);
    StatusLine status(head + "planning");
    Scenario scenario = scenario_;
    scenario.machine = machine;
    Verdict verdict{name, price, false, 0, bound(scenario), {}, {}, {}, step_error_range(machine), {}};
    SearchOptions options;
    options.tolerance = 0.003;
    options.front = false;
    options.most_ops = kMostOps;
    options.threads = options_.threads;
    options.progress = searching(status, head);
    const SearchResult result = searched(scenario, options);
    if (result.best.empty()) {
      verdict.shortage = shortage_text(result.shortage.arenas, machine);
      return verdict;
    }
    const Evaluated& best = result.best.front();
    verdict.fits = true;
    verdict.tokens_per_second = tokens(scenario) / best.step_seconds;
    verdict.plan = candidate_text(best.candidate);
    scenario.micro_batch = best.candidate.micro_batch;
    scenario.policy = best.candidate.parameters;
    const Schedule schedule = make_schedule(scenario.policy_input());
    verdict.bill = bill(machine, price, schedule.tokens_per_step(), best.step_seconds);
    verdict.binding = simulate(schedule, machine, {64, false, false}).bounds.binding;
    return verdict;
  }

 private:
  static constexpr std::int64_t kMostOps = 4'000'000;        // of the search for one machine
  static constexpr std::int64_t kMostSequences = 1'000'000;  // of --sequences

  /// Of a step with ever more micro-batches tokens/s change ever less, but each machine's search takes ever longer.
  void require_moderate_step() const {
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
        "shop: --sequences {} of --sequence-length {} make {} micro-batches or more; machines are compared by steps of "
        "at most {} (of {} layers), since tokens/s hardly depend on more: give {} sequences or fewer, divisible by {}",
        scenario_.sequences, scenario_.sequence_length, micro_batches, most, scenario_.model.layer_count(), sequences,
        size));
  }

  /// Its workload is the command line's, not a file's.
  SearchResult searched(const Scenario& scenario, const SearchOptions& options) const {
    try {
      return search(scenario, default_space(scenario), options);
    } catch (const InputError& error) {
      throw InputError(
          fmt::format("shop: --sequences {} of --sequence-length {} cannot be planned for in micro-batches "
                      "of {}: {}",
                      scenario.sequences, scenario.sequence_length, scenario.micro_batch, error.what()));
    }
  }

  std::optional<Bill> bill(const Machine& machine, const Price& price, std::int64_t tokens, double step) const {
    CostKeys cost = cost_;
    cost.price = price.euros;
    return make_bill(cost, prices_, machine, tokens, step, step_error_range(machine));
  }

  static double tokens(const Scenario& scenario) {
    return static_cast<double>(scenario.sequence_length) * scenario.sequences;
  }

  double bound(const Scenario& scenario) const {
    const BatchShape whole{scenario.sequences, scenario.sequence_length};
    return tokens(scenario) * best_matmul_rate(scenario.machine.gpu) / model_flops(scenario.model, whole);
  }

  /// A micro-batch to start from.
  static int middle_divisor(int sequences) {
    int best = 1;
    for (int i = 1; i <= std::min(sequences, 16); ++i)
      if (sequences % i == 0) best = i;
    return best;
  }

  const ShopOptions& options_;
  const CostKeys cost_;
  const PartPrices prices_;
  Scenario scenario_;
  std::size_t machines_, judged_ = 0;
};

/// An upgrade of the chosen machine, and what it gains.
struct NextEuro {
  Upgrade upgrade;
  Verdict verdict;
  double gain = 0;  // tokens/s
};

std::vector<NextEuro> next_euros(Shop& shop, const Catalogue& catalogue, const Offer& offer, const Verdict& now) {
  std::vector<NextEuro> result;
  for (const Upgrade& upgrade : catalogue.upgrades) {
    Verdict then = shop.judge(offer.name + " + " + upgrade.name, upgrade.price, upgraded(offer.machine, upgrade));
    // The schedule of before still runs, no slower; the search may miss that by its tolerance.
    then.tokens_per_second = std::max(then.tokens_per_second, now.tokens_per_second);
    result.push_back({upgrade, then, then.tokens_per_second - now.tokens_per_second});
  }
  std::stable_sort(result.begin(), result.end(), [](const NextEuro& a, const NextEuro& b) {
    return a.gain / std::max(1.0, a.upgrade.price.euros) > b.gain / std::max(1.0, b.upgrade.price.euros);
  });
  return result;
}

std::string euros(const Price& price) { return fmt::format("{:.0f}{}", price.euros, price.assumed ? "*" : ""); }

std::string verdicts_text(const std::vector<Verdict>& verdicts) {
  std::vector<std::vector<std::string>> rows{{"machine", "EUR", "tokens/s", "at least", "tokens/s per 1000 EUR"}};
  for (const Verdict& verdict : verdicts) {
    if (verdict.fits)
      rows.push_back({verdict.name, euros(verdict.price), fmt::format("{:.0f}", verdict.tokens_per_second),
                      fmt::format("{:.0f}", verdict.sure()),
                      fmt::format("{:.0f}", verdict.tokens_per_second / std::max(1.0, verdict.price.euros) * 1000)});
    else
      rows.push_back({verdict.name, euros(verdict.price), "no room", "", ""});
  }
  return table_text(rows);
}

std::vector<std::pair<std::string, std::optional<Bill>>> bills_of(const std::vector<Verdict>& verdicts) {
  std::vector<std::pair<std::string, std::optional<Bill>>> bills;
  for (const Verdict& verdict : verdicts) bills.emplace_back(verdict.name, verdict.bill);
  return bills;
}

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

/// Index of the machine that the wish is for; none if no machine grants it.
std::optional<std::size_t> choose(const ShopOptions& options, const std::vector<Verdict>& verdicts) {
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    if (!verdict.fits) continue;
    if (options.budget) {
      if (verdict.price.euros > *options.budget) continue;
      if (!chosen || verdict.tokens_per_second > verdicts[*chosen].tokens_per_second) chosen = i;
    } else if (!chosen && verdict.sure() >= options.tokens_per_second.value_or(0)) {
      chosen = i;  // offers are in the order of their price
    }
  }
  return chosen;
}

/// Why the fastest machine does not give `wish` tokens/s.
std::string speed_limit(const Verdict& fastest, double wish) {
  if (fastest.bound_tokens_per_second < wish)
    return fmt::format("its matmul rate, at which no schedule at all exceeds {:.0f} tokens/s",
                       fastest.bound_tokens_per_second);
  if (fastest.tokens_per_second >= wish) return "that error: a profile of such a machine would tell";
  return fmt::format("{} ({:.0f} tokens/s at the matmul rate alone)", fastest.binding, fastest.bound_tokens_per_second);
}

/// What stands in the way.
[[noreturn]] void refuse(const ShopOptions& options, const std::string& model, const std::vector<Verdict>& verdicts) {
  if (options.budget) {
    const Verdict& cheapest = verdicts.front();
    if (cheapest.price.euros > *options.budget)
      throw DoesNotFit(
          fmt::format("{}: {:.0f} EUR buy no machine of the catalogue; the cheapest, {}, costs {:.0f}: what "
                      "binds is the budget",
                      model, *options.budget, cheapest.name, cheapest.price.euros));
    const Verdict* best = &cheapest;
    for (const Verdict& verdict : verdicts)
      if (verdict.price.euros <= *options.budget) best = &verdict;
    throw DoesNotFit(fmt::format("{}: no machine for {:.0f} EUR holds it: what binds is memory. {}: {}", model,
                                 *options.budget, best->name, best->shortage));
  }
  const auto slower = [](const Verdict& a, const Verdict& b) { return a.tokens_per_second < b.tokens_per_second; };
  const Verdict& fastest = *std::max_element(verdicts.begin(), verdicts.end(), slower);
  if (!fastest.fits)
    throw DoesNotFit(fmt::format("{}: no machine of the catalogue holds it: what binds is memory. {}: {}", model,
                                 verdicts.back().name, verdicts.back().shortage));
  throw DoesNotFit(fmt::format(
      "{}: no machine of the catalogue gives {:.0f} tokens/s for certain. The fastest, {}, is predicted at {:.0f}, at "
      "least {:.0f} with the error of a hardware file; what binds is {}",
      model, *options.tokens_per_second, fastest.name, fastest.tokens_per_second, fastest.sure(),
      speed_limit(fastest, *options.tokens_per_second)));
}

std::string next_text(const std::vector<NextEuro>& next, const Verdict& now) {
  std::vector<std::vector<std::string>> rows{{"what the next euro buys", "EUR", "tokens/s", "gain", "per 1000 EUR"}};
  for (const NextEuro& one : next)
    rows.push_back({"  " + one.upgrade.name, euros(one.upgrade.price),
                    fmt::format("{:.0f}", one.verdict.tokens_per_second),
                    percent_text(one.gain / now.tokens_per_second),
                    fmt::format("{:+.1f}", one.gain / std::max(1.0, one.upgrade.price.euros) * 1000)});
  return table_text(rows);
}

void check_wish(const ShopOptions& options) {
  const bool none = !options.budget && !options.tokens_per_second;
  if ((none && !is_question(options)) || (options.budget && options.tokens_per_second))
    throw InputError("shop: give either --tokens-per-second or --budget");
  const double wish = options.budget ? *options.budget : options.tokens_per_second.value_or(0);
  if (!std::isfinite(wish) || wish < 0) throw InputError(fmt::format("shop: {} is no amount", wish));
}

ordered_json shop_json(const std::string& model, const Verdict& best, const std::vector<Verdict>& verdicts,
                       const std::vector<NextEuro>& next) {
  ordered_json machines = ordered_json::array(), upgrades = ordered_json::array();
  for (const Verdict& verdict : verdicts) machines.push_back(verdict_json(verdict));
  for (const NextEuro& one : next) {
    ordered_json upgrade = verdict_json(one.verdict);
    upgrade["gain_tokens_per_second"] = one.gain;
    upgrades.push_back(upgrade);
  }
  return {{"format", "penstock-shop/1"}, {"model", model},       {"error_share", step_error_share(best.error)},
          {"choice", best.name},         {"machines", machines}, {"upgrades", upgrades}};
}

void check_outputs(const ShopOptions& options, const Catalogue& catalogue) {
  CommandFiles files;
  files.reads(options.model);
  files.reads(catalogue.files);
  files.writes(options.html, "--html");
  files.check();
}

}  // namespace

int shop(const ShopOptions& options) {
  check_wish(options);
  const std::filesystem::path prices =
      options.catalogue.empty() ? catalogue_folder() / "prices/machines.toml" : options.catalogue;
  Catalogue catalogue = read_catalogue(prices);
  if (is_question(options)) catalogue.offers = {asked_offer(options)};
  check_outputs(options, catalogue);
  Shop shop(options, catalogue.offers.size() + catalogue.upgrades.size());
  std::vector<Verdict> verdicts;
  for (const Offer& offer : catalogue.offers) verdicts.push_back(shop.judge(offer.name, offer.price, offer.machine));
  const std::optional<std::size_t> chosen = choose(options, verdicts);
  if (!chosen) refuse(options, shop.model(), verdicts);
  const Verdict& best = verdicts[*chosen];
  const std::vector<NextEuro> next = next_euros(shop, catalogue, catalogue.offers[*chosen], best);
  const ordered_json result = shop_json(shop.model(), best, verdicts, next);
  const std::string workload =
      fmt::format("{}, {} sequences of {} tokens per step, exact AdamW; the planner's schedule on each machine",
                  shop.model(), options.sequences, options.sequence_length);
  if (!options.html.empty()) write_text_file(options.html, shop_page(workload, result));
  if (options.json) {
    fmt::print("{}", json_text(result));
    return kExitDone;
  }
  fmt::print("{}\n\n{}\n", workload, verdicts_text(verdicts));
  if (const std::string bills = bills_text(bills_of(verdicts)); !bills.empty()) fmt::print("{}\n", bills);
  fmt::print("{}: {} for {} EUR\n  {}\n\n{}",
             options.budget              ? "fastest for the money"
             : options.tokens_per_second ? "cheapest that does it"
                                         : "asked about",
             best.name, euros(best.price), best.plan, next_text(next, best));
  fmt::print(
      "\n\"at least\": so far below a prediction from this machine's file steps have been, over measurements that the "
      "file "
      "was not made from.\n* assumed price; prices, their sources and dates are in {}{}.\n",
      prices.string(), is_question(options) ? ", those of parts in parts.toml of the catalogue or --prices" : "");
  if (!options.html.empty()) fmt::print("\nreport written to {}\n", options.html.string());
  return kExitDone;
}

}  // namespace penstock::sim
