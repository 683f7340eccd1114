// Predictions held against what was measured: every recording of a folder is simulated anew on the profile that
// belongs to it, every scenario that carries a published figure on its hardware file (docs/validation.md).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/compare/comparison.h"

namespace penstock::sim {

/// A recording and its prediction.
struct RecordedRow {
  std::string scenario;  // path below the folder, without extension
  std::string machine, model, policy;
  std::int64_t sequence_length = 0, sequences = 0;
  Pair step_seconds, stall_seconds;
  double signed_error = 0;  // of the step: (predicted - measured) / measured
  double step_error = 0;    // |signed_error|
  double stall_error = 0;   // |predicted - measured stall| / measured step
  double spread = 0;        // run-to-run, of the measured periods
  int periods = 0;
  std::vector<TierComparison> tiers;
  /// The policy still writes the schedule that was measured. If not, the prediction is of another one: record it anew.
  bool same_schedule = true;
  /// What contributes most to the error, where the schedule is the same.
  std::optional<OpError> worst_op;
  std::string worst_op_name;
};

/// A figure that somebody published, and the prediction of the same run.
struct PublishedRow {
  std::string scenario;
  std::string machine, model, policy, source, assumed;
  std::optional<Pair> step_seconds;  // measured = published
  double signed_error = 0;
  std::optional<Pair> hbm_bytes;
  std::optional<bool> published_fits;
  bool fits = true;
  std::string excess;  // what does not fit, for people
};

struct Rows {
  std::vector<RecordedRow> recorded;
  std::vector<PublishedRow> published;
};

/// All of a folder, subfolders included, sorted by path. `progress` hears the name of each before it is simulated.
/// Throws InputError: no such folder, nothing in it, a file that is neither recording, profile nor scenario with
/// [published], or a recording that cannot be predicted (another model, a missing profile).
Rows validate_folder(const std::filesystem::path& folder, const std::function<void(const std::string&)>& progress);

struct ErrorSummary {
  double mean = 0, median = 0, maximum = 0;
  std::string worst;  // the row with the maximum
};
ErrorSummary step_errors(const std::vector<RecordedRow>& rows);
ErrorSummary stall_errors(const std::vector<RecordedRow>& rows);
/// Of the rows with a published step time; the caller leaves out what it does not want.
ErrorSummary published_errors(const std::vector<PublishedRow>& rows);

/// Does the prediction put policies in the order that was measured? Kendall's tau, (concordant - discordant) / pairs,
/// over pairs of one workload (model, sequence length, sequences per step) whose measured steps differ by more than the
/// larger spread of the two. A pair predicted as equal is neither concordant nor discordant.
struct RankCorrelation {
  int pairs = 0, concordant = 0, discordant = 0;
  double tau() const { return pairs == 0 ? 0 : static_cast<double>(concordant - discordant) / pairs; }
};
RankCorrelation rank_correlation(const std::vector<RecordedRow>& rows);

}  // namespace penstock::sim
