#include "shared/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "shared/error.h"
#include "shared/nearest_name.h"
#include "shared/path_kind.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;            // as many as Linux follows
constexpr int kMostNames = 100;           // tried for a temporary; of 2^64, one is taken by chance only
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

/// Writes by `put`, which says how much it took, until all is written. False with errno if it cannot be.
template <class Put>
bool put_all(std::string_view bytes, const Put& put) {
  while (!bytes.empty()) {
    const ssize_t taken = put(bytes);
    if (taken < 0 && errno == EINTR) continue;
    if (taken == 0) errno = EIO;  // or it would be tried for ever
    if (taken <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(taken));
  }
  return true;
}

std::string reason(int code) { return std::generic_category().message(code); }

[[noreturn]] void refuse_output(const fs::path& given, std::string_view what) {
  throw InputError(fmt::format("{}: cannot be written: {}", given.empty() ? "\"\"" : given.string(), what));
}

/// In a folder with the sticky bit (/tmp) only the owner of a file or of the folder replaces it.
bool is_others_in_sticky(const fs::path& file, const fs::path& folder) {
  struct stat of_file {
  }, of_folder{};
  const uid_t user = ::geteuid();
  return user != 0 && ::stat(file.c_str(), &of_file) == 0 && ::stat(folder.c_str(), &of_folder) == 0 &&
         (of_folder.st_mode & S_ISVTX) != 0 && of_file.st_uid != user && of_folder.st_uid != user;
}

/// Where a file goes that is asked for as `given`, after all that can be known without making one.
fs::path output_place(const fs::path& given) {
  fs::path path = follow_links(given);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const std::string unknown = status.type() == fs::file_type::none ? error.message() : "";  // a name that is too long
  if (!path.has_filename() || fs::is_directory(status)) refuse_output(given, "that names a folder; name a file");
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, error))
    refuse_output(given, fmt::format("the folder {} does not exist", folder.string()));
  if (!unknown.empty()) refuse_output(given, unknown);
  if (!fs::exists(status)) return path;
  // Renaming onto a device would replace the device.
  if (!fs::is_regular_file(status)) refuse_output(given, "it exists and is not a regular file");
  if (::access(path.c_str(), W_OK) != 0) refuse_output(given, fmt::format("it exists: {}", reason(errno)));
  if (is_mount_point(path)) refuse_output(given, "it is mounted by itself and cannot be replaced; name another file");
  if (is_others_in_sticky(path, folder)) refuse_output(given, "it belongs to another user; name another file");
  return path;
}

/// Opens a new file beside `path`, for writing; -1 with errno. `name` becomes its path, empty if there is none.
int make_temporary(const fs::path& path, fs::path& name, FileCalls& calls) {
  constexpr std::size_t kSuffix = 1 + 16 + 4;  // ".", 16 digits, ".tmp"
  const std::string stem = path.filename().string().substr(0, NAME_MAX - kSuffix);
  for (int attempt = 0; attempt < kMostNames; ++attempt) {
    std::uint64_t random = 0;
    if (::getentropy(&random, sizeof random) != 0) return -1;
    name = path.parent_path() / fmt::format("{}.{:016x}.tmp", stem, random);
    const int descriptor = calls.open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) break;
  }
  name.clear();
  return -1;
}

}  // namespace

std::string why_not_read(const fs::path& path, int reason) {
  std::string text = std::strerror(reason);
  std::error_code error;
  if (reason == EACCES) return text + "; give yourself the right to read it";
  if (reason == EMFILE) return text + "; allow more (ulimit -n)";
  if (reason != ENOENT) return text;
  if (fs::is_symlink(fs::symlink_status(path, error)))
    return fmt::format("{}; it is a link to {}, which is not there", text, fs::read_symlink(path, error).string());
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

InputFile::InputFile(const fs::path& path, std::int64_t max_bytes) : path_(path) {
  // Not blocking: a pipe without a writer would hang the open, before anyone can say that it is not a regular file.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw InputError(fmt::format("{}: cannot be read: {}", path.string(), why_not_read(path, errno)));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: is not a regular file{}", path.string(),
                                 S_ISDIR(status.st_mode) ? " but a folder; name a file in it" : "; name one"));
  size_ = static_cast<std::int64_t>(status.st_size);
  if (size_ > max_bytes)
    throw InputError(fmt::format("{}: {} bytes, more than the {} that such a file may have; was another file meant?",
                                 path.string(), size_, max_bytes));
  descriptor_ = file.release();
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t InputFile::read(std::span<char> into) {
  std::size_t done = 0;
  const auto wanted = std::min(into.size(), static_cast<std::size_t>(size_ - position_));
  while (done < wanted) {
    const ssize_t got = ::read(descriptor_, into.data() + done, wanted - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(fmt::format("{}: cannot be read: {}", path_.string(), std::strerror(errno)));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  position_ += static_cast<std::int64_t>(done);
  return done;
}

std::string read_text_file(const fs::path& path, std::int64_t max_bytes) {
  InputFile file(path, max_bytes);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  text.resize(file.read(text));
  return text;
}

void check_output_file(const fs::path& given) {
  const fs::path path = output_place(given);
  fs::path temporary;
  const Descriptor probe(make_temporary(path, temporary, system_calls()));
  if (probe.get() < 0)
    refuse_output(given, fmt::format("the folder {} takes no new file: {}", folder_of(path).string(), reason(errno)));
  ::unlink(temporary.c_str());
}

OutputFile::OutputFile(const fs::path& path, FileCalls& calls)
    : calls_(calls), path_(output_place(path)), descriptor_(make_temporary(path_, temporary_, calls)) {
  if (descriptor_ < 0) fail("cannot be created");
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) calls_.close(descriptor_);
  if (!temporary_.empty()) calls_.unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (!put_all(bytes, [this](std::string_view rest) { return calls_.write(descriptor_, rest.data(), rest.size()); }))
    fail("cannot be written");
}

void OutputFile::write_at(std::int64_t offset, std::string_view bytes) {
  const auto put = [&](std::string_view rest) {
    const std::int64_t at = offset + static_cast<std::int64_t>(bytes.size() - rest.size());
    return calls_.pwrite(descriptor_, rest.data(), rest.size(), at);
  };
  if (!put_all(bytes, put)) fail("cannot be written");
}

void OutputFile::commit() {
  if (calls_.fsync(descriptor_) != 0) fail("cannot be synced");
  if (calls_.close(std::exchange(descriptor_, -1)) != 0) fail("cannot be closed");
  if (calls_.rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed into place");
  temporary_.clear();
}

void OutputFile::fail(const char* what) const {
  throw std::runtime_error(fmt::format("{}: {}: {}", path_.string(), what, reason(errno)));
}

void write_text_file(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace penstock
