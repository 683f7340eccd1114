// The recorded runs of the repository, predicted anew: no change of the simulator may make them worse. The bounds are
// the thresholds of docs/validation.md, which were stated before anything was measured. A run whose own steps differ by
// more than a maximum allows is held to that spread instead: docs/validation.md explains each of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "shared/ir/memory.h"
#include "shared/scenario/scenario.h"
#include "sim/validate/error_bar.h"
#include "sim/validate/validation.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

struct Thresholds {
  double median_step, maximum_step, median_stall, maximum_stall;
};
constexpr Thresholds kThresholds{0.02, kProfileError, 0.02, 0.05};
/// Of folders whose names end in "-drive". Of the stall 3 % were asked for; a virtual disk's rate changes by 15 % in
/// minutes.
constexpr Thresholds kWithDrive{0.05, 0.10, 0.065, 0.03};
constexpr double kTau = 0.95;
/// Explained in docs/validation.md.
const std::vector<std::string> kUnsteady{"2026-11-29/0.5b-16x1024-zero3-offload",
                                         "2026-11-29/3b-32x1024-zero3-offload"};
/// Further off than a maximum and than their own spread: the disk was slower than when it was calibrated
/// (docs/executor.md, "With a drive").
const std::vector<std::string> kSlowerDisk{"2026-11-30/3b-32x1024-states-100", "2026-11-30/7b-16x1024-at-once",
                                           "2026-11-30/7b-64x1024-at-once", "2026-11-30/7b-64x1024-by-turns"};

/// scenarios/measured/<machine>/*.json. Every machine answers for itself.
const fs::path kScenarios = source_folder() / "scenarios";
const fs::path kCorpus = source_folder() / "scenarios/measured";

std::vector<fs::path> machines() {
  std::error_code none;
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(kCorpus, none))
    if (entry.is_directory() && !fs::is_empty(entry.path())) folders.push_back(entry.path());
  return folders;
}

TEST(Corpus, IsPredictedWithinTheThresholds) {
  const std::vector<fs::path> folders = machines();
  if (folders.empty())
    GTEST_SKIP() << kCorpus << " has no recordings: `penstock-exec run --record` on the machine makes them";
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.string());
    const std::vector<RecordedRow> rows = validate_folder(folder, {}).recorded;
    const bool with_drive = folder.filename().string().ends_with("-drive");
    const Thresholds& most = with_drive ? kWithDrive : kThresholds;
    EXPECT_LE(step_errors(rows).median, most.median_step);
    EXPECT_LE(stall_errors(rows).median, most.median_stall);
    std::vector<std::string> unsteady, missed;
    for (const RecordedRow& row : rows) {
      const bool within = row.step_error <= most.maximum_step && row.stall_error <= most.maximum_stall;
      const bool within_spread = row.step_error <= std::max(most.maximum_step, row.spread) &&
                                 row.stall_error <= std::max(most.maximum_stall, row.spread);
      if (!within_spread)
        missed.push_back(row.scenario);
      else if (!within)
        unsteady.push_back(row.scenario);
    }
    EXPECT_EQ(missed, folder.filename() == "h200-drive" ? kSlowerDisk : std::vector<std::string>{});
    if (folder.filename() == "h200") {
      EXPECT_EQ(unsteady, kUnsteady);
    }
    // With a drive one policy was run with more and less on it, not several policies.
    if (const RankCorrelation order = rank_correlation(rows); order.pairs > 0 && !with_drive) {
      EXPECT_GE(order.tau(), kTau);
    }
    for (const RecordedRow& row : rows) {
      if (!row.same_schedule) continue;  // the peaks are of the schedule that ran
      for (const TierComparison& tier : row.tiers)
        EXPECT_EQ(tier.peak_bytes.predicted, tier.peak_bytes.measured) << row.scenario;
    }
  }
}

// What the H200's hardware file says alone of the runs that were recorded on such a machine.
TEST(Corpus, TheHardwareFileAloneIsWithinEightPercent) {
  const Rows rows = validate_folder(kCorpus / "h200", {}, kScenarios / "hardware/h200-sxm-pcie5.toml");
  ASSERT_GE(rows.recorded.size(), 18u);
  EXPECT_LE(step_errors(rows.recorded).maximum, 0.08) << step_errors(rows.recorded).worst;
  EXPECT_GE(rank_correlation(rows.recorded).tau(), 0.95);
}

