// Where a run saves, and when: to one folder at its end, or every so many steps and at its end to one folder each.
//
// Between steps training does not wait for the disk. Where there is memory for a copy of the states (set_aside), it waits
// while they are copied, and a thread writes the copy while the next steps are trained. Else the thread writes the states
// themselves, layer by layer in the order in which they are updated, and no layer is updated before it has been written
// (exec/runtime/update_gates.h); those on the GPU are written before training goes on. One checkpoint is written at a
// time. A run that is killed meanwhile leaves what one leaves that is killed in any save.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/checkpoint_series.h"
#include "exec/checkpoint/run_description.h"
#include "exec/checkpoint/save_target.h"
#include "exec/checkpoint/state_snapshot.h"
#include "exec/checkpoint/state_updates.h"
#include "exec/runtime/update_gates.h"
#include "exec/training/training.h"
#include "shared/scenario/training_options.h"

namespace penstock::exec {

/// One save between steps, as it went.
struct SaveTimes {
  std::int64_t step = 0;
  std::int64_t bytes = 0;     // of its files
  bool copied = false;        // first; else layers were written before they were updated
  double stall_seconds = 0;   // training waited: for the copy, or for what lies on the GPU and then before updates
  double waited_seconds = 0;  // of that, for the checkpoint before, which was still being written
  double write_seconds = 0;
};

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

  /// Whether something is saved between steps after this one.
  bool is_due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }

  /// Takes memory for a copy of the states if at most `room_bytes` hold it and something is saved between steps; else
  /// lets the training's updates wait at gates().
  void set_aside(Training& training, std::int64_t room_bytes);
  /// For the executor; nullptr: updates wait for nothing.
  UpdateGates* gates() { return gates_.get(); }
  std::int64_t set_aside_bytes() const { return snapshot_ ? snapshot_->bytes() : 0; }
  /// Bytes/s at which a small part of a checkpoint of `file_bytes` is written where the first one will be, synced; what
  /// was written is removed. 0 if it cannot be.
  double write_rate(std::int64_t step, std::int64_t steps, std::int64_t file_bytes) const;
  /// What a save between steps makes training wait for, as expected before the first one; rates in bytes/s, 0: not known.
  struct Expected {
    std::int64_t file_bytes = 0;
    double copy_rate = 0, write_rate = 0;
    std::vector<double> update_seconds;  // by layer: when a step first updates it, predicted; none: not known
  };
  /// REQUIRES: set_aside was called.
  void expect(Expected expected) { expected_ = std::move(expected); }
  /// In words, a line. REQUIRES: expect was called.
  std::string expectation() const;
  /// Seconds; 0 where rates or steps are not known.
  double expected_stall() const;
  double expected_write() const;

  /// Between steps: copies the states and begins to write the copy, or writes them. REQUIRES: set_aside was
  /// called, nothing is being written. Throws if they cannot be copied; nothing was begun then. Whether they could be written, `finish` says.
  void begin(const Training& training, const RunDescription& description);
  /// Waits for what is being written. Where the last one that began is; nothing if none did since the last call. Throws
  /// std::runtime_error that says why it is not saved.
  std::optional<std::filesystem::path> finish();
  /// The step of what `finish` waits for; nothing if there is none.
  std::optional<std::int64_t> being_written() const;

  /// At the end. Nothing if that step is saved already, else where it is now. Throws std::runtime_error or InputError;
  /// what was saved before stays. REQUIRES: nothing is being written.
  std::optional<std::filesystem::path> save(const Training& training, const RunDescription& description);

  /// The last step that is saved, since the run began.
  std::optional<std::int64_t> saved() const { return saved_; }
  /// Those between steps that are finished.
  const std::vector<SaveTimes>& times() const { return times_; }

 private:
  std::filesystem::path write(const CheckpointInfo& info, const Training& training, const StateReader& states,
                              const std::function<void(int layer)>& has_read);
  void begin_writing(const CheckpointInfo& info, const Training& training, const StateReader& states);

  std::filesystem::path folder_;
  std::int64_t every_;
  bool copies_;
  std::unique_ptr<SaveTarget> target_;        // at the end alone
  std::unique_ptr<CheckpointSeries> series_;  // or these
  std::optional<std::int64_t> saved_;
  std::vector<SaveTimes> times_;
  double waited_seconds_ = 0;  // in the last finish()
  Expected expected_;
  std::int64_t snapshot_bytes_ = 0;           // of all states
  std::unique_ptr<StateSnapshot> snapshot_;   // nullptr: there is no room, or nothing is saved between steps
  std::unique_ptr<UpdateGates> gates_;        // instead of it
  StateUpdates updates_;                      // with gates_
  std::vector<std::int64_t> layer_elements_;  // with gates_: of each layer's states
  // Of the one that began, until finish() is called; the thread writes to it until it is joined.
  struct Begun {
    SaveTimes times;
    std::filesystem::path folder;
    std::exception_ptr error;
  };
  std::optional<Begun> begun_;
  std::jthread writer_;  // last: it is joined first
};

}  // namespace penstock::exec
