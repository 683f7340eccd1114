#include "shared/path_kind.h"

#include <system_error>

namespace penstock {

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

}  // namespace penstock
