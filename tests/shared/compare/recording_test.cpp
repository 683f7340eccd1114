#include "shared/compare/recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "tests/shared/compare/example.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Five steps, one of them warm-up: four steady periods of 6, 6, 6 and 9 s. Compute idles while the load runs.
Timeline measured() {
  return example_timeline(TimelineSource::measured, 1, {{9, 9, 9}, {2, 1, 3}, {2, 1, 3}, {2, 1, 3}, {5, 1, 3}});
}

Scenario scenario_on(const fs::path& profile) {
  Scenario scenario;
  scenario.path = "napkin.toml";
  scenario.text = "[model]\nconfig = \"models/tiny.json\"\n";
  scenario.machine.source = profile.string();
  scenario.machine.name = "desk";
  scenario.machine.measured = true;
  scenario.machine.gpu.hbm_bytes = 1 << 20;
  scenario.machine.dram_bytes = 1 << 21;
  return scenario;
}

TEST(Recording, KeepsMediansOfTheSteadySteps) {
  const Recording recording =
      make_recording(scenario_on("/a/b/profile.json"), {}, example_schedule(), measured(), "c0ffee", "/a/c/run.json");
  EXPECT_EQ(recording.periods, 4);
  EXPECT_DOUBLE_EQ(recording.step_seconds, 6);
  EXPECT_DOUBLE_EQ(recording.spread, 0.5);  // (9 - 6) / 6
  EXPECT_EQ(recording.op_seconds, (std::vector<double>{2, 1, 3}));
  EXPECT_DOUBLE_EQ(recording.stall_seconds, 2.75);  // (2 + 2 + 2 + 5) / 4, all of it the load of weights
  EXPECT_DOUBLE_EQ(recording.stall_by_cause[static_cast<std::size_t>(StallCause::weights)], 2.75);
  EXPECT_EQ(recording.profile, "../b/profile.json");
  EXPECT_EQ(recording.schedule_hash, schedule_hash(example_schedule()));
}

// Of four steady steps the two in the middle count; a warm-up step among them would make the larger one the median.
TEST(Recording, LeavesWarmUpOutOfTheMediansOfOps) {
  const Timeline timeline =
      example_timeline(TimelineSource::measured, 1, {{9, 9, 9}, {2, 1, 3}, {2, 1, 3}, {4, 3, 5}, {4, 3, 5}});
  const Recording recording =
      make_recording(scenario_on("/a/b/profile.json"), {}, example_schedule(), timeline, "c0ffee", "/a/c/run.json");
  EXPECT_EQ(recording.op_seconds, (std::vector<double>{3, 2, 4}));
}

TEST(Recording, WritesThePolicyOutAndKeepsTheCapacitiesOfTheRun) {
  Scenario scenario = scenario_on("p.json");
  scenario.policy.group = 3;
  scenario.machine.reserve_bytes = 1000;
  const Recording recording = make_recording(
      scenario,
      {"policy.group=3", "machine.reserve=7 B", "machine.profile=p.json", "machine.hbm=64 GiB", "workload.sequences=8"},
      example_schedule(), measured(), "c0ffee", "run.json");
  const auto count = [&](const std::string& start) {
    return std::count_if(recording.overrides.begin(), recording.overrides.end(),
                         [&](const std::string& text) { return text.starts_with(start); });
  };
  EXPECT_EQ(count("workload.sequences=8"), 1);
  EXPECT_EQ(count("policy.group=3"), 1);
  EXPECT_EQ(count("policy.weight_buffers=2"), 1);  // a default, written out: presets may change
  EXPECT_EQ(count("machine.hbm=1048576 B"), 1);
  EXPECT_EQ(count("machine.hbm"), 1);
  EXPECT_EQ(count("machine.context=262144 B"), 1);  // the usual, written out likewise
  EXPECT_EQ(count("machine.reserve=1000 B"), 1);
  EXPECT_EQ(count("machine.profile"), 0);
}

TEST(Recording, KeepsOfPackedRowsWhatPredictsThem) {
  Scenario scenario = scenario_on("p.json");
  scenario.rows = BatchKind::packed;
  scenario.squared_lengths = 1234.5;
  const Recording recording = make_recording(scenario, {"workload.data=long.tok", "workload.sequences=8"},
                                             example_schedule(), measured(), "c0ffee", "run.json");
  EXPECT_EQ(recording.overrides.back(), "workload.squared_lengths=1234.5");
  EXPECT_EQ(std::count(recording.overrides.begin(), recording.overrides.end(), "workload.data=long.tok"), 0);
}

TEST(Recording, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "run.json";
  Timeline timeline = measured();
  timeline.peaks = {{TierKind::hbm, 4096}, {TierKind::dram, 123456789012}};
  const Recording written = make_recording(scenario_on(folder.path() / "p.json"), {"run.seed=7"}, example_schedule(),
                                           timeline, "c0ffee", file);
  write_recording(written, file);
  const Recording read = read_recording(file);
  EXPECT_EQ(read.text, written.text);
  EXPECT_EQ(read.overrides, written.overrides);
  EXPECT_EQ(read.profile, "p.json");
  EXPECT_EQ(read.schedule_hash, written.schedule_hash);
  EXPECT_EQ(read.commit, "c0ffee");
  EXPECT_EQ(read.date, written.date);
  EXPECT_EQ(read.step_seconds, written.step_seconds);
  EXPECT_EQ(read.stall_by_cause, written.stall_by_cause);
  EXPECT_EQ(read.op_seconds, written.op_seconds);
  ASSERT_EQ(read.peaks.size(), 2u);
  EXPECT_EQ(read.peaks[1].bytes, 123456789012);
}

