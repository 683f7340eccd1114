#include "sim/validate/validation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shared/compare/recording.h"
#include "shared/machine/profile.h"
#include "sim/simulate.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScenario = R"([model]
config = "models/tiny.json"
[machine]
hardware = "hardware/desk.toml"
[workload]
sequence_length = 64
sequences = 4
micro_batch = 2
[policy]
name = "megatrain"
[run]
steps = 8
warmup_steps = 2
)";

/// A folder with a model, a profile and a scenario; runs in it are predictions that claim to be measured.
class ValidationTest : public testing::Test {
 protected:
  ValidationTest() {
    const fs::path data = source_folder() / "tests/sim/program/golden/data";
    fs::copy(data, folder_.path(), fs::copy_options::recursive);
    folder_.write("s.toml", kScenario);
    Profile profile;
    profile.machine = read_hardware(folder_.path() / "hardware/desk.toml");
    profile.machine.measured = true;
    profile.date = "2026-01-02T03:04:05Z";
    profile.host = "desk";
    fs::create_directories(runs());
    write_profile_file(profile, runs() / "desk.json");
  }
  fs::path runs() const { return folder_.path() / "measured/desk"; }

  /// A run that took `slowness` times what is predicted, everywhere.
  void record(const std::string& name, const std::vector<std::string>& changes, double slowness) {
    std::vector<std::string> overrides = changes;
    overrides.push_back("machine.profile=\"" + (runs() / "desk.json").string() + "\"");
    const Scenario scenario = read_scenario(folder_.path() / "s.toml", overrides);
    const Schedule schedule = make_schedule(scenario.policy_input());
    Timeline timeline = simulate(schedule, scenario.machine).timeline;
    timeline.source = TimelineSource::measured;
    for (OpTime& time : timeline.ops) {
      time.start *= slowness;
      time.end *= slowness;
    }
    const fs::path file = runs() / (name + ".json");
    write_recording(make_recording(scenario, overrides, schedule, timeline, "0123456789", file), file);
  }

  std::string error_of(const fs::path& folder) const {
    return error_text([&] { validate_folder(folder, {}); });
  }

  TemporaryFolder folder_;
};

TEST_F(ValidationTest, PredictsARecordingAnew) {
  // Everything took 1.25 times the prediction: it is (1 - 1.25) / 1.25 = 20 % too low, and the stall by its share.
  record("slow", {}, 1.25);
  const Rows rows = validate_folder(runs(), {});
  ASSERT_EQ(rows.recorded.size(), 1u);  // the profile beside it is not a recording
  const RecordedRow& row = rows.recorded[0];
  EXPECT_EQ(row.scenario, "slow");
  EXPECT_EQ(row.policy, "megatrain");
  EXPECT_TRUE(row.same_schedule);
  EXPECT_NEAR(row.signed_error, -0.2, 1e-9);
  EXPECT_NEAR(row.step_error, 0.2, 1e-9);
  EXPECT_GT(row.stall_seconds.predicted, 0);
  EXPECT_NEAR(row.stall_seconds.measured, 1.25 * row.stall_seconds.predicted, 1e-9);
  EXPECT_NEAR(row.stall_error, 0.25 * row.stall_seconds.predicted / row.step_seconds.measured, 1e-9);
  EXPECT_NEAR(row.spread, 0, 1e-9);
  ASSERT_EQ(row.tiers.size(), 2u);
  for (const TierComparison& tier : row.tiers) EXPECT_EQ(tier.peak_bytes.difference(), 0);
  ASSERT_TRUE(row.worst_op);
  ASSERT_TRUE(row.phase_seconds);
  for (const Pair& phase : *row.phase_seconds) {
    EXPECT_GT(phase.measured, 0);
    EXPECT_NEAR(phase.measured, 1.25 * phase.predicted, 2e-7);
  }
  EXPECT_NEAR(phase_errors({row}, Phase::backward).maximum, 0.2, 1e-4);                       // of what was measured
  EXPECT_NEAR(row.worst_op->seconds.measured, 1.25 * row.worst_op->seconds.predicted, 2e-9);  // kept in nanoseconds
}

TEST_F(ValidationTest, KnowsTheOverridesOfTheRun) {
  record("other", {"policy.name=zero3-offload", "policy.weight_buffers=3", "workload.sequences=8"}, 1);
  const RecordedRow row = validate_folder(runs(), {}).recorded.at(0);
  EXPECT_EQ(row.policy, "zero3-offload");
  EXPECT_EQ(row.sequences, 8);
  EXPECT_TRUE(row.same_schedule);
  EXPECT_NEAR(row.signed_error, 0, 1e-9);
}

TEST_F(ValidationTest, SaysWhenTheScheduleIsAnotherOne) {
  record("stale", {}, 1);
  const fs::path file = runs() / "stale.json";
  Recording recording = read_recording(file);
  recording.schedule_hash = "0000000000000000";
  write_recording(recording, file);
  const RecordedRow row = validate_folder(runs(), {}).recorded.at(0);
  EXPECT_FALSE(row.same_schedule);
  EXPECT_FALSE(row.worst_op);  // ops of two schedules have nothing to do with each other
}

