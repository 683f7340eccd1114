// One run at a time saves to a folder: an exclusive lock on a file beside it, which says whose it is. It ends with the
// process, however that ends. A file that is left without its lock says that a save was cut off.
#pragma once

#include <filesystem>
#include <string>

#include "shared/file_calls.h"

namespace penstock::exec {

class FolderLock {
 public:
  /// `file`: of the lock; `folder`: what it is for, in messages. Throws InputError if another process holds it (with
  /// who), if the file cannot be made, or if there is a file of that name which is not a lock.
  FolderLock(const std::filesystem::path& file, const std::filesystem::path& folder, FileCalls& calls);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// An earlier holder left its file: it was killed, or called `leave`.
  bool was_left() const { return was_left_; }
  /// Leaves the file, for the next one to see.
  void leave() { leaves_ = true; }

 private:
  bool take();
  std::string owner() const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::filesystem::path file_, folder_;
  FileCalls& calls_;
  int descriptor_ = -1;
  bool was_left_ = false;
  bool leaves_ = false;
};

}  // namespace penstock::exec
