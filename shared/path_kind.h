// What stands at a path, beyond what std::filesystem asks.
#pragma once

#include <filesystem>

namespace penstock {

/// Whether anything has this name, a link to nothing included. False where that cannot be found out.
bool is_there(const std::filesystem::path& path);

/// A file or folder that is mounted by itself, as a container's volume: its name cannot be taken from it.
bool is_mount_point(const std::filesystem::path& path);

}  // namespace penstock
