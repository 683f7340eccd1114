// Names of files in messages.
#pragma once

#include <filesystem>
#include <string>

namespace penstock::exec {

/// The path as a shell would take it: as it is where that is plain, else in quotes, with ends of lines, other control
/// characters and bytes that are not UTF-8 escaped ($'a\nb'): one line, whatever the name.
std::string shown_path(const std::filesystem::path& path);

}  // namespace penstock::exec
