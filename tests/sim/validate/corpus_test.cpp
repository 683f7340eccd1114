// The recorded runs of the repository, predicted anew: no change of the simulator may make them worse than the
// thresholds of docs/validation.md, which were stated before anything was measured.
#include <gtest/gtest.h>

#include "shared/error.h"
#include "sim/validate/validation.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

constexpr double kMedianStep = 0.02, kMaximumStep = 0.06;
constexpr double kMedianStall = 0.02, kMaximumStall = 0.05;
constexpr double kTau = 0.95;

/// scenarios/measured/<machine>/*.json. Every machine answers for itself.
const fs::path kCorpus = fs::path(PENSTOCK_SOURCE_DIR) / "scenarios/measured";

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
    const ErrorSummary step = step_errors(rows), stall = stall_errors(rows);
    EXPECT_LE(step.median, kMedianStep);
    EXPECT_LE(step.maximum, kMaximumStep) << step.worst;
    EXPECT_LE(stall.median, kMedianStall);
    EXPECT_LE(stall.maximum, kMaximumStall) << stall.worst;
    if (const RankCorrelation order = rank_correlation(rows); order.pairs > 0) {
      EXPECT_GE(order.tau(), kTau);
    }
    for (const RecordedRow& row : rows)
      for (const TierComparison& tier : row.tiers)
        EXPECT_EQ(tier.peak_bytes.predicted, tier.peak_bytes.measured) << row.scenario;
  }
}

}  // namespace
}  // namespace penstock::sim
