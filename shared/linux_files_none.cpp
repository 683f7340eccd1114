// The same where it is not Linux (WebAssembly): as a file system that takes no space ahead and cannot exchange two
// files, and has no mounts.
#include <cerrno>

#include "shared/file_calls.h"
#include "shared/path_kind.h"

namespace penstock {

int FileCalls::allocate(int, std::int64_t) {
  errno = ENOSYS;
  return -1;
}

int FileCalls::exchange(const char*, const char*) {
  errno = ENOSYS;
  return -1;
}

bool is_mount_point(const std::filesystem::path&) { return false; }

}  // namespace penstock
