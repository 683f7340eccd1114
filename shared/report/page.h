// One HTML page that carries everything it needs and asks nothing of the network: text, tables, charts.
//
//   ReportPage page("Qwen on a H200", "policy megatrain");
//   page.section("Stalls", "Seconds per step.");
//   page.table({...});
//   write_text_file(file, page.html());
//
// Whatever is given is text and is escaped, in markup and in the JSON that scripts read. Tables are complete without
// scripts, which only sort them; charts are drawn by the scripts of this folder from JSON beside them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// A length beside a figure. `side` colours it: 0 the first of what is compared, 1 the second.
struct Meter {
  double share = 0;  // of the whole width, cut to 0 .. 1
  int side = 0;
};

struct Cell {
  std::string text;
  std::optional<double> value;  // what the table is sorted by, where the text alone does not tell
  std::vector<Meter> meters;    // instead of the text
};
Cell meters_cell(std::vector<Meter> meters);

struct Column {
  std::string name;
  enum class Kind { number, text, long_text, meters } kind = Kind::number;
};

struct Row {
  std::vector<Cell> cells;
  enum class Look { plain, part, head, chosen } look = Look::plain;  // a part is indented
};

struct ReportTable {
  std::string caption;  // not drawn where it repeats the section's title
  std::vector<Column> columns;
  std::vector<Row> rows;
  bool sortable = false;
};

/// How the numbers of an axis are written: "seconds", "bytes", or a unit behind them ("EUR").
struct ChartAxis {
  std::string name;
  std::string unit;
  bool log = false;  // if all values are positive
};
struct ChartPoint {
  double x = 0, y = 0;
  std::string label;
  std::optional<std::pair<double, double>> range = {};  // of y
  bool chosen = false;
};
struct PointSeries {
  std::string name;
  std::vector<ChartPoint> points;  // if joined, ascending in x
  bool joined = false;             // by steps, as a front is
};
struct PointChart {
  std::string caption;
  ChartAxis x, y;
  std::vector<PointSeries> series;
  std::vector<std::pair<double, std::string>> marks;  // lines at x: a capacity
  bool named = false;                                 // labels beside the points, where there is room
};

class ReportPage {
 public:
  ReportPage(std::string_view title, std::string_view subtitle);

  /// Figures in large letters, each with its name.
  void tiles(const std::vector<std::pair<std::string, std::string>>& name_and_value);
  void section(std::string_view title, std::string_view note = {});
  void paragraph(std::string_view text);
  void warning(std::string_view text);
  void table(const ReportTable& table);
  /// Side by side where there is room. Charts without points are left out.
  void charts(const std::vector<PointChart>& charts);
  /// Coloured names: what sides 0 and 1 are.
  void sides(const std::vector<std::string>& names);
  void preformatted(std::string_view text);
  /// An element that the script of this class fills from `data`.
  void widget(std::string_view css_class, const nlohmann::json& data);

  std::string html() const;

 private:
  std::string title_, section_, body_;
  int widgets_ = 0;
};

/// "a < b" as it stands in markup: "a &lt; b".
std::string html_text(std::string_view text);

}  // namespace penstock
