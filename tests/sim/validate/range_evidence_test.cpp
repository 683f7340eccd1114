#include "sim/validate/range_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

const std::filesystem::path kScenarios = source_folder() / "scenarios";

void add(std::vector<Miss>& misses, const std::string& system, const std::string& machine,
         const std::vector<double>& errors, RateClass rates = RateClass::inferred) {
  for (const double error : errors) misses.push_back({system, machine, rates, error, {-0.1, 0.1}});
}

// Forty rows: one may lie outside on either side. The second lowest is -4.2 %, so -5; the second highest +2, so +2.
TEST(RangeEvidence, AFortiethOfTheRowsMayLieOutsideOnEitherSide) {
  std::vector<Miss> misses;
  add(misses, "a", "m", std::vector<double>(36, 0.01));
  add(misses, "a", "m", {-0.3, -0.042, 0.02, 0.25});
  add(misses, "b", "m", {0.001});
  const std::vector<RangeEvidence> files = file_evidence(misses);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].rows, 41);
  EXPECT_EQ(files[0].systems, 2);
  EXPECT_EQ(files[0].inside, 39);  // within 10 %
  EXPECT_DOUBLE_EQ(files[0].needed.low, -0.05);
  EXPECT_DOUBLE_EQ(files[0].needed.high, 0.02);
  EXPECT_TRUE(files[0].holds());
}

// Thirty-nine: none may, so that the outermost decide.
TEST(RangeEvidence, OfFewRowsNoneMay) {
  std::vector<Miss> misses;
  add(misses, "a", "m", std::vector<double>(37, 0.01));
  add(misses, "a", "m", {-0.3, 0.25});
  add(misses, "b", "m", {-0.02});
  const RangeEvidence file = file_evidence(misses).at(0);
  EXPECT_DOUBLE_EQ(file.needed.low, -0.3);
  EXPECT_DOUBLE_EQ(file.needed.high, 0.25);
  EXPECT_FALSE(file.holds());
}

TEST(RangeEvidence, AFileOfOneSystemIsNotKnownToBeBetterThanItsClass) {
  std::vector<Miss> misses;
  add(misses, "a", "m", std::vector<double>(10, 0.01));
  add(misses, "b", "n", {-0.2, 0.12});  // too few for a range of their own
  const std::vector<RangeEvidence> files = file_evidence(misses);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].machine, "m");
  EXPECT_DOUBLE_EQ(files[0].needed.low, -0.2);
  EXPECT_DOUBLE_EQ(files[0].needed.high, 0.12);
}

// Two groups: each row of the small one is a quarter of all, each of the large one 1 / 200. At -30 % lies one
// hundredth, which may be outside.
TEST(RangeEvidence, InAClassGroupsCountAlikeHoweverManyRowsTheyHave) {
  std::vector<Miss> misses;
  add(misses, "a", "m", std::vector<double>(98, 0.0));
  add(misses, "a", "m", {-0.3, -0.3});
  add(misses, "b", "n", {-0.07, 0.03});
  add(misses, "c", "o", {0.9}, RateClass::convention);
  const RangeEvidence evidence = class_evidence(misses, RateClass::inferred);
  EXPECT_EQ(evidence.rows, 102);
  EXPECT_EQ(evidence.systems, 2);
  EXPECT_DOUBLE_EQ(evidence.needed.low, -0.07);
  EXPECT_DOUBLE_EQ(evidence.needed.high, 0.03);
  EXPECT_DOUBLE_EQ(evidence.printed.high, kInferredRange.high);
}

/// Rows of all systems, and our own runs on an H200 from its hardware file.
std::vector<Miss> shipped() {
  std::vector<Miss> misses = misses_of(validate_folder(kScenarios / "published", {}).published);
  const Rows own = validate_folder(kScenarios / "measured/h200", {}, kScenarios / "hardware/h200-sxm-pcie5.toml");
  for (const Miss& miss : misses_of(own.recorded)) misses.push_back(miss);
  return misses;
}

// What hardware files and classes state is what their rows need: neither too narrow nor, by more than two per cent,
// too wide. And 95 % of all rows lie inside.
TEST(PublishedRange, IsWhatTheRowsNeed) {
  const std::vector<Miss> misses = shipped();
  std::vector<RangeEvidence> all = file_evidence(misses);
  EXPECT_GE(all.size(), 7u);
  for (const RateClass rates : {RateClass::measured, RateClass::inferred}) all.push_back(class_evidence(misses, rates));
  constexpr double kWider = 0.0201;
  for (const RangeEvidence& evidence : all) {
    SCOPED_TRACE(evidence.machine);
    EXPECT_LE(evidence.printed.low, evidence.needed.low);
    EXPECT_GE(evidence.printed.high, evidence.needed.high);
    EXPECT_GE(evidence.printed.low, evidence.needed.low - kWider);
    EXPECT_LE(evidence.printed.high, evidence.needed.high + kWider);
  }
  ASSERT_GE(misses.size(), 400u);
  const auto inside = [](const Miss& miss) {
    return miss.printed.low <= miss.error && miss.error <= miss.printed.high;
  };
  const auto count = std::count_if(misses.begin(), misses.end(), inside);
  EXPECT_GE(static_cast<double>(count), 0.95 * static_cast<double>(misses.size()));
}

// Recorded runs from their own profile.
TEST(RecordedRange, HoldsTheRunsOfAProfile) {
  const std::vector<RecordedRow> rows = validate_folder(kScenarios / "measured/h200", {}).recorded;
  ASSERT_GE(rows.size(), 18u);
  for (const RecordedRow& row : rows) {
    EXPECT_GE(row.signed_error, kProfileRange.low) << row.scenario;
    EXPECT_LE(row.signed_error, kProfileRange.high) << row.scenario;
    EXPECT_EQ(row.printed.low, kProfileRange.low);
  }
}

}  // namespace
}  // namespace penstock::sim
