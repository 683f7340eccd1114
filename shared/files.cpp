#include "shared/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "shared/error.h"
#include "shared/nearest_name.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;            // as many as Linux follows
constexpr std::size_t kMostFiles = 1000;  // of a folder, looked through for a name that was probably meant

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// The file beside `path` that was probably meant; empty if none is close. One of the same extension goes first.
std::string nearest_file(const fs::path& path) {
  std::vector<std::string> names, stems;
  std::error_code error;
  for (fs::directory_iterator at(folder_of(path), error), end; !error && at != end && names.size() < kMostFiles;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
    if (at->path().extension() == path.extension()) stems.push_back(at->path().stem().string());
  }
  std::sort(stems.begin(), stems.end());
  std::sort(names.begin(), names.end());
  const std::string stem = nearest_name(path.stem().string(), stems);
  const std::string name =
      stem.empty() ? nearest_name(path.filename().string(), names) : stem + path.extension().string();
  if (name.empty() || name == path.filename()) return "";  // the same: a link to nothing
  return (path.parent_path() / name).string();
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

std::string why_not_read(const fs::path& path, int reason) {
  std::string text = std::strerror(reason);
  std::error_code error;
  if (reason == EACCES) return text + "; give yourself the right to read it";
  if (reason != ENOENT) return text;
  if (!fs::is_directory(folder_of(path), error))
    return fmt::format("{}; the folder {} does not exist", text, folder_of(path).string());
  if (const std::string nearest = nearest_file(path); !nearest.empty())
    return fmt::format("{}; did you mean {}?", text, nearest);
  return fmt::format("{}; {} has no file of a similar name", text,
                     path.has_parent_path() ? "the folder " + path.parent_path().string() : "the current folder");
}

fs::path follow_links(const fs::path& path) {
  fs::path end = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(end, error)); ++links) {
    if (links == kMostLinks)
      throw InputError(
          fmt::format("{}: cannot be written: it is a link that leads round in a circle; name a file", path.string()));
    end = end.parent_path() / fs::read_symlink(end, error);
    if (error) throw InputError(fmt::format("{}: cannot be followed: {}", path.string(), error.message()));
  }
  return end;
}

std::string read_text_file(const fs::path& path, std::int64_t max_bytes) {
  // Not blocking: a pipe without a writer would hang the open, before anyone can say that it is not a regular file.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw InputError(fmt::format("{}: cannot be read: {}", path.string(), why_not_read(path, errno)));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: is not a regular file{}", path.string(),
                                 S_ISDIR(status.st_mode) ? " but a folder; name a file in it" : "; name one"));
  if (status.st_size > max_bytes)
    throw InputError(fmt::format("{}: {} bytes, more than the {} that such a file may have; was another file meant?",
                                 path.string(), static_cast<std::int64_t>(status.st_size), max_bytes));
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

void check_output_file(const fs::path& given, std::span<const fs::path> inputs) {
  const fs::path path = follow_links(given);
  const auto refuse = [&](std::string_view what) {
    throw InputError(fmt::format("{}: cannot be written: {}", given.empty() ? "\"\"" : given.string(), what));
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!path.has_filename() || fs::is_directory(status)) refuse("that names a folder; name a file");
  // Renaming onto a device would replace the device.
  if (fs::exists(status) && !fs::is_regular_file(status)) refuse("it exists and is not a regular file");
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, error)) refuse(fmt::format("the folder {} does not exist", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0)
    refuse(fmt::format("the folder {}: {}", folder.string(), std::strerror(errno)));
  for (const fs::path& input : inputs)
    if (!input.empty() && (fs::equivalent(path, input, error) || fs::absolute(path) == fs::absolute(input)))
      refuse("this command also reads or writes it under another option; name another file");
}

void write_text_file(const fs::path& given, std::string_view text) {
  check_output_file(given);
  const fs::path path = follow_links(given);
  const std::string temporary = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  const auto fail = [&](const char* what) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    throw std::runtime_error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(reason)));
  };
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) fail("cannot be created");
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot be written");
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(file.get()) != 0) fail("cannot be synced");
  if (::close(file.release()) != 0) fail("cannot be closed");
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("cannot be renamed into place");
}

}  // namespace penstock
