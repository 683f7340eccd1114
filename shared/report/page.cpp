#include "shared/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/report/assets.h"

namespace penstock {
namespace {

using nlohmann::json;

/// Nothing but what the page carries itself may be loaded.
constexpr const char* kPolicy =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'\">";

/// JSON that may stand inside a script element: no "</script>", no "<!--".
std::string script_json(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', true, json::error_handler_t::replace))
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

const char* column_class(Column::Kind kind) {
  switch (kind) {
    case Column::Kind::number: return "";
    case Column::Kind::text: return " class=text";
    case Column::Kind::long_text: return " class=\"text long\"";
    case Column::Kind::meters: return " class=meters";
  }
  return "";
}

const char* row_class(Row::Look look) {
  switch (look) {
    case Row::Look::plain: return "";
    case Row::Look::part: return " class=part";
    case Row::Look::head: return " class=head";
    case Row::Look::chosen: return " class=chosen";
  }
  return "";
}

std::string meter_html(const Meter& meter) {
  const double percent = std::isfinite(meter.share) ? std::clamp(meter.share, 0.0, 1.0) * 100 : 0;
  if (percent == 0) return "<div class=meter></div>";
  return fmt::format("<div class=meter><i class=side{} style=\"width:{:.2f}%\"></i></div>", meter.side, percent);
}

std::string cell_html(const Cell& cell, Column::Kind kind) {
  std::string content = html_text(cell.text);
  for (const Meter& meter : cell.meters) content += meter_html(meter);
  const bool is_sorted = cell.value && std::isfinite(*cell.value);
  return fmt::format("<td{}{}>{}</td>", column_class(kind), is_sorted ? fmt::format(" data-v={:.9g}", *cell.value) : "",
                     content);
}

json axis_json(const ChartAxis& axis) { return {{"name", axis.name}, {"unit", axis.unit}, {"log", axis.log}}; }

json chart_json(const PointChart& chart) {
  json series = json::array(), marks = json::array();
  for (const PointSeries& one : chart.series) {
    json points = json::array();
    for (const ChartPoint& point : one.points) {
      json entry = {{"x", point.x}, {"y", point.y}, {"label", point.label}};
      if (point.range) {
        entry["low"] = point.range->first;
        entry["high"] = point.range->second;
      }
      if (point.chosen) entry["chosen"] = true;
      points.push_back(entry);
    }
    series.push_back({{"name", one.name}, {"points", points}, {"joined", one.joined}});
  }
  for (const auto& [x, label] : chart.marks) marks.push_back({{"x", x}, {"label", label}});
  return {{"caption", chart.caption}, {"x", axis_json(chart.x)}, {"y", axis_json(chart.y)},
          {"series", series},         {"marks", marks},          {"named", chart.named}};
}

}  // namespace

Cell meters_cell(std::vector<Meter> meters) { return {"", std::nullopt, std::move(meters)}; }

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

ReportPage::ReportPage(std::string_view title, std::string_view subtitle) : title_(html_text(title)) {
  body_ = fmt::format("<h1>{}</h1>\n<p class=soft>{}</p>\n", title_, html_text(subtitle));
}

void ReportPage::tiles(const std::vector<std::pair<std::string, std::string>>& name_and_value) {
  body_ += "<div class=tiles>";
  for (const auto& [name, value] : name_and_value)
    body_ += fmt::format("<div><b>{}</b>{}</div>", html_text(value), html_text(name));
  body_ += "</div>\n";
}

void ReportPage::section(std::string_view title, std::string_view note) {
  section_ = title;
  body_ += fmt::format("<h2>{}</h2>\n", html_text(title));
  if (!note.empty()) body_ += fmt::format("<p class=soft>{}</p>\n", html_text(note));
}

void ReportPage::paragraph(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", html_text(text)); }

void ReportPage::warning(std::string_view text) { body_ += fmt::format("<p class=warning>{}</p>\n", html_text(text)); }

void ReportPage::table(const ReportTable& table) {
  // The keyboard scrolls what is wider than the page, too.
  body_ += fmt::format("<div class=scroll role=region tabindex=0 aria-label=\"{}\"><table{}>", html_text(table.caption),
                       table.sortable ? " class=sortable" : "");
  body_ += fmt::format("<caption{}>{}</caption>", table.caption == section_ ? " class=unseen" : "",
                       html_text(table.caption));
  body_ += "<thead><tr>";
  for (const Column& column : table.columns) {
    const std::string name = html_text(column.name);
    const bool sorts = table.sortable && column.kind != Column::Kind::meters;
    body_ += fmt::format("<th scope=col{}>{}</th>", column_class(column.kind),
                         sorts ? fmt::format("<button type=button>{}</button>", name) : name);
  }
  body_ += "</tr></thead>\n<tbody>\n";
  for (const Row& row : table.rows) {
    body_ += fmt::format("<tr{}>", row_class(row.look));
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      body_ += cell_html(row.cells[i], i < table.columns.size() ? table.columns[i].kind : Column::Kind::number);
    for (std::size_t i = row.cells.size(); i < table.columns.size(); ++i) body_ += "<td></td>";
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void ReportPage::charts(const std::vector<PointChart>& charts) {
  body_ += "<div class=charts>";
  for (const PointChart& chart : charts)
    if (std::any_of(chart.series.begin(), chart.series.end(), [](const auto& one) { return !one.points.empty(); }))
      widget("points", chart_json(chart));
  body_ += "</div>\n";
}

void ReportPage::sides(const std::vector<std::string>& names) {
  body_ += "<ul class=key>";
  for (std::size_t i = 0; i < names.size(); ++i)
    body_ += fmt::format("<li><i style=\"background:var(--side{})\"></i>{}</li>", i, html_text(names[i]));
  body_ += "</ul>\n";
}

void ReportPage::preformatted(std::string_view text) {
  body_ += fmt::format("<pre tabindex=0>{}</pre>\n", html_text(text));
}

void ReportPage::widget(std::string_view css_class, const json& data) {
  ++widgets_;
  body_ += fmt::format(
      "<div class={} data-source=data-{}></div>\n<script type=\"application/json\" id=data-{}>{}</script>\n", css_class,
      widgets_, widgets_, script_json(data));
}

std::string ReportPage::html() const {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n{}\n<title>{}</title>\n"
      "<style>\n{}</style>\n</head><body>\n<main>\n"
      "<noscript><p class=warning>Charts are drawn by a script, which is off here; the tables are "
      "complete.</p></noscript>\n"
      "{}</main>\n<script>\n{}\npage.start();\n</script>\n</body></html>\n",
      kPolicy, title_, kPageStyle, body_, kPageScripts);
}

}  // namespace penstock
