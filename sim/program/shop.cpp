#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "shared/catalogue.h"
#include "shared/command_files.h"
#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/files.h"
#include "sim/program/bill_table.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"
#include "sim/program/pages.h"
#include "sim/program/shop_own.h"
#include "sim/program/shop_question.h"
#include "sim/program/shop_verdicts.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

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

/// Index of the machine that the wish is for; none if no machine grants it.
std::optional<std::size_t> choose(const ShopOptions& options, const std::vector<Verdict>& verdicts) {
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    if (!verdict.fits) continue;
    if (options.budget) {
      if (verdict.price.euros > *options.budget) continue;
      if (!chosen || verdict.sure() > verdicts[*chosen].sure()) chosen = i;
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
  const auto slower = [](const Verdict& a, const Verdict& b) { return a.sure() < b.sure(); };
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

void check_wish(const ShopOptions& options) {
  const bool question = is_question(options);
  if (!options.own.empty()) {
    if (question) throw InputError("shop: --gpu asks about another machine than --own; leave one of them out");
    if (!options.html.empty()) throw InputError("shop: --html shows a choice of machines; leave it out with --own");
  } else {
    const bool none = !options.budget && !options.tokens_per_second;
    if (options.model.empty()) throw InputError("shop: give --model, or --own");
    if ((none && !question) || (options.budget && options.tokens_per_second))
      throw InputError("shop: give either --tokens-per-second or --budget");
  }
  const double wish = options.budget ? *options.budget : options.tokens_per_second.value_or(0);
  if (!std::isfinite(wish) || wish < 0)
    throw InputError(fmt::format("shop: {}: expected a number of at least 0, found {}",
                                 options.budget ? "--budget" : "--tokens-per-second", wish));
}

ordered_json shop_json(const std::string& model, const Verdict& best, const std::vector<Verdict>& verdicts,
                       const std::vector<NextEuro>& next) {
  ordered_json machines = ordered_json::array();
  for (const Verdict& verdict : verdicts) machines.push_back(verdict_json(verdict));
  return {{"format", "penstock-shop/1"}, {"model", model},       {"error_share", step_error_share(best.error)},
          {"choice", best.name},         {"machines", machines}, {"upgrades", next_json(next)}};
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
  if (!options.own.empty()) return shop_own(options, catalogue, prices);
  const Judge judge(options);
  std::vector<Asked> offers;
  for (const Offer& offer : catalogue.offers) offers.push_back(asked(offer));
  const std::vector<Verdict> verdicts = judge.judge(offers);
  std::optional<std::size_t> chosen = choose(options, verdicts);
  if (!chosen && is_question(options) && !verdicts.front().fits) chosen = 0;  // an upgrade may make room
  if (!chosen) refuse(options, judge.workload().name, verdicts);
  const Verdict& best = verdicts[*chosen];
  const std::vector<NextEuro> next = next_euros(judge, catalogue.upgrades, offers[*chosen], best);
  require_room(judge, best, next, prices);
  const ordered_json result = shop_json(judge.workload().name, best, verdicts, next);
  const std::string workload =
      fmt::format("{}, {} sequences of {} tokens per step, exact AdamW; the planner's schedule on each machine",
                  judge.workload().name, options.sequences, judge.workload().sequence_length);
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
             best.name, euros(best.price), best.fits ? best.plan : "holds no plan: " + best.shortage,
             next_text(next, best));
  fmt::print(
      "\n\"at least\": so far below a prediction from this machine's file steps have been, over measurements that the "
      "file "
      "was not made from.\n* assumed price; prices, their sources and dates are in {}{}.\n",
      prices.string(), is_question(options) ? ", those of parts in parts.toml of the catalogue or --prices" : "");
  if (!options.html.empty()) fmt::print("\nreport written to {}\n", options.html.string());
  return kExitDone;
}

}  // namespace penstock::sim
