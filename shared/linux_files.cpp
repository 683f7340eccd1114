// What of files Linux alone can do.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "shared/file_calls.h"
#include "shared/path_kind.h"

namespace penstock {

int FileCalls::allocate(int descriptor, std::int64_t bytes) {
  return ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, bytes);
}

int FileCalls::exchange(const char* one, const char* other) {
  return ::renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}

bool is_mount_point(const std::filesystem::path& path) {
  struct statx status {};
  return ::statx(AT_FDCWD, path.c_str(), AT_NO_AUTOMOUNT, 0, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

}  // namespace penstock
