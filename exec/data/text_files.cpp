#include "exec/data/text_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "exec/data/shown_path.h"
#include "exec/data/text_file.h"
#include "shared/error.h"
#include "shared/files.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view what) {
  throw InputError(fmt::format("{}: {}", shown_path(path), what));
}

[[noreturn]] void fail_vanished(const fs::path& path) {
  fail(path, "vanished while the data was read; run again when nothing changes there");
}

struct Entry {
  std::string name;
  bool is_link = false;    // to whatever
  bool is_folder = false;  // itself, not by a link
};

class TextReader {
 public:
  /// `root`: what names are shown below.
  TextReader(fs::path root, std::int64_t most_bytes) : root_(std::move(root)), most_bytes_(most_bytes) {}

  void take_folder(const fs::path& folder) {
    std::error_code error, ignored;
    std::vector<Entry> entries;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      entries.push_back({at->path().filename().native(), at->is_symlink(ignored),
                         !at->is_symlink(ignored) && at->is_directory(ignored)});
    if (error && folder == root_)
      fail(folder, fmt::format("cannot be read as data: {}; name a file, a folder, or \"random\"", error.message()));
    if (error == std::errc::no_such_file_or_directory) fail_vanished(folder);
    if (error) return pass_over(folder, {fmt::format("a folder that is unreadable ({})", error.message()), ""});
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    for (const Entry& entry : entries) {
      const fs::path path = folder / entry.name;
      if (entry.name.starts_with('.'))
        pass_over(path, {"hidden", ""});
      else if (entry.is_folder)
        take_folder(path);
      else
        take_or_pass_over(path, entry.is_link);
    }
  }

  void take_or_pass_over(const fs::path& path, bool is_link) {
    if (const std::optional<Refusal> refusal = take_file(path, is_link)) pass_over(path, *refusal);
  }

  /// Appends the file's text, or says why not.
  std::optional<Refusal> take_file(const fs::path& path, bool is_link) {
    struct stat status {};
    // Before it is opened: that may wait for ever, or do something, where a pipe or a device is.
    if (::stat(path.c_str(), &status) != 0) {
      if (is_link && (errno == ENOENT || errno == ELOOP)) return Refusal{"a link to nothing", ""};
      if (errno == ENOENT) fail_vanished(path);
      return Refusal{fmt::format("unreadable ({})", std::strerror(errno)), ""};
    }
    if (S_ISDIR(status.st_mode)) return Refusal{"a link to a folder", ""};
    if (!S_ISREG(status.st_mode)) return Refusal{"not a regular file", ""};
    if (status.st_size == 0) return Refusal{"empty", ""};
    // Some file systems number their files carelessly: the same number alone does not make two names one file.
    const auto known = taken_.find({status.st_dev, status.st_ino});
    if (known != taken_.end() && (is_link || known->second || status.st_nlink > 1))
      return Refusal{"another name of a file that is taken already", ""};
    TextFile file = append_text(path, most_bytes_ - static_cast<std::int64_t>(text_.bytes.size()), text_.bytes);
    if (file.refusal) return std::move(file.refusal);
    if (status.st_size > largest_bytes_) {
      largest_bytes_ = status.st_size;
      largest_ = path;
    }
    if (file.size == TextSize::too_large) fail_too_large();
    taken_.emplace(std::pair{status.st_dev, status.st_ino}, is_link);
    ++text_.files;
    return std::nullopt;
  }

  void pass_over(const fs::path& path, const Refusal& refusal) {
    const auto known = std::find_if(text_.passed_over.begin(), text_.passed_over.end(),
                                    [&](const PassedOver& other) { return other.reason == refusal.reason; });
    if (known == text_.passed_over.end())
      text_.passed_over.push_back({refusal.reason, refusal.command, shown_path(path.lexically_relative(root_)), 1});
    else
      ++known->count;
  }

  DataText finish(std::string place) {
    if (text_.files == 0) {
      std::string message = fmt::format("{}: has no text to take tokens from", place);
      for (const PassedOver& what : text_.passed_over) message += "; " + in_words(what);
      throw InputError(message);
    }
    text_.place = std::move(place);
    return std::move(text_);
  }

 private:
  [[noreturn]] void fail_too_large() const {
    throw InputError(fmt::format(
        "{}: more than {} bytes of text, the most that data may have; the largest file so far, {}, has {}. Name less, "
        "or a part of it: head -c {} {} > {}",
        shown_path(root_), most_bytes_, shown_path(largest_), largest_bytes_, most_bytes_, shown_path(largest_),
        shown_path(largest_.filename().native() + ".part.txt")));
  }

  fs::path root_;
  std::int64_t most_bytes_;
  DataText text_;
  std::map<std::pair<dev_t, ino_t>, bool> taken_;  // by link?
  fs::path largest_;
  std::int64_t largest_bytes_ = 0;
};

}  // namespace

std::string in_words(const PassedOver& what) {
  std::string text = what.count == 1 ? fmt::format("passed over {}: {}", what.first, what.reason)
                                     : fmt::format("passed over {}, first {}: {}", what.count, what.first, what.reason);
  if (!what.command.empty()) text += fmt::format(" (for text: {})", what.command);
  return text;
}

DataText read_data(const fs::path& path, std::int64_t most_bytes) {
  std::error_code error;
  TextReader reader(path, most_bytes);
  if (fs::is_directory(path, error)) {
    reader.take_folder(path);
    return reader.finish(shown_path(path));
  }
  if (!fs::exists(path, error)) fail(path, "cannot be read: " + why_not_read(path, error ? error.value() : ENOENT));
  if (const std::optional<Refusal> refusal = reader.take_file(path, false))
    fail(path, fmt::format("is {}; data is a text file, a folder with such, a file of tokens (of raw uint16 ids with "
                           "kind = \"nanogpt\"), or \"random\"{}",
                           refusal->reason,
                           refusal->command.empty() ? "" : fmt::format(". For text of it: {}", refusal->command)));
  DataText text = reader.finish(shown_path(path));
  text.files = 0;
  return text;
}

std::vector<fs::path> default_data_files(const fs::path& start) {
  std::error_code error;
  fs::path folder = fs::absolute(start, error).lexically_normal();
  while (!fs::is_regular_file(folder / "README.md", error)) {
    if (folder == folder.parent_path())
      throw InputError(fmt::format(
          "{}: [data] file is not given and no folder at or above has a README.md to take tokens from; name a "
          "file or folder, or \"random\"",
          shown_path(start)));
    folder = folder.parent_path();
  }
  std::vector<fs::path> files{folder / "README.md"};
  for (fs::directory_iterator at(folder / "docs", error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".md" && at->is_regular_file(error)) files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

DataText read_default_data(const fs::path& start) {
  const std::vector<fs::path> files = default_data_files(start);
  const fs::path folder = files.front().parent_path();  // README.md comes before docs
  TextReader reader(folder, kMaxDataBytes);
  std::error_code error;
  for (const fs::path& file : files) reader.take_or_pass_over(file, fs::is_symlink(file, error));
  return reader.finish(fmt::format("README.md and docs of {}, the default data", shown_path(folder)));
}

}  // namespace penstock::exec