TEST_F(ValidationTest, TheModelMayLieBesideTheRecording) {
  record("moved", {}, 1);
  const TemporaryFolder away;
  fs::create_directories(away.path() / "models");
  for (const char* file : {"moved.json", "desk.json"}) fs::copy_file(runs() / file, away.path() / file);
  fs::copy_file(folder_.path() / "models/tiny.json", away.path() / "tiny.json");  // not where the scenario says
  EXPECT_MENTIONS(error_of(away.path()),
                  "models/tiny.json is neither beside the recording nor in a folder above nor in the "
                  "catalogue; put it at " +
                      (away.path() / "models/tiny.json").string());
  fs::copy_file(folder_.path() / "models/tiny.json", away.path() / "models/tiny.json");
  const Rows rows = validate_folder(away.path(), {});
  ASSERT_EQ(rows.recorded.size(), 1u);  // neither the model nor the profile is taken for a recording
  EXPECT_EQ(rows.recorded[0].scenario, "moved");
  // What is none of the three is not passed over.
  away.write("schedule.json", "{\"format\": \"penstock-schedule/1\"}");
  EXPECT_MENTIONS(error_of(away.path()), "schedule.json.format: expected one of penstock-recording/1");
  away.write("schedule.json", "{\"vocab_size\": 5}");
  EXPECT_MENTIONS(error_of(away.path()), "schedule.json.format: is missing");
  away.write("schedule.json", "[]");
  EXPECT_MENTIONS(error_of(away.path()), "schedule.json: expected an object");
}

TEST_F(ValidationTest, WhatIsThereIsReadOrRefused) {
  EXPECT_NE(error_of(folder_.path() / "nowhere").find("cannot be listed"), std::string::npos);
  EXPECT_NE(error_of(runs()).find("nothing to validate"), std::string::npos);
  const fs::path plain = folder_.write("measured/desk/plain.toml",
                                       std::string("[model]\nconfig = \"../../models/tiny.json\"\n") +
                                           "[machine]\nhardware = \"../../hardware/desk.toml\"\n" +
                                           "[workload]\nsequence_length = 8\nsequences = 1\nmicro_batch = 1\n");
  EXPECT_NE(error_of(runs()).find("plain.toml: has no table [published]"), std::string::npos);
  fs::remove(plain);
  folder_.write("measured/desk/other.json", "{\"format\": \"penstock-timeline/1\"}");
  EXPECT_NE(error_of(runs()).find("penstock-recording/1"), std::string::npos);
}

TEST_F(ValidationTest, APublishedFigureIsHeldAgainstItsScenario) {
  folder_.write("published/a.toml",
                std::string("[model]\nconfig = \"../models/tiny.json\"\n") +
                    "[machine]\nhardware = \"../hardware/desk.toml\"\nhbm = \"1 MiB\"\n" +
                    "[workload]\nsequence_length = 64\nsequences = 4\nmicro_batch = 2\n" +
                    "[policy]\nname = \"megatrain\"\n" +
                    "[published]\nstep = \"2 s\"\nhbm = \"8 GiB\"\nfits = true\nsource = \"a paper\"\n");
  const Rows rows = validate_folder(folder_.path() / "published", {});
  ASSERT_EQ(rows.published.size(), 1u);
  const PublishedRow& row = rows.published[0];
  ASSERT_TRUE(row.step_seconds);
  EXPECT_EQ(row.step_seconds->measured, 2);
  EXPECT_DOUBLE_EQ(row.signed_error, row.step_seconds->predicted / 2 - 1);
  EXPECT_EQ(row.hbm_bytes->measured, 8.0 * (1 << 30));
  EXPECT_EQ(row.published_fits, true);
  EXPECT_FALSE(row.fits);  // predicted all the same, and said
  EXPECT_NE(row.excess.find("hbm needs"), std::string::npos);
}

RecordedRow row_of(double predicted, double measured, double spread, const char* model = "m") {
  RecordedRow row;
  row.model = model;
  row.step_seconds = {predicted, measured};
  row.step_error = std::abs(predicted - measured) / measured;
  row.spread = spread;
  return row;
}

TEST(RankCorrelation, CountsPairsOfOneWorkloadThatDifferByMoreThanTheirSpread) {
  // Measured 1.00, 1.01, 2, 3. The first two are 1 % apart, within the spread of 2 %: no pair. Of the other five, the
  // prediction has 2 and 3 the wrong way round: (4 - 1) / 5.
  const std::vector<RecordedRow> rows = {row_of(1.1, 1.00, 0.02), row_of(1.0, 1.01, 0.001), row_of(3.5, 2, 0),
                                         row_of(3, 3, 0), row_of(0.5, 10, 0, "another model")};
  const RankCorrelation order = rank_correlation(rows);
  EXPECT_EQ(order.pairs, 5);
  EXPECT_EQ(order.concordant, 4);
  EXPECT_EQ(order.discordant, 1);
  EXPECT_DOUBLE_EQ(order.tau(), 0.6);
}

TEST(RankCorrelation, EqualPredictionsDecideNothing) {
  const RankCorrelation order = rank_correlation({row_of(1, 1, 0), row_of(1, 2, 0)});
  EXPECT_EQ(order.pairs, 1);
  EXPECT_EQ(order.tau(), 0);
}

TEST(ErrorSummary, MeanMedianMaximum) {
  // 10, 50 and 0 %.
  std::vector<RecordedRow> rows = {row_of(0.9, 1, 0), row_of(3, 2, 0), row_of(4, 4, 0)};
  rows[1].scenario = "worst";
  const ErrorSummary errors = step_errors(rows);
  EXPECT_NEAR(errors.mean, 0.2, 1e-12);
  EXPECT_NEAR(errors.median, 0.1, 1e-12);
  EXPECT_NEAR(errors.maximum, 0.5, 1e-12);
  EXPECT_EQ(errors.worst, "worst");
}

}  // namespace
}  // namespace penstock::sim
