#include "shared/timeline/chrome_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "shared/files.h"
#include "tests/shared/temporary_folder.h"
#include "tests/shared/timeline/tiny_schedule.h"

namespace penstock::test {
namespace {

using nlohmann::json;

/// An upload from 0 to 2, then the layer from 2 to 3; and an op that started long after what it needs.
struct Example : TinySchedule {
  Example() {
    up = upload("up \"0\"", TensorKind::weights);
    layer = compute("layer", Pass::backward);
    late = op("late", kHost, ReportWork{});
    after(layer, {up});
    after(late, {layer});
    for (Timeline* timeline : {&predicted, &measured}) {
      timeline->steps = 1;
      timeline->scenario = "tiny";
      timeline->machine = "h200";
      timeline->ops = {{0, up, 0, 2}, {0, layer, 2, 3}, {0, late, 4, 5}};
    }
    measured.source = TimelineSource::measured;
  }
  int up, layer, late;
  Timeline predicted, measured;
};

TEST(ChromeTrace, HasAProcessPerTimelineAndAnArrowPerWait) {
  const TemporaryFolder folder;
  Example tiny;
  write_chrome_trace(tiny.schedule, {&tiny.predicted, &tiny.measured}, folder.path() / "trace.json");
  const json trace = json::parse(read_text_file(folder.path() / "trace.json", 1 << 20));
  std::map<std::string, int> count;
  for (const json& event : trace["traceEvents"]) ++count[event["ph"].get<std::string>()];
  EXPECT_EQ(count["X"], 6);                // three ops in each process
  EXPECT_EQ(count["M"], 2 * (2 + 2 * 5));  // process name and order, five lanes' names and order
  EXPECT_EQ(count["s"], 2);                // the layer waited for the upload; `late` for nothing in particular
  EXPECT_EQ(count["f"], 2);
}

TEST(ChromeTrace, TimesAreMicrosecondsAndNamesAreTheOps) {
  const TemporaryFolder folder;
  Example tiny;
  write_chrome_trace(tiny.schedule, {&tiny.measured}, folder.path() / "trace.json");
  const json trace = json::parse(read_text_file(folder.path() / "trace.json", 1 << 20));
  bool found = false;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "measured: tiny on h200");
    }
    if (event["ph"] == "s") {
      // Inside the upload's slice, just before its end.
      EXPECT_EQ(event["tid"], TinySchedule::kH2d + 1);
      EXPECT_NEAR(event["ts"].get<double>(), 2e6, 0.01);
      EXPECT_LT(event["ts"].get<double>(), 2e6);
    }
    if (event["ph"] != "X" || event["args"]["op"] != tiny.up) continue;
    found = true;
    EXPECT_EQ(event["name"], "up \"0\"");
    EXPECT_EQ(event["ts"], 0.0);
    EXPECT_EQ(event["dur"], 2e6);
    EXPECT_EQ(event["tid"], TinySchedule::kH2d + 1);
    EXPECT_EQ(event["pid"], 1);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace penstock::test
