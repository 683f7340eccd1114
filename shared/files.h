// Reading and writing whole files without losing anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace penstock {

/// Throws InputError if the file is missing, not a regular file, unreadable, or larger than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// Whole or not at all: writes a temporary beside `path`, fsyncs, renames. Throws std::runtime_error with the system's
/// reason (no such folder, disk full); the temporary is removed and an older file stays as it was.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace penstock
