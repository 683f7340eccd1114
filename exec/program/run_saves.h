// Where a run saves, and when: to one folder at its end, or every so many steps and at its end to one folder each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint_series.h"
#include "exec/checkpoint/run_description.h"
#include "exec/checkpoint/save_target.h"
#include "exec/training/training.h"
#include "shared/scenario/training_options.h"

namespace penstock::exec {

class RunSaves {
 public:
  /// Throws InputError if `folder` cannot be saved to.
  RunSaves(const std::filesystem::path& folder, const CheckpointOptions& options);

  /// What people should know of what was found and done, a sentence each.
  const std::vector<std::string>& notes() const;

  /// Of a run whose first step comes after `step`, where its first checkpoint has files of these sizes. Throws
  /// InputError if later ones are there already, DoesNotFit if there is no room for it.
  void require_place(std::int64_t step, std::int64_t steps, std::span<const std::int64_t> file_bytes) const;

  /// How many steps are trained after `step`, of `left` that are, before there is something to save.
  std::int64_t steps_to_save(std::int64_t step, std::int64_t left) const;

  /// Nothing if that step is saved already, else where it is now. Throws std::runtime_error or InputError; what was
  /// saved before stays.
  std::optional<std::filesystem::path> save(const Training& training, const RunDescription& description,
                                            const Schedule& schedule, const Model& model);

  /// The last step that is saved, since the run began.
  std::optional<std::int64_t> saved() const { return saved_; }

 private:
  std::filesystem::path folder_;
  std::int64_t every_;
  std::unique_ptr<SaveTarget> target_;        // at the end alone
  std::unique_ptr<CheckpointSeries> series_;  // or these
  std::optional<std::int64_t> saved_;
};

}  // namespace penstock::exec
