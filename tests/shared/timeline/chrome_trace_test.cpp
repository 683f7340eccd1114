#include "shared/timeline/chrome_trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

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
  write_chrome_trace({{&tiny.schedule, &tiny.predicted}, {&tiny.schedule, &tiny.measured}},
                     folder.path() / "trace.json");
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
  write_chrome_trace({{&tiny.schedule, &tiny.measured}}, folder.path() / "trace.json");
  const json trace = json::parse(read_text_file(folder.path() / "trace.json", 1 << 20));
  bool found = false;
  std::vector<std::string> processes;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "process_name") processes.push_back(event["args"]["name"]);
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
  EXPECT_EQ(processes, std::vector<std::string>{"measured: tiny on h200"});
}

/// Slices of each (process, thread), in the order of the file, in whole nanoseconds.
std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> slices_of(const json& trace) {
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X")
      tracks[{event["pid"], event["tid"]}].emplace_back(std::llround(event["ts"].get<double>() * 1000),
                                                        std::llround(event["dur"].get<double>() * 1000));
  return tracks;
}

TEST(ChromeTrace, SlicesOfATrackNeverOverlap) {
  const TemporaryFolder folder;
  Example tiny;
  const int second = tiny.compute("second", Pass::backward), third = tiny.compute("third", Pass::backward);
  // The second seems to start 3 us before the first has ended, the third lies wholly within it; and a third of a
  // nanosecond must not round to an overlap.
  tiny.measured.ops.push_back({0, second, 3 - 3e-6, 3.5 + 1e-9 / 3});
  tiny.measured.ops.push_back({0, third, 3.2, 3.3});
  write_chrome_trace({{&tiny.schedule, &tiny.measured}}, folder.path() / "trace.json");
  const auto tracks = slices_of(json::parse(read_text_file(folder.path() / "trace.json", 1 << 20)));
  std::size_t slices = 0;
  for (const auto& [track, list] : tracks)
    for (std::size_t i = 0; i < list.size(); ++i, ++slices)
      if (i > 0) {
        EXPECT_GE(list[i].first, list[i - 1].first + list[i - 1].second) << track.second;
      }
  EXPECT_EQ(slices, 5u);
  const auto& compute = tracks.at({1, TinySchedule::kCompute + 1});
  EXPECT_EQ(compute[1], (std::pair<std::int64_t, std::int64_t>{3'000'000'000, 500'000'000}));
  EXPECT_EQ(compute[2], (std::pair<std::int64_t, std::int64_t>{3'500'000'000, 0}));
}

TEST(ChromeTrace, HasACounterOfLiveBytesForEachTier) {
  const TemporaryFolder folder;
  Example tiny;
  write_chrome_trace({{&tiny.schedule, &tiny.predicted}}, folder.path() / "trace.json");
  const json trace = json::parse(read_text_file(folder.path() / "trace.json", 1 << 20));
  std::map<std::string, std::vector<std::pair<double, double>>> counters;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "C") counters[event["name"]].emplace_back(event["ts"], event["args"]["bytes"]);
  // The upload reads 100 bytes that lie in no initial value and writes 100 to HBM: both live while it runs, 0 to 2 s.
  const std::vector<std::pair<double, double>> upload{{0, 100}, {2e6, 0}};
  EXPECT_EQ(counters["hbm 0 live bytes"], upload);
  EXPECT_EQ(counters["dram 0 live bytes"], upload);
  EXPECT_EQ(counters["nvme 0 live bytes"], (std::vector<std::pair<double, double>>{{0, 0}}));
}

}  // namespace
}  // namespace penstock::test
