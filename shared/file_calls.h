// The calls to the operating system by which files and folders are written: one seam, so that a test can make any of
// them fail, or be the last. Each does what its namesake in libc does: -1 and errno for what failed.
#pragma once

#include <sys/statvfs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace penstock {

class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t write(int descriptor, const void* bytes, std::size_t count);
  virtual ssize_t pwrite(int descriptor, const void* bytes, std::size_t count, std::int64_t offset);
  virtual int fsync(int descriptor);
  virtual int close(int descriptor);
  /// Takes the space for so many bytes, without changing the file's length.
  virtual int allocate(int descriptor, std::int64_t bytes);
  virtual int unlink(const char* path);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int rmdir(const char* path);
  virtual int rename(const char* from, const char* to);
  /// Each takes the other's place, at one moment. Not every file system can.
  virtual int exchange(const char* one, const char* other);
  virtual int statvfs(const char* path, struct statvfs* system);
  /// Exclusive, kept until the descriptor is closed; never waits.
  virtual int lock(int descriptor);
};

/// The real ones. They have no state: any number of threads may use them.
FileCalls& system_calls();

}  // namespace penstock