TEST(Recording, WhatCannotBePredictedLaterIsRefused) {
  Scenario scenario = scenario_on("p.json");
  EXPECT_EQ(error_text([&] { require_recordable(scenario, ""); }), "");
  EXPECT_NE(error_text([&] { require_recordable(scenario, "s.json"); }).find("leave --schedule s.json away"),
            std::string::npos);
  scenario.run.warmup_steps = scenario.run.steps - 1;
  EXPECT_EQ(error_text([&] { require_recordable(scenario, ""); }), "");
  scenario.run.steps = 1;
  EXPECT_NE(error_text([&] { require_recordable(scenario, ""); }).find("run.steps is 1"), std::string::npos);
  scenario.machine.measured = false;
  EXPECT_NE(error_text([&] { require_recordable(scenario, ""); }).find("penstock-exec calibrate"), std::string::npos);
  const Timeline short_run = example_timeline(TimelineSource::measured, 1, {{2, 1, 3}});
  EXPECT_NE(error_text([&] {
              make_recording(scenario, {}, example_schedule(), short_run, "", "run.json");
            }).find("a recording needs a steady period, and there is none (1 steps"),
            std::string::npos);
}

TEST(Recording, ErrorsNameFileAndKey) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "run.json";
  write_recording(make_recording(scenario_on(folder.path() / "p.json"), {}, example_schedule(), measured(), "c", file),
                  file);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::ifstream in(file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    const fs::path copy = folder.write("changed.json", text);
    return error_text([&] { read_recording(copy); });
  };
  EXPECT_NE(changed("\"periods\": 4", "\"periods\": 0").find("changed.json.periods"), std::string::npos);
  EXPECT_NE(changed("\"commit\"", "\"comit\"").find("commit"), std::string::npos);
  const std::vector<std::array<std::string, 3>> cases = {
      {"penstock-recording/1", "penstock-recording/9", "format: expected one of penstock-recording/1"},
      {"\"scenario\": \"", "\"scenario\": 7, \"x\": \"", "scenario: expected a text, found 7"},
      {"\"overrides\": [", "\"overrides\": [3, ", "overrides: expected texts"},
      {"\"periods\": 4", "\"periods\": 2.5", "periods: expected a whole number from 1 to 1000000, found 2.5"},
      {"\"step_seconds\": 6.0", "\"step_seconds\": 0", "step_seconds: expected a number from 1e-09"},
      {"\"step_seconds\": 6.0", "\"step_seconds\": 1e400", "is not JSON"},
      {"\"spread\": 0.5", "\"spread\": -0.5", "spread: expected a number from 0"},
      {"\"stall_seconds\": 2.75", "\"stall_seconds\": null", "stall_seconds: expected a number"},
      {"\"gradient slab\": 0.0", "\"gradient slap\": 0.0", "stall_seconds_by_cause.gradient slab: is missing"},
      {"\"peak_bytes\": {", "\"peak_bytes\": {\"tape\": 1", "peak_bytes.tape: is not a key that belongs here"},
      {"\"peak_bytes\": {", "\"peak_bytes\": {\"hbm\": -1", "peak_bytes.hbm: expected a whole number from 0"},
      {"[2000000000", "[-2", "expected whole nanoseconds up to 1000000000000000, found -2"},
      {"[2000000000", "[1000000000000001", "up to 1000000000000000, found 1000000000000001"},
      {"[2000000000", "[2e9", "expected whole nanoseconds"},
      {"\"op_nanoseconds\": [", "\"op_nanoseconds\": {\"0\": 1}, \"x\": [", "op_nanoseconds: expected a list"},
      {"\"commit\"", "\"commit\": \"a\", \"commit\"", "the key \"commit\" stands twice"},
      {"]\n}", "]\n", "is not JSON"},
  };
  for (const auto& [from, to, expected] : cases)
    EXPECT_NE(changed(from, to).find(expected), std::string::npos) << to << "\n" << changed(from, to);
  // The model is looked for beside the recording and above; the profile belongs to it.
  EXPECT_NE(
      error_text([&] { recorded_scenario(read_recording(file), file); }).find("models/tiny.json is neither beside"),
      std::string::npos);
  folder.write("models/tiny.json", "{}");
  EXPECT_NE(error_text([&] { recorded_scenario(read_recording(file), file); }).find("p.json is not there"),
            std::string::npos);
}

TEST(Recording, AModelMayBeTheCatalogues) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "run.json";
  Recording recording =
      make_recording(scenario_on(folder.path() / "p.json"), {}, example_schedule(), measured(), "c", file);
  const auto error_with = [&](const std::string& model) {
    recording.overrides = {"model.config=\"" + model + "\""};
    return error_text([&] { recorded_scenario(recording, file); });
  };
  EXPECT_NE(error_with("olmoe-1b-7b").find("p.json is not there"), std::string::npos);
  EXPECT_NE(error_with("olmoe-1b-8b").find("nor in the catalogue"), std::string::npos);
}

}  // namespace
}  // namespace penstock
