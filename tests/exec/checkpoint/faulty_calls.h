// The operating system on a bad day: any call fails, or is the last one before the process is killed.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "shared/file_calls.h"

namespace penstock {

class FaultyCalls : public FileCalls {
 public:
  int kill_at = -1;           // the number of a call, from 0, instead of which the process is killed
  int fail_at = -1;           // that fails, ...
  int error = EIO;            // ... with this
  bool can_exchange = true;   // as the file system
  bool can_lock = true;       // likewise
  int folder_rename = 0;      // error of renaming the folder `named`; 0: as it is
  std::string_view named;     // ends its path
  std::size_t most = 0;       // bytes that one write takes; 0: all
  std::int64_t free = -1;     // bytes that the file system has; -1: as it is
  int allocation = 0;         // error of allocating; 0: as it is
  int calls = 0;              // so far
  bool wrote_record = false;  // run.json has its name: the checkpoint is whole

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileCalls::open(path, flags, mode);
  }
  ssize_t write(int descriptor, const void* bytes, std::size_t count) override {
    return fails() ? -1 : FileCalls::write(descriptor, bytes, most > 0 ? std::min(most, count) : count);
  }
  ssize_t pwrite(int descriptor, const void* bytes, std::size_t count, std::int64_t offset) override {
    return fails() ? -1 : FileCalls::pwrite(descriptor, bytes, most > 0 ? std::min(most, count) : count, offset);
  }
  /// A process that is killed loses nothing that it wrote; only a machine would, and none fails here.
  int fsync(int) override { return fails() ? -1 : 0; }
  int close(int descriptor) override {
    // The descriptor is gone even then.
    const bool failed = fails();
    const int result = FileCalls::close(descriptor);
    if (failed) errno = error;
    return failed ? -1 : result;
  }
  int allocate(int descriptor, std::int64_t bytes) override {
    if (fails()) return -1;
    if (allocation == 0) return FileCalls::allocate(descriptor, bytes);
    errno = allocation;
    return -1;
  }
  int unlink(const char* path) override { return fails() ? -1 : FileCalls::unlink(path); }
  int mkdir(const char* path, mode_t mode) override { return fails() ? -1 : FileCalls::mkdir(path, mode); }
  int rmdir(const char* path) override { return fails() ? -1 : FileCalls::rmdir(path); }
  int rename(const char* from, const char* to) override {
    if (fails()) return -1;
    if (folder_rename != 0 && std::string_view(from).ends_with(named)) {
      errno = folder_rename;
      return -1;
    }
    const int result = FileCalls::rename(from, to);
    if (result == 0 && std::string_view(to).ends_with("/run.json")) wrote_record = true;
    return result;
  }
  int exchange(const char* one, const char* other) override {
    if (fails()) return -1;
    if (can_exchange) return FileCalls::exchange(one, other);
    errno = EINVAL;
    return -1;
  }
  int statvfs(const char* path, struct statvfs* system) override {
    if (fails()) return -1;
    const int result = FileCalls::statvfs(path, system);
    if (free >= 0) system->f_bfree = system->f_bavail = static_cast<fsblkcnt_t>(free) / system->f_frsize;
    return result;
  }
  int lock(int descriptor) override {
    if (fails()) return -1;
    if (can_lock) return FileCalls::lock(descriptor);
    errno = ENOSYS;
    return -1;
  }

 private:
  bool fails() {
    const int number = calls++;
    if (number == kill_at) ::kill(::getpid(), SIGKILL);
    if (number != fail_at) return false;
    errno = error;
    return true;
  }
};

}  // namespace penstock
