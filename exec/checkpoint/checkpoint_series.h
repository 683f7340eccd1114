// The checkpoints that one run saves every so many steps: FOLDER/step-N, each whole or not at all as save_target.h has
// it. FOLDER/steps.lock is held by the run that saves there. Nothing in FOLDER is touched but what has these names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/folder_lock.h"
#include "exec/checkpoint/save_target.h"
#include "shared/file_calls.h"

namespace penstock::exec {

struct FoundCheckpoint {
  std::filesystem::path folder;  // FOLDER/step-N
  std::int64_t step = 0;
};

/// The newest one in `folder` that is whole; nothing if there is none, or no folder. `passed_over` gets a sentence for
/// each newer one that is not.
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder,
                                                 std::vector<std::string>& passed_over);

class CheckpointSeries {
 public:
  /// Makes the folder if need be, takes its lock, and takes up what a killed run left. Throws InputError if it cannot
  /// be saved to.
  CheckpointSeries(const std::filesystem::path& folder, int keep, FileCalls& calls = system_calls());
  /// Removes the folder again if it was made and nothing was saved.
  ~CheckpointSeries();
  CheckpointSeries(const CheckpointSeries&) = delete;
  CheckpointSeries& operator=(const CheckpointSeries&) = delete;

  const std::vector<std::string>& notes() const { return notes_; }
  std::filesystem::path folder_of(std::int64_t step) const;

  /// Throws InputError if there is one of a later step: it is of another run, or of what this one leaves behind.
  void require_none_after(std::int64_t step) const;
  std::unique_ptr<SaveTarget> target(std::int64_t step) const;
  /// Of those up to `newest`, which was saved just now: removes all but the newest ones, and what was half removed.
  /// What cannot be removed is left.
  void remove_old(std::int64_t newest) const noexcept;

 private:
  void take_up_rests();

  std::filesystem::path folder_;
  int keep_;
  FileCalls& calls_;
  bool made_ = false;
  std::optional<FolderLock> lock_;
  std::vector<std::string> notes_;
};

}  // namespace penstock::exec
