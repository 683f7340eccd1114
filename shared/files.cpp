#include "shared/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "shared/error.h"

namespace penstock {
namespace {

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

std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  // Not blocking: a pipe without a writer would hang the open, before anyone can say that it is not a regular file.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw InputError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: is not a regular file{}", path.string(),
                                 S_ISDIR(status.st_mode) ? " but a folder; name a file in it" : ""));
  if (status.st_size > max_bytes)
    throw InputError(fmt::format("{}: {} bytes, more than the {} that such a file may have", path.string(),
                                 static_cast<std::int64_t>(status.st_size), max_bytes));
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

void check_output_file(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs) {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string_view what) {
    throw InputError(fmt::format("{}: cannot be written: {}", path.empty() ? "\"\"" : path.string(), what));
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!path.has_filename() || fs::is_directory(status)) refuse("that names a folder; name a file");
  // Renaming onto a device would replace the device.
  if (fs::exists(status) && !fs::is_regular_file(status)) refuse("it exists and is not a regular file");
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) refuse(fmt::format("the folder {} does not exist", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0)
    refuse(fmt::format("the folder {}: {}", folder.string(), std::strerror(errno)));
  for (const fs::path& input : inputs)
    if (!input.empty() && (fs::equivalent(path, input, error) || fs::absolute(path) == fs::absolute(input)))
      refuse("this command also reads or writes it under another option; name another file");
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  check_output_file(path);
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
