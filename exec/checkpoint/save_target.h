// Where a checkpoint is saved: a folder that is replaced as a whole, by one run at a time.
//
// Before training everything is tried that the save will need: the lock, making files beside the folder, taking the
// folder's name away from it, room for the bytes. At every moment of a save, and whatever ends it, a finished
// checkpoint stands at FOLDER, or at FOLDER.new while FOLDER is not there (find_checkpoint):
//
//   1. write FOLDER.partial, sync it, rename it to FOLDER.new
//   2. exchange FOLDER.new and FOLDER, sync, remove FOLDER.new, which is the old one now; or, where the file system
//      cannot exchange: rename FOLDER to FOLDER.previous and FOLDER.new to FOLDER, sync, remove FOLDER.previous
//
// What a save that was cut off left is taken up by the next one: what was finished is put in its place, what was not is
// removed. That there was one is told by FOLDER.lock, which it left too, and which of two checkpoints is the later one
// by run.json, which says which run.json it is to replace. Anything else of these names is somebody's: in the way, and
// never touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint_names.h"
#include "exec/checkpoint/folder_lock.h"
#include "shared/file_calls.h"

namespace penstock::exec {

/// What tells a checkpoint goes first, so that what is half removed is none. Nothing but a checkpoint's files is
/// removed, and the folder if nothing else is in it. What cannot be removed is left.
void remove_checkpoint(const std::filesystem::path& folder, FileCalls& calls) noexcept;

class SaveTarget {
 public:
  /// Takes the lock and takes up what is left of an earlier save. Throws InputError if the folder cannot be saved to,
  /// with what would be right.
  explicit SaveTarget(const std::filesystem::path& given, FileCalls& calls = system_calls());
  ~SaveTarget();
  SaveTarget(const SaveTarget&) = delete;
  SaveTarget& operator=(const SaveTarget&) = delete;

  const CheckpointNames& names() const { return names_; }
  FileCalls& calls() const { return calls_; }
  /// What people should know of what was found and done, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Throws DoesNotFit unless files of these sizes can be written beside what is there (folder_room.h).
  void require_room(std::span<const std::int64_t> file_bytes) const;

  /// An empty folder to write into. Throws std::runtime_error.
  std::filesystem::path begin();
  /// CheckpointRecord::replaces of what will be written.
  std::string replaces() const;
  /// What was written is whole: it is never removed from now on. Puts it in the folder's place. Throws
  /// std::runtime_error that says where it is instead, and what stands at the folder.
  void put_in_place();
  /// It will not be whole.
  void abandon() noexcept;

 private:
  void require_place() const;
  void require_own(const std::filesystem::path& other) const;
  void take_up_partial();
  void take_up_finished();
  bool is_on_its_way(const std::filesystem::path& finished) const;
  bool was_replaced(const std::filesystem::path& old) const;
  void probe();
  int try_to_take(const std::filesystem::path& folder, const std::filesystem::path& scratch) const;
  void require_removed(const std::filesystem::path& folder) const;
  void require_previous();

  std::filesystem::path take_place() const;
  void make_folder(const std::filesystem::path& folder) const;
  void sync(const std::filesystem::path& folder) const;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) const;
  void remove(const std::filesystem::path& folder) const noexcept;

  FileCalls& calls_;
  CheckpointNames names_;
  std::vector<std::string> notes_;
  FolderLock lock_;
  bool can_exchange_ = false;
};

}  // namespace penstock::exec
