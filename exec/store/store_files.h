// The files of a store: one in each folder that it was given, made before anything is trained and gone with the run,
// also where the process ends by std::quick_exit: whoever ends a run at once ends it so, and never by std::_Exit.
//
// What lies in them changes while training, so that a run that is killed leaves states that are of no step. Nothing is
// ever resumed from them: a checkpoint is a copy. A header says whose they are:
//
//   penstock-store/1
//   file 0 of 2
//   schedule 5f0c…            that the layout is of
//   process 4711 on desktop   that holds the lock, or held it
//   from step 12 of ck        what its states began as; they are of no checkpoint
//
// padded with zeros to 4096 bytes, and written and synced before the first state is. The data begin at kDataOffset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace penstock::exec {

inline constexpr const char* kStoreName = "penstock.store";
inline constexpr std::int64_t kDataOffset = std::int64_t{1} << 20;  // so that transfers lie as drives like them

struct StorePlace {
  std::vector<std::filesystem::path> folders;
  std::string key = "machine.nvme_path";  // where they were given, in messages
  std::string schedule;                   // hash; the store of another schedule is refused ...
  bool resumed = false;                   // ... but by a run that goes on from a checkpoint: it needs nothing of it
  std::string from;                       // for people: what the states begin as
  bool named = true;                      // false: the file has no name once it is made, and goes with the process
  bool direct = true;                     // false: tests, where the file system does no direct I/O or is in memory
};

/// For measuring: a file without a name, of no run. `key`: where the folder was given.
StorePlace measuring_place(const std::filesystem::path& folder, const std::string& key);

class StoreFiles {
 public:
  /// Takes `bytes` in each of the folders. Throws InputError with a sentence: a folder that is missing, is none, cannot
  /// be written, lies in memory or on a file system without direct I/O, is in use by another run, or has the store of
  /// another schedule or another file of that name; DoesNotFit if the drive is too small. What it made until then is
  /// removed.
  StoreFiles(const StorePlace& place, std::int64_t bytes);
  /// Removes the files.
  ~StoreFiles();
  StoreFiles(StoreFiles&&) noexcept;
  StoreFiles& operator=(StoreFiles&&) = delete;

  std::size_t count() const { return files_.size(); }
  int descriptor(std::size_t file) const { return files_[file].descriptor; }
  const std::filesystem::path& path(std::size_t file) const { return files_[file].path; }
  /// What was found and is to be said: a store that a run left which was killed, folders on one file system.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct File {
    std::filesystem::path path;
    int descriptor = -1;
  };
  void take(const StorePlace& place, std::size_t index, std::int64_t bytes);
  void release();

  std::vector<File> files_;
  std::vector<std::string> notes_;
};

/// What else the run will write: to a file or folder that need not be there yet.
struct WrittenBeside {
  std::filesystem::path to;
  std::int64_t bytes = 0;
};

/// What a store in the folders can have, which takes the same of each: what is free where the least is, times their
/// number. Folders on one file system share what is free there, with what is written beside the store; the store of a
/// killed run counts as free. Throws InputError as above for folders.
std::int64_t free_for_store(const StorePlace& place, std::span<const WrittenBeside> beside = {});

}  // namespace penstock::exec
