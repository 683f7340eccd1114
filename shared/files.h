// Reading and writing whole files without losing anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Throws InputError if the file is missing, not a regular file, unreadable, or larger than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// For messages: the system's `reason` (errno) for not opening `path`, and what would be right where that can be told.
std::string why_not_read(const std::filesystem::path& path, int reason);

/// Where a write to `path` goes: the end of the symbolic links there, `path` itself if it is none. Throws InputError if
/// they go round in a circle.
std::filesystem::path follow_links(const std::filesystem::path& path);

/// Throws InputError unless a file can be put at `path`: its folder is there and writable, and what is at `path`, if
/// anything, is a regular file other than `inputs` (empty paths among them do not count). Links are followed. To be
/// asked before the work whose result goes there.
void check_output_file(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs = {});

/// Whole or not at all: writes a temporary beside `path` (beside its target, if it is a link, which stays one), fsyncs,
/// renames. Throws InputError as `check_output_file`,
/// std::runtime_error with the system's reason (disk full); the temporary is removed and an older file stays as it was.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace penstock
