// The pages of sweep and shop: tables that sort, and where their rows lie.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/report/page.h"
#include "shared/units.h"
#include "sim/program/pages.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kRowsShown = 5000;    // of a sweep; a larger table makes browsers slow
constexpr std::size_t kPointsDrawn = 1500;  // of a chart, likewise

Cell text_cell(std::string text) { return {std::move(text), {}, {}}; }

double number(const ordered_json& entry, const char* key) { return entry.at(key).get<double>(); }

std::string rate_text(double rate) { return fmt::format("{:.1f}", rate); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string amount(double value) { return fmt::format("{:.0f}", value); }

Cell cell_of(const ordered_json& entry, const char* key, std::string (*format)(double)) {
  if (!entry.contains(key)) return {};
  return {format(number(entry, key)), number(entry, key), {}};
}

Cell cost_cell(const ordered_json& entry, const char* key) {
  return cell_of(entry, key, [](double value) { return fmt::format("{:.2f}", value); });
}

std::string range_of(const ordered_json& entry, const char* key) {
  if (!entry.contains(key)) return "";
  return fmt::format("{:.0f} to {:.0f}", entry.at(key).at(0).get<double>(), entry.at(key).at(1).get<double>());
}

std::string row_label(const ordered_json& row) {
  std::string label;
  for (const auto& [key, value] : row.at("varied").items())
    label += (label.empty() ? "" : ", ") + value.get<std::string>();
  return label;
}

bool is_predicted(const ordered_json& row) { return row.contains("step_seconds"); }

/// Those that no other row beats in both, ascending in memory.
PointSeries front_of(const std::vector<ChartPoint>& points) {
  std::vector<ChartPoint> sorted = points;
  std::sort(sorted.begin(), sorted.end(),
            [](const ChartPoint& a, const ChartPoint& b) { return std::pair(a.x, a.y) < std::pair(b.x, b.y); });
  PointSeries front{"front: none is faster with less", {}, true};
  for (const ChartPoint& point : sorted)
    if (front.points.empty() || point.y < front.points.back().y) front.points.push_back(point);
  return front;
}

PointChart memory_chart(const std::vector<const ordered_json*>& rows, const char* key, const char* title) {
  PointSeries all{"rows", {}, false};
  for (const ordered_json* row : rows)
    all.points.push_back({number(*row, key), number(*row, "step_seconds"), row_label(*row), {}, false});
  const PointSeries front = front_of(all.points);
  if (all.points.size() > kPointsDrawn) all.points.resize(kPointsDrawn);
  return {fmt::format("Step time against {}", title),
          {title, "bytes", false},
          {"step time", "seconds", false},
          {all, front},
          {},
          rows.size() <= 24};
}

Row sweep_row(const ordered_json& row) {
  Row cells;
  for (const auto& [key, value] : row.at("varied").items()) cells.cells.push_back(text_cell(value));
  cells.cells.push_back(cell_of(row, "step_seconds", format_seconds));
  cells.cells.push_back(cell_of(row, "tokens_per_second", rate_text));
  cells.cells.push_back(text_cell(range_of(row, "tokens_per_second_range")));
  cells.cells.push_back(cell_of(row, "model_flops_per_second", format_flops));
  cells.cells.push_back(cell_of(row, "compute_busy_share", percent));
  cells.cells.push_back(text_cell(row.value("binding", "")));
  const bool has_memory = number(row, "hbm_bytes") > 0;
  cells.cells.push_back(has_memory ? cell_of(row, "hbm_bytes", format_bytes) : Cell{});
  cells.cells.push_back(has_memory ? cell_of(row, "dram_bytes", format_bytes) : Cell{});
  std::string remarks = row.value("problem", row.value("plan", ""));
  cells.cells.push_back(text_cell(remarks));
  return cells;
}

}  // namespace

std::string sweep_page(const std::string& scenario, const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  std::vector<const ordered_json*> predicted;
  for (const ordered_json& row : rows)
    if (is_predicted(row)) predicted.push_back(&row);
  ReportPage page(fmt::format("Penstock: {} varied", scenario),
                  fmt::format("Predicted. {} rows, of which {} have a prediction.", rows.size(), predicted.size()));
  if (!predicted.empty()) {
    page.section("Step time against memory",
                 "Each dot is a row. Where rows differ in the tokens of a step, compare tokens/s in the table.");
    if (predicted.size() > kPointsDrawn)
      page.paragraph(
          fmt::format("Drawn: the first {} of {} rows, and the front of all.", kPointsDrawn, predicted.size()));
    page.charts({memory_chart(predicted, "hbm_bytes", "HBM"), memory_chart(predicted, "dram_bytes", "DRAM")});
  }
  page.section("Rows", "A head sorts by its column: once upwards, twice downwards, a third time as it was.");
  if (rows.size() > kRowsShown)
    page.warning(fmt::format("Shown: the first {} of {} rows; --format csv has all.", kRowsShown, rows.size()));
  ReportTable table{"Rows", {}, {}, true};
  if (!rows.empty())
    for (const auto& [key, value] : rows.front().at("varied").items())
      table.columns.push_back({key, Column::Kind::text});
  for (const char* name : {"step", "tokens/s", "range", "model FLOP/s", "compute busy"})
    table.columns.push_back({name});
  table.columns.push_back({"binding", Column::Kind::text});
  for (const char* name : {"HBM", "DRAM"}) table.columns.push_back({name});
  table.columns.push_back({"remarks", Column::Kind::long_text});
  for (std::size_t i = 0; i < std::min(rows.size(), kRowsShown); ++i) table.rows.push_back(sweep_row(rows[i]));
  page.table(table);
  return page.html();
}

