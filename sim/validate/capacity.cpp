#include "sim/validate/capacity.h"

#include <fmt/format.h>

#include <optional>

#include "shared/error.h"
#include "sim/planner/parallel.h"
#include "sim/planner/search.h"
#include "sim/validate/row_table.h"
#include "sim/validate/validation.h"

namespace penstock::sim {
namespace {

FitRow fit_row(const Scenario& scenario, const std::string& name) {
  FitRow row;
  row.scenario = name;
  row.system = published_system(scenario);
  row.sequence_length = scenario.sequence_length;
  row.excess = published_excess(scenario, schedule_memory(make_schedule(scenario.policy_input())));
  row.as_published = row.excess.empty();
  row.planned = plan_fits(planned_alike(scenario), 1);
  return row;
}

bool is_asked(const Scenario& scenario) {
  return scenario.published->fits.value_or(false) && !is_planned(scenario.policy.name);
}

}  // namespace

Scenario planned_alike(const Scenario& scenario) {
  Scenario planned = scenario;
  planned.policy = preset_parameters("penstock");
  planned.policy.numerics = scenario.policy.numerics;
  planned.policy.numerics.chunking.mlp_tokens = 0;
  planned.fixed = {"micro_batch", "loss_chunk_tokens"};
  planned.machine.nvme.bytes = 0;
  return planned;
}

bool plan_fits(const Scenario& scenario, int threads) {
  return feasible(scenario, compact_space(scenario), threads).fits ||
         feasible(scenario, quick_space(scenario), threads).fits;
}

std::vector<FitRow> fit_rows(const std::filesystem::path& folder,
                             const std::function<void(const std::string&)>& progress) {
  std::vector<FitRow> rows;
  for (const std::filesystem::path& file : published_files(folder)) {
    const std::string name =
        std::filesystem::path(file).replace_extension().lexically_relative(folder).generic_string();
    if (progress) progress(name);
    const Scenario base = read_scenario(file);
    if (base.published->rows.empty()) {
      if (is_asked(base)) rows.push_back(fit_row(base, name));
      continue;
    }
    const std::vector<TableRow> table = read_row_table(base.published->rows);
    std::vector<std::optional<FitRow>> found(table.size());
    parallel_for(table.size(), thread_count(0), [&](std::size_t i, std::size_t) {
      const Scenario scenario = read_table_row(file, base.published->rows, table[i]);
      if (is_asked(scenario)) found[i] = fit_row(scenario, name + "/" + table[i].name);
    });
    for (std::optional<FitRow>& row : found)
      if (row) rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace penstock::sim
