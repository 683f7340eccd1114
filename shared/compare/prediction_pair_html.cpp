// The page of two predictions.
#include <fmt/format.h>

#include <algorithm>

#include "shared/compare/prediction_pair.h"
#include "shared/compare/table.h"
#include "shared/report/page.h"
#include "shared/report/step_tables.h"
#include "shared/report/timeline_view.h"
#include "shared/units.h"

namespace penstock {
namespace {

constexpr const char* kLabels[] = {"A", "B"};

/// "1.25 times as fast", never less than 1 of the one that is ahead.
std::string verdict(const PredictionPair& pair) {
  const double a = pair[0].tokens_per_second, b = pair[1].tokens_per_second;
  if (fmt::format("{:.2f}", std::max(a, b) / std::min(a, b)) == "1.00") return "as fast as each other";
  return fmt::format("{} is {:.2f} times as fast", a > b ? "A" : "B", std::max(a, b) / std::min(a, b));
}

}  // namespace

std::string pair_html(const PredictionPair& pair) {
  ReportPage page("Penstock: two predictions", "Nothing on this page was measured.");
  page.sides({pair[0].title, pair[1].title});
  page.tiles({{"step of A", format_seconds(pair[0].step_seconds)},
              {"step of B", format_seconds(pair[1].step_seconds)},
              {"tokens/s of A", fmt::format("{:.0f}", pair[0].tokens_per_second)},
              {"tokens/s of B", fmt::format("{:.0f}", pair[1].tokens_per_second)},
              {"in tokens/s", verdict(pair)}});
  if (pair[0].schedule->tokens_per_step() != pair[1].schedule->tokens_per_step())
    page.warning(fmt::format("A step of A has {} tokens, one of B {}: compare tokens/s, not steps.",
                             format_count(pair[0].schedule->tokens_per_step()),
                             format_count(pair[1].schedule->tokens_per_step())));
  page.section(
      "Timelines",
      "Aligned at the end of a step's last backward op, lane beside lane; a lane that only one has stands alone. "
      "Beneath them the live bytes of each tier, A filled, B as a line.");
  std::vector<TimelineSide> sides;
  std::vector<StepSide> steps;
  for (std::size_t i = 0; i < pair.size(); ++i) {
    sides.push_back(
        {kLabels[i], pair[i].title, pair[i].schedule, pair[i].timeline, pair[i].memory, pair[i].step_seconds});
    steps.push_back({kLabels[i], pair[i].title, pair[i].step_seconds, pair[i].stalls, pair[i].lane_seconds});
  }
  const SidesMemory live = add_timelines(page, sides);
  add_stall_table(page, steps);
  add_lane_table(page, steps);
  add_memory_table(page, sides, live);
  return page.html();
}

}  // namespace penstock