namespace {

double per_thousand_euros(const ordered_json& entry, const char* key) {
  return number(entry, key) / std::max(1.0, number(entry, "euros")) * 1000;
}

Cell price_cell(const ordered_json& entry) {
  return {
      amount(number(entry, "euros")) + (entry.at("price_assumed").get<bool>() ? "*" : ""), number(entry, "euros"), {}};
}

std::string source_of(const ordered_json& entry) {
  return fmt::format("{}, {}", entry.at("price_source").get<std::string>(), entry.at("price_date").get<std::string>());
}

/// Hours, and euros if it is rented and if it is bought.
void add_cost(Row& row, const ordered_json& machine) {
  const ordered_json cost = machine.value("cost", ordered_json::object());
  row.cells.push_back(cost_cell(cost, "hours"));
  for (const char* way : {"rented", "bought"})
    row.cells.push_back(cost_cell(cost.value(way, ordered_json::object()), "euros"));
}

ReportTable machines_table(const ordered_json& result) {
  const bool has_cost = std::any_of(result.at("machines").begin(), result.at("machines").end(),
                                    [](const ordered_json& machine) { return machine.contains("cost"); });
  ReportTable table{"Machines",
                    {{"machine", Column::Kind::text},
                     {"EUR"},
                     {"tokens/s"},
                     {"at least"},
                     {"per 1000 EUR"},
                     {"at the matmul rate"},
                     {"plan, or what is short", Column::Kind::long_text},
                     {"price", Column::Kind::long_text}},
                    {},
                    true};
  if (has_cost)
    for (const char* name : {"hours", "EUR, rented", "EUR, bought"}) table.columns.push_back({name});
  for (const ordered_json& machine : result.at("machines")) {
    const bool fits = machine.at("fits").get<bool>();
    Row row{{text_cell(machine.at("machine")), price_cell(machine)},
            machine.at("machine") == result.at("choice") ? Row::Look::chosen : Row::Look::plain};
    row.cells.push_back(fits ? cell_of(machine, "tokens_per_second", amount) : text_cell("no room"));
    row.cells.push_back(cell_of(machine, "tokens_per_second_at_least", amount));
    const double share = fits ? per_thousand_euros(machine, "tokens_per_second") : 0;
    row.cells.push_back(fits ? Cell{amount(share), share, {}} : Cell{});
    row.cells.push_back(cell_of(machine, "bound_tokens_per_second", amount));
    std::string plan = fits ? machine.value("plan", "") : machine.value("shortage", "");
    row.cells.push_back(text_cell(plan));
    row.cells.push_back(text_cell(source_of(machine)));
    if (has_cost) add_cost(row, machine);
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportTable upgrades_table(const ordered_json& result) {
  ReportTable table{"What the next euro buys",
                    {{"upgrade", Column::Kind::text},
                     {"EUR"},
                     {"tokens/s"},
                     {"gain"},
                     {"gain per 1000 EUR"},
                     {"price", Column::Kind::long_text}},
                    {},
                    true};
  for (const ordered_json& upgrade : result.at("upgrades")) {
    const double gain = number(upgrade, "gain_tokens_per_second"),
                 share = per_thousand_euros(upgrade, "gain_tokens_per_second");
    table.rows.push_back({{text_cell(upgrade.at("machine")),
                           price_cell(upgrade),
                           cell_of(upgrade, "tokens_per_second", amount),
                           {fmt::format("{:+.1f}", gain), gain, {}},
                           {fmt::format("{:+.1f}", share), share, {}},
                           text_cell(source_of(upgrade))}});
  }
  return table;
}

PointChart price_chart(const ordered_json& result) {
  PointSeries machines{"machines", {}, false};
  for (const ordered_json& machine : result.at("machines")) {
    if (!machine.at("fits").get<bool>() || number(machine, "euros") <= 0) continue;
    const double rate = number(machine, "tokens_per_second");
    machines.points.push_back({number(machine, "euros"), rate, machine.at("machine"),
                               std::pair(number(machine, "tokens_per_second_at_least"), rate),
                               machine.at("machine") == result.at("choice")});
  }
  return {"Tokens/s against price; the line beneath a dot reaches down to what is certain",
          {"price", "EUR", true},
          {"tokens/s", "tokens/s", false},
          {machines},
          {},
          true};
}

}  // namespace

std::string shop_page(const std::string& workload, const ordered_json& result) {
  ReportPage page(fmt::format("Penstock: a machine for {}", result.at("model").get<std::string>()),
                  fmt::format("Predicted. {}.", workload));
  const std::string choice = result.at("choice");
  for (const ordered_json& machine : result.at("machines"))
    if (machine.at("machine") == choice) {
      const auto speed = [&](const char* key) {
        return machine.contains(key) ? amount(number(machine, key)) : "no room";
      };
      page.tiles({{"the choice", choice},
                  {"EUR", price_cell(machine).text},
                  {"tokens/s", speed("tokens_per_second")},
                  {"tokens/s at least", speed("tokens_per_second_at_least")}});
    }
  page.section("Price and speed");
  page.charts({price_chart(result)});
  page.section(
      "Machines",
      "A head sorts by its column: once upwards, twice downwards, a third time as it was. \"At least\": so far "
      "below a prediction steps have been. * assumed price.");
  page.table(machines_table(result));
  if (!result.at("upgrades").empty()) {
    page.section("What the next euro buys", "The machine of choice with one thing more.");
    page.table(upgrades_table(result));
  }
  return page.html();
}

}  // namespace penstock::sim
