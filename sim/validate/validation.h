// Predictions held against what was measured: every recording of a folder is simulated anew on the profile that
// belongs to it, every scenario that carries a published figure on its hardware file (docs/validation.md).
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/compare/comparison.h"
#include "shared/ir/memory.h"
#include "shared/machine/machine.h"
#include "shared/scenario/scenario.h"
#include "sim/validate/error_bar.h"
#include "sim/validate/row_table.h"

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
  RateClass rates = RateClass::measured;  // of the hardware file, or a profile's
  ErrorRange printed;                     // the range beside such a prediction
  std::vector<TierComparison> tiers;
  /// The policy still writes the schedule that was measured. If not, the prediction is of another one: record it anew.
  bool same_schedule = true;
  /// By Phase: sum of the median seconds of templates, and of updates by the optimizer. Where the schedule is the same.
  std::optional<std::array<Pair, 4>> phase_seconds;
  /// What contributes most to the error, where the schedule is the same.
  std::optional<OpError> worst_op;
  std::string worst_op_name;
};

/// A figure that somebody published, and the prediction of the same run.
struct PublishedRow {
  std::string scenario;
  std::string machine, model, policy, source, assumed;
  std::string system;       // whose program ran; the policy's name where nothing else is said
  std::string table;        // base scenario of the table that it is a row of; empty: a scenario of its own
  bool calibrates = false;  // a file that it is predicted from was made from it
  RateClass rates = RateClass::convention;  // of the hardware file
  std::int64_t sequence_length = 0;
  ErrorRange printed;                // the range beside the prediction
  Range step_range;                  // which it makes of the step
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

/// All of a folder, subfolders included, sorted by path; of a scenario with [published] rows every row of that table.
/// `hardware`, if not empty, takes the place of the profiles of recordings. `progress` hears the name of each file
/// before it is simulated.
/// Throws InputError: no such folder, nothing in it, a file that is neither recording, profile, model nor scenario with
/// [published], or a recording that cannot be predicted (another model, a missing profile).
Rows validate_folder(const std::filesystem::path& folder, const std::function<void(const std::string&)>& progress,
                     const std::filesystem::path& hardware = {});

/// What the parts of validate_folder say of one published scenario. REQUIRES: scenario.published.
/// Whose program ran: [published] system, or the policy's name.
std::string published_system(const Scenario& scenario);
/// What does not fit of a schedule with this memory, with what the system's own code adds where that is known.
std::string published_excess(const Scenario& scenario, const std::vector<TierMemory>& memory);
/// A row of the table that `base` names. Throws InputError with table and row.
Scenario read_table_row(const std::filesystem::path& base, const std::filesystem::path& table, const TableRow& row);
/// Scenarios of the folder, sorted. Throws InputError: none, or one without [published].
std::vector<std::filesystem::path> published_files(const std::filesystem::path& folder);

struct ErrorSummary {
  double mean = 0, median = 0, maximum = 0;
  std::string worst;  // the row with the maximum
};
ErrorSummary step_errors(const std::vector<RecordedRow>& rows);
ErrorSummary stall_errors(const std::vector<RecordedRow>& rows);
/// |difference| of a phase over what the phase itself took, in rows where it took kNotablePhase of the step.
ErrorSummary phase_errors(const std::vector<RecordedRow>& rows, Phase phase);
inline constexpr double kNotablePhase = 0.01;
/// Of the rows with a published step time; the caller leaves out what it does not want.
ErrorSummary published_errors(const std::vector<PublishedRow>& rows);

/// Rows with a published step of one system on one machine.
struct GroupErrors {
  std::string system, machine;
  RateClass rates = RateClass::convention;
  int rows = 0;
  double mean_signed = 0, mean = 0, ninth_decile = 0, maximum = 0;  // of |error|: nine tenths are no larger
  int in_range = 0;                                                 // measured steps inside the printed range
  double tau =
      1;          // order of the steps within a workload (machine, model, length), mean over workloads weighed by pairs
  int pairs = 0;  // whose measured steps differ by more than kOrderNoise
};
/// By system and machine, in order; `wanted` picks the rows.
std::vector<GroupErrors> group_errors(const std::vector<PublishedRow>& rows,
                                      const std::function<bool(const PublishedRow&)>& wanted);
/// The same configuration measured twice differs by 1.5 % (four pairs of ml_dataflow's rows on an H200).
inline constexpr double kOrderNoise = 0.015;

/// Does the prediction put policies in the order that was measured? Kendall's tau, (concordant - discordant) / pairs,
/// over pairs of one workload (model, sequence length, sequences per step) whose measured steps differ by more than the
/// larger spread of the two. A pair predicted as equal is neither concordant nor discordant.
struct RankCorrelation {
  int pairs = 0, concordant = 0, discordant = 0;
  double tau() const { return pairs == 0 ? 0 : static_cast<double>(concordant - discordant) / pairs; }
};
RankCorrelation rank_correlation(const std::vector<RecordedRow>& rows);

}  // namespace penstock::sim