// Rows of ml_dataflow that no rate was made from: every second workload of four cards.
TEST(Published, RowsThatNoFileWasMadeFromAreMet) {
  const std::vector<PublishedRow> rows = validate_folder(kScenarios / "published", {}).published;
  EXPECT_GE(rows.size(), 300u);
  const std::vector<GroupErrors> groups =
      group_errors(rows, [](const PublishedRow& row) { return row.system == "ml_dataflow" && !row.calibrates; });
  ASSERT_EQ(groups.size(), 4u);
  int tests = 0;
  for (const GroupErrors& group : groups) {
    tests += group.rows;
    EXPECT_LE(group.mean, 0.06) << group.machine;
    EXPECT_LE(group.ninth_decile, 0.12) << group.machine;
    EXPECT_LE(group.maximum, 0.25) << group.machine;
    EXPECT_GE(group.tau, 0.9) << group.machine;
    EXPECT_GE(group.in_range, 0.95 * group.rows) << group.machine;
  }
  EXPECT_EQ(tests, 364);
  // Published: 871.4 s for 524 288 tokens, nearly all of it attention.
  const auto long_row = std::find_if(
      rows.begin(), rows.end(), [](const PublishedRow& row) { return row.scenario == "08-megatrain-7b-512k-gh200"; });
  ASSERT_NE(long_row, rows.end());
  EXPECT_LE(std::abs(long_row->signed_error), 0.15);
}

// Rows of other systems than ml_dataflow.
TEST(Published, OtherSystemsAreMet) {
  const auto tests = [](const PublishedRow& row) { return row.assumed.empty() && !row.calibrates; };
  std::map<std::string, std::vector<double>> systems, by_convention;
  std::vector<double> others;
  int rows = 0, in_range = 0;
  for (const PublishedRow& row : validate_folder(kScenarios / "published", {}).published) {
    if (!row.step_seconds) continue;
    if (row.system != "ml_dataflow") ++rows;
    if (!tests(row)) continue;
    if (row.rates == RateClass::convention) {
      by_convention[row.system].push_back(std::abs(row.signed_error));
      continue;
    }
    systems[row.system].push_back(std::abs(row.signed_error));
    if (row.system == "ml_dataflow") continue;
    others.push_back(std::abs(row.signed_error));
    in_range += row.step_range.low <= row.step_seconds->measured && row.step_seconds->measured <= row.step_range.high;
  }
  EXPECT_GE(rows, 60);
  EXPECT_GE(others.size(), 60u);
  EXPECT_GE(systems.size(), 6u);
  const auto mean_of = [](const std::map<std::string, std::vector<double>>& of) {
    double mean = 0;
    for (const auto& [system, errors] : of)
      mean += std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size() * of.size());
    return mean;
  };
  EXPECT_LE(mean_of(systems), 0.06);
  EXPECT_FALSE(by_convention.empty());
  EXPECT_LE(mean_of(by_convention), 0.15);
  std::sort(others.begin(), others.end());
  EXPECT_LE(others[(9 * others.size() + 9) / 10 - 1], 0.12);
  EXPECT_LE(others.back(), 0.25);
  EXPECT_GE(in_range, 0.95 * static_cast<double>(others.size()));
}

// Met, with what the systems' code adds: 32B under ZeRO-3 and 84 layers under FSDP2 are out of memory, 120B at
// MegaTrain's 12 B/param fits. The misses are those that docs/validation.md explains.
TEST(Published, CapacityIsAnsweredAsPublishedButForTheMissesThatAreExplained) {
  std::vector<std::string> missed;
  for (const PublishedRow& row : validate_folder(kScenarios / "published", {}).published)
    if (row.table.empty() && row.published_fits && *row.published_fits != row.fits) missed.push_back(row.scenario);
  EXPECT_EQ(missed, (std::vector<std::string>{"05-megatrain-180-layers-gh200", "05-zero3-084-layers-gh200"}));
}

// "7B, ZeRO-3 offload, A100 40 GB, 94 GB of RAM": 20 B/param, 152 GB, do not fit, and 14 B/param, 107 GB, are already
// there at load.
TEST(Capacity, SevenBillionUnderZero3NeedMoreThanNinetyFourGigabytes) {
  const Scenario scenario = read_scenario(
      kScenarios / "qwen2.5-7b-h200.toml",
      {"policy.name=zero3-offload", "workload.sequences=1", "workload.micro_batch=1", "run.deterministic=false"});
  const double parameters = static_cast<double>(scenario.model.parameters);
  int drams = 0;
  for (const TierMemory& tier : schedule_memory(make_schedule(scenario.policy_input()))) {
    if (tier.tier.kind != TierKind::dram) continue;
    ++drams;
    EXPECT_NEAR(static_cast<double>(tier.arena_bytes) / parameters, 20, 0.01);
    EXPECT_NEAR(static_cast<double>(tier.phase_bytes[static_cast<std::size_t>(MemoryPhase::load)]) / parameters, 14,
                0.01);
  }
  EXPECT_EQ(drams, 1);
}

}  // namespace
}  // namespace penstock::sim
