#include "shared/compare/report_html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/shared/compare/example.h"

namespace penstock {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::string report(Schedule schedule, const std::string& scenario_text) {
  Timeline predicted = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(6, {3, 2, 5}));
  Timeline measured = example_timeline(TimelineSource::measured, 0, std::vector<ExampleStep>(6, {4, 2, 6}));
  predicted.schedule_hash = measured.schedule_hash = schedule_hash(schedule);
  return report_html(schedule, predicted, measured, compare_timelines(schedule, predicted, measured), scenario_text);
}

/// What the page's script draws.
nlohmann::json data_of(const std::string& html) {
  const std::string start = "<script>const DATA = ";
  const std::size_t from = html.find(start) + start.size();
  return nlohmann::json::parse(html.substr(from, html.find(";</script>", from) - from));
}

TEST(ReportHtml, LoadsNothingFromElsewhere) {
  const std::string html = report(example_schedule(), "");
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url("})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
}

TEST(ReportHtml, EscapesWhatComesFromFiles) {
  Schedule schedule = example_schedule();
  schedule.ops[2].name = "</script><b>\"&";
  schedule.lanes[1].name = "<i>lane";
  schedule.policy = "<u>policy";
  const std::string html = report(schedule, "# <s>comment</s> & 'more'\n");
  EXPECT_EQ(count(html, "</script>"), 2u);  // the page's own two
  EXPECT_EQ(count(html, "<script>"), 2u);
  EXPECT_EQ(html.find("<b>\""), std::string::npos);
  EXPECT_EQ(html.find("<i>lane"), std::string::npos);
  EXPECT_EQ(html.find("<u>"), std::string::npos);
  EXPECT_NE(html.find("<pre># &lt;s&gt;comment&lt;/s&gt; &amp; &#39;more&#39;\n</pre>"), std::string::npos);
  EXPECT_EQ(data_of(html).at("ops").at(2).at(0), "</script><b>\"&");  // still the same name to the script
}

TEST(ReportHtml, AlignsBothTimelinesAtAStepBoundary) {
  const nlohmann::json data = data_of(report(example_schedule(), ""));
  // Three periods of the longer step, 12 s, are drawn from the end of the first steady step's backward.
  EXPECT_DOUBLE_EQ(data.at("end"), 36);
  const nlohmann::json& predicted = data.at("timelines").at(0);
  const nlohmann::json& measured = data.at("timelines").at(1);
  EXPECT_EQ(predicted.at("boundaries"), nlohmann::json({0.0, 10.0, 20.0, 30.0}));
  EXPECT_EQ(measured.at("boundaries"), nlohmann::json({0.0, 12.0, 24.0, 36.0}));
  EXPECT_EQ(measured.at("bars").at(0), nlohmann::json({0, 0.0, 4.0}));  // the second step's load
  // HBM: the slot is full from load to load, since one step's last read ends where the next one's write begins.
  EXPECT_EQ(data.at("tiers"), nlohmann::json({"hbm", "dram"}));
  EXPECT_EQ(measured.at("memory").at(0).at(0), nlohmann::json({0.0, 1024.0}));
  EXPECT_EQ(measured.at("bars").size(), 9u);  // 3 periods of 3 ops
}

TEST(ReportHtml, ShowsMemoryByTierAndPhaseAndStallsByCause) {
  const std::string html = report(example_schedule(), "");
  EXPECT_NE(html.find("<th>hbm 0</th>"), std::string::npos);
  EXPECT_NE(html.find("<th>dram 0</th>"), std::string::npos);
  EXPECT_NE(html.find(stall_cause_name(StallCause::weights)), std::string::npos);
}

}  // namespace
}  // namespace penstock
