// Reading and writing whole files without losing anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "shared/file_calls.h"

namespace penstock {

/// A regular file that is read from its beginning.
class InputFile {
 public:
  /// Throws InputError if the file is missing, not a regular file, unreadable, or larger than `max_bytes`.
  InputFile(const std::filesystem::path& path, std::int64_t max_bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// When it was opened.
  std::int64_t size() const { return size_; }
  /// Fills `into` as far as the file goes, and no further than its size. Returns the bytes read; 0 at its end.
  std::size_t read(std::span<char> into);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0, position_ = 0;
};

/// The whole of an InputFile.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// For messages: the system's `reason` (errno) for not opening `path`, and what would be right where that can be told.
std::string why_not_read(const std::filesystem::path& path, int reason);

/// Where a write to `path` goes: the end of the symbolic links there, `path` itself if it is none. Throws InputError if
/// they go round in a circle.
std::filesystem::path follow_links(const std::filesystem::path& path);

/// Throws InputError unless a file can be put at `path`: its folder is there and takes new files (one is made and
/// removed again), and what is at `path`, if anything, is a regular file that may be replaced. Links are followed. To
/// be asked before the work whose result goes there; what else the same command reads or writes is CommandFiles' to
/// know.
void check_output_file(const std::filesystem::path& path);

/// A file that appears whole or not at all. What is written goes into a temporary beside it (beside its target, if it
/// is a link, which stays one), NAME.16HEX.tmp: always a new file, through no link, with the rights that the umask
/// leaves. Several processes may write one path at once; the last to commit wins, whole. A process that is killed
/// leaves its temporary, which nothing reads and which can be removed.
class OutputFile {
 public:
  /// Throws InputError as `check_output_file`, std::runtime_error with the system's reason, as all members do.
  explicit OutputFile(const std::filesystem::path& path, FileCalls& calls = system_calls());
  /// Removes the temporary unless it was committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  /// Over what was written before. REQUIRES: no byte of it beyond.
  void write_at(std::int64_t offset, std::string_view bytes);
  /// Syncs and renames: an older file is replaced now, and stays as it was if anything failed.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  FileCalls& calls_;
  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
};

/// An OutputFile of this text.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace penstock
