#include "shared/path_kind.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <system_error>

namespace penstock {

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

bool is_mount_point(const std::filesystem::path& path) {
  struct statx status {};
  return ::statx(AT_FDCWD, path.c_str(), AT_NO_AUTOMOUNT, 0, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

}  // namespace penstock
