// A file of any size, read where it lies: mapped, not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace penstock {

/// Bytes of a regular file. Whoever shortens the file while it is mapped takes the process with it (SIGBUS), as with
/// every mapped file; `require_unchanged` finds what was written over or replaced by then.
class MappedFile {
 public:
  /// Throws InputError if the file is missing, not a regular file (nothing else is opened: a pipe would wait for ever),
  /// unreadable or empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const unsigned char> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  /// Throws std::runtime_error if its size or the time of its last change is no longer what it was when it was mapped.
  void require_unchanged() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const unsigned char> bytes_;
  std::int64_t changed_seconds_ = 0, changed_nanoseconds_ = 0;
};

}  // namespace penstock
