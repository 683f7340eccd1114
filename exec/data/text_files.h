// The text of a file or a folder, read once, and what was passed over on the way.
//
// A folder is walked to its bottom. Its files are taken one after the other in the order of their paths, compared
// element by element and byte by byte, so that they are the same text on every machine. Hidden files and folders (their
// names begin with a dot) and links to folders are left out; links to files are followed, wherever they lead, and a
// file that is met under several names counts once, at the first of them. What is empty, not text (file_kind.h), not a
// regular file, a link to nothing, or cannot be opened is passed over. Nothing is passed over in silence, and nothing
// that is passed over can fail the reading: it is judged by its first bytes and counts against no limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock::exec {

inline constexpr std::int64_t kMaxDataBytes = std::int64_t{4} << 30;

/// What was not taken for one reason.
struct PassedOver {
  std::string reason;   // "UTF-16 text", "hidden"
  std::string command;  // makes text of the first, or is empty
  std::string first;    // below the folder, as a shell takes it
  std::int64_t count = 0;
};

struct DataText {
  std::string bytes;
  std::string place;       // for messages: what was asked for
  std::int64_t files = 0;  // 0: not a folder but a file itself
  std::vector<PassedOver> passed_over;
};

/// One sentence without its full stop: "passed over 2, first a.gz: gzip-compressed; for text: gunzip ...".
std::string in_words(const PassedOver& what);

/// `path`: a file, or a folder. Throws InputError if there is no text or more than `most_bytes` of it, if a file given
/// itself cannot be taken, if one that has been found to be text cannot be read to its end, or if one changes
/// meanwhile.
DataText read_data(const std::filesystem::path& path, std::int64_t most_bytes = kMaxDataBytes);

/// What is read where no data is named: README.md and docs/*.md, sorted, of the nearest folder at or above `start` that
/// has a README.md. Throws InputError if none has.
std::vector<std::filesystem::path> default_data_files(const std::filesystem::path& start);

/// Their text. Throws InputError as both do.
DataText read_default_data(const std::filesystem::path& start);

}  // namespace penstock::exec
