// One file, read as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace penstock::exec {

/// Why a file is not taken.
struct Refusal {
  std::string reason;   // completes "it is": "gzip-compressed", "unreadable (Permission denied)"
  std::string command;  // makes text of it, or is empty
};

enum class TextSize { fits, too_large };

struct TextFile {
  std::optional<Refusal> refusal;  // nothing was appended
  TextSize size = TextSize::fits;  // too_large: text, but of more than the room; nothing was appended
};

/// Appends the bytes of a file to `text` if all of it is text (file_kind.h). What is not is known after kJudgedBytes,
/// mostly, and never fails anything. Throws InputError if the file vanishes or changes meanwhile, or if it begins as
/// text and cannot be read further. REQUIRES: a regular file that is not empty, as far as the caller has seen.
TextFile append_text(const std::filesystem::path& path, std::int64_t room_bytes, std::string& text);

}  // namespace penstock::exec
