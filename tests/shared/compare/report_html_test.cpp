#include "shared/compare/report_html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/shared/compare/example.h"
#include "tests/shared/report/packed.h"

namespace penstock {
namespace {

std::string report(Schedule schedule, const std::string& scenario_text) {
  Timeline predicted = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(6, {3, 2, 5}));
  Timeline measured = example_timeline(TimelineSource::measured, 0, std::vector<ExampleStep>(6, {4, 2, 6}));
  predicted.schedule_hash = measured.schedule_hash = schedule_hash(schedule);
  return report_html(schedule, predicted, measured, compare_timelines(schedule, predicted, measured), scenario_text);
}

TEST(ReportHtml, EscapesWhatComesFromFiles) {
  Schedule schedule = example_schedule();
  schedule.ops[2].name = "</script><b>\"&";
  schedule.lanes[1].name = "<i>lane";
  schedule.policy = "<u>policy";
  const std::string html = report(schedule, "# <s>comment</s> & 'more'\n");
  for (const char* markup : {"<b>\"", "<i>lane", "<u>", "<s>"})
    EXPECT_EQ(html.find(markup), std::string::npos) << markup;
  EXPECT_NE(html.find("># &lt;s&gt;comment&lt;/s&gt; &amp; &#39;more&#39;\n</pre>"), std::string::npos);
  // Still the same names to the script.
  const nlohmann::json data = data_of(html);
  EXPECT_EQ(data.at("schedules").at(0).at("kinds").at(2).at("name"), "</script><b>\"&");
  EXPECT_EQ(data.at("lanes").at(1), "<i>lane");
}

TEST(ReportHtml, AlignsBothTimelinesAtAStepBoundary) {
  const nlohmann::json data = data_of(report(example_schedule(), ""));
  // Three periods of the longer step, 12 s, are drawn from the end of the first steady step's backward.
  EXPECT_DOUBLE_EQ(data.at("end"), 36);
  EXPECT_EQ(data.at("schedules").size(), 1u);
  const nlohmann::json& predicted = data.at("sides").at(0);
  const nlohmann::json& measured = data.at("sides").at(1);
  EXPECT_EQ(predicted.at("label"), "predicted");
  EXPECT_EQ(predicted.at("boundaries"), nlohmann::json({0.0, 10.0, 20.0, 30.0}));
  EXPECT_EQ(measured.at("boundaries"), nlohmann::json({0.0, 12.0, 24.0, 36.0}));
  const UnpackedBar load = unpacked_bars(data, 1, 1).at(0);  // the second step's
  EXPECT_EQ(load.op, 0);
  EXPECT_NEAR(load.start, 0, 1e-6);
  EXPECT_NEAR(load.end, 4, 1e-6);
  EXPECT_EQ(data.at("tiers"), nlohmann::json({"hbm", "dram"}));
}

TEST(ReportHtml, TheTableHasThePeakOfTheChart) {
  // The backward also writes 24 bytes: 1048 live then, on both sides.
  Schedule schedule = example_schedule();
  schedule.buffers.push_back({"scratch", 0, 1024, 24});
  schedule.ops[2].writes = {{2, 0, 24, {}}};
  const std::string html = report(schedule, "");
  EXPECT_NE(html.find("<td class=text>peak of live bytes</td><td data-v=1048>1.02 KiB</td><td data-v=1048>"),
            std::string::npos);
  const auto curve = packed_numbers(data_of(html).at("sides").at(0).at("memory").at(0).at("curve"));
  std::int64_t live = 0, peak = 0;
  for (std::size_t i = 1; i < curve.size(); i += 2) peak = std::max(peak, live += signed_number(curve[i]));
  EXPECT_EQ(peak, 1048);
}

TEST(ReportHtml, ShowsStallsByCause) {
  const std::string html = report(example_schedule(), "");
  EXPECT_NE(html.find(std::string("<td class=text>") + stall_cause_name(StallCause::weights)), std::string::npos);
}

}  // namespace
}  // namespace penstock
