#include "exec/data/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "exec/data/file_kind.h"
#include "exec/data/shown_path.h"
#include "shared/error.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

class OpenFile {
 public:
  /// Not blocking: a pipe that has taken the file's place would hang.
  explicit OpenFile(const fs::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// False: errno says why.
  bool status(struct stat& out) const { return fd_ >= 0 && ::fstat(fd_, &out) == 0; }
  /// `bytes` bytes, fewer at the end of the file; negative: errno says why.
  ssize_t read(char* to, std::size_t bytes) const {
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t got = ::read(fd_, to + done, bytes - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return got;
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(done);
  }

 private:
  int fd_;
};

[[noreturn]] void fail(const fs::path& path, std::string_view what) {
  throw InputError(fmt::format("{}: {}", shown_path(path), what));
}

bool same_content(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

TextFile refused(std::string reason) { return {Refusal{std::move(reason), ""}, TextSize::fits}; }

TextFile refused(const FileKind& kind, const fs::path& path) {
  return {Refusal{std::string(kind.what),
                  fmt::format(fmt::runtime(kind.command), shown_path(path), shown_path(path.native() + ".txt"))},
          TextSize::fits};
}

/// What cannot be opened may be no text at all, so it is no more than said. A machine that has run out of files or
/// memory says nothing about the file.
TextFile unreadable(const fs::path& path, int reason) {
  if (reason == ENOENT) fail(path, "vanished while the data was read; run again when nothing changes there");
  if (reason == EMFILE || reason == ENFILE || reason == ENOMEM)
    fail(path, fmt::format("cannot be read: {}", std::strerror(reason)));
  return refused(fmt::format("unreadable ({})", std::strerror(reason)));
}

}  // namespace

TextFile append_text(const fs::path& path, std::int64_t room_bytes, std::string& text) {
  const OpenFile file(path);
  struct stat before {
  }, after{};
  if (!file.status(before)) return unreadable(path, errno);
  if (!S_ISREG(before.st_mode)) return refused("not a regular file");
  const std::size_t start = text.size();
  std::array<char, kJudgedBytes> chunk;
  std::int64_t done = 0;
  while (done < before.st_size) {
    const auto asked =
        static_cast<std::size_t>(std::min<std::int64_t>(kJudgedBytes, std::int64_t{before.st_size} - done));
    const ssize_t got = file.read(chunk.data(), asked);
    if (got < 0 && done == 0) return unreadable(path, errno);
    if (got < 0) fail(path, fmt::format("cannot be read behind its first {} bytes: {}", done, std::strerror(errno)));
    const std::string_view bytes(chunk.data(), static_cast<std::size_t>(got));
    const FileKind* kind = nullptr;
    if (done == 0 && got > 0) kind = kind_unless_text(bytes);
    if (done > 0 && bytes.find('\0') != std::string_view::npos) kind = &binary_behind_text();
    if (kind != nullptr) {
      text.resize(start);
      return refused(*kind, path);
    }
    done += got;
    if (before.st_size <= room_bytes)
      text.append(bytes);
    else if (done > room_bytes)
      return {std::nullopt, TextSize::too_large};
    if (bytes.size() < asked) break;
  }
  if (!file.status(after) || !same_content(before, after))
    fail(path, "changed while it was read; run again when nothing writes there");
  if (done == before.st_size) return {};
  text.resize(start);
  return refused("shorter than its size says, as the files of /sys are");
}

}  // namespace penstock::exec
