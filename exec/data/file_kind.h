// What a file is, judged by its first bytes: text that can be trained on, or one of the kinds that cannot.
//
// Text is what has no zero byte, few control characters, and none of the beginnings by which compressed files and other
// containers are known. Its encoding plays no part as long as it keeps ASCII bytes for ASCII characters, as UTF-8 and
// Latin-1 do: the bytes are the tokens. UTF-16 and UTF-32 do not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::exec {

/// What a file is judged by: all of it, if it is shorter.
inline constexpr std::size_t kJudgedBytes = 64 << 10;

struct FileKind {
  std::string_view what;     // completes "it is": "gzip-compressed"
  std::string_view command;  // makes text of it: {0} stands for the file, {1} for a text file beside it; may be empty
};

/// Nullptr if `head` begins a text. `head`: the first kJudgedBytes of the file, or all of it; not empty.
const FileKind* kind_unless_text(std::string_view head);

/// A file whose zero bytes come only behind what is judged.
const FileKind& binary_behind_text();

}  // namespace penstock::exec
