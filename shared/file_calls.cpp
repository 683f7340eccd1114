#include "shared/file_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {

int FileCalls::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
ssize_t FileCalls::write(int descriptor, const void* bytes, std::size_t count) {
  return ::write(descriptor, bytes, count);
}
ssize_t FileCalls::pwrite(int descriptor, const void* bytes, std::size_t count, std::int64_t offset) {
  return ::pwrite(descriptor, bytes, count, offset);
}
int FileCalls::fsync(int descriptor) { return ::fsync(descriptor); }
int FileCalls::close(int descriptor) { return ::close(descriptor); }
int FileCalls::unlink(const char* path) { return ::unlink(path); }
int FileCalls::mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }
int FileCalls::rmdir(const char* path) { return ::rmdir(path); }
int FileCalls::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileCalls::statvfs(const char* path, struct statvfs* system) { return ::statvfs(path, system); }
int FileCalls::lock(int descriptor) { return ::flock(descriptor, LOCK_EX | LOCK_NB); }

FileCalls& system_calls() {
  static FileCalls calls;
  return calls;
}

}  // namespace penstock
