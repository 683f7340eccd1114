#include "exec/store/store_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "penstock-store/1\n";
constexpr int kAttempts = 1000;  // each one fails only because another run has let go in this moment

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse(const StorePlace& place, const fs::path& folder, const std::string& what) {
  throw InputError(fmt::format("{} {}: {}", place.key, folder.string(), what));
}

struct AlignedFree {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kDriveAlignment}); }
};
using Block = std::unique_ptr<std::byte[], AlignedFree>;
/// Zeros, as direct I/O takes them.
Block make_block(std::int64_t bytes = kDriveAlignment) {
  Block block(new (std::align_val_t{kDriveAlignment}) std::byte[static_cast<std::size_t>(bytes)]);
  std::fill_n(block.get(), bytes, std::byte{0});
  return block;
}

/// Of the folder's file system, for this user.
std::int64_t free_in(const StorePlace& place, const fs::path& folder) {
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0)
    refuse(place, folder, fmt::format("{}; name a folder on the drive", reason(errno)));
  std::error_code error;
  if (!fs::is_directory(folder, error)) refuse(place, folder, "is not a folder; name one on the drive");
  // Newer kernels take O_DIRECT there and copy memory.
  if (place.direct && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC))
    refuse(place, folder, "lies in memory (tmpfs); name a folder on the drive");
  return static_cast<std::int64_t>(system.f_bavail) * static_cast<std::int64_t>(system.f_frsize);
}

dev_t device_of(const fs::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 ? status.st_dev : 0;
}

/// The folder, or the nearest above it that is there.
fs::path existing_part(const fs::path& path) {
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  return at;
}

std::string own_name() {
  std::string host(HOST_NAME_MAX + 1, '\0');
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", ::getpid(), host.c_str());
}

/// The line of a header that begins with `word`, without that word.
std::string line_of(const std::string& header, const std::string& word) {
  const std::size_t at = header.find('\n' + word + ' ');
  if (at == std::string::npos) return {};
  const std::size_t begin = at + word.size() + 2;
  return header.substr(begin, header.find('\n', begin) - begin);
}

/// Empty if there is none that is ours.
std::string read_header(int file) {
  const Block block = make_block();
  if (::pread(file, block.get(), static_cast<std::size_t>(kDriveAlignment), 0) < static_cast<ssize_t>(kFormat.size()))
    return {};
  const auto* const text = reinterpret_cast<const char*>(block.get());
  std::string header(text, ::strnlen(text, static_cast<std::size_t>(kDriveAlignment)));
  return header.starts_with(kFormat) ? header : std::string();
}

/// Zeros from the header to `bytes`. Returns 0, or why not.
int write_zeros(int file, std::int64_t bytes) {
  constexpr std::int64_t kPiece = kDataOffset;
  const Block zeros = make_block(kPiece);
  for (std::int64_t at = kDriveAlignment; at < bytes;) {
    const std::int64_t piece = std::min(kPiece, padded_for_drive(bytes) - at);
    const ssize_t wrote = ::pwrite(file, zeros.get(), static_cast<std::size_t>(piece), at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < kDriveAlignment) return wrote < 0 ? errno : ENOSPC;
    at += wrote / kDriveAlignment * kDriveAlignment;
  }
  return 0;
}

/// Places on the drive for all of the file, so that no write of a step needs any and none is found missing later. Returns
/// 0, or why not. `by_zeros`: the file system sets none aside (ext3, NFS 3, ...), so that they are written.
int take_places(int file, std::int64_t bytes, bool& by_zeros) {
  int error = 0;
  do error = ::fallocate(file, 0, 0, bytes) == 0 ? 0 : errno;
  while (error == EINTR);
  by_zeros = error == EOPNOTSUPP || error == ENOSYS;
  return by_zeros ? write_zeros(file, bytes) : error;
}

bool lacks_room(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

/// What stands in the way of a file of so many bytes where the file system has them free.
std::string room_refused(int error, std::int64_t bytes) {
  struct rlimit limit {};
  if (error == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<std::int64_t>(limit.rlim_cur) < bytes)
    return fmt::format("a process may write files of {} here (ulimit -f)",
                       format_bytes(static_cast<double>(limit.rlim_cur)));
  return fmt::format("a file of so much is refused: {}", reason(error));
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Whether the open file is what the name leads to.
bool is_named(int file, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

/// Files of stores that have a name and are to lose it, at the latest by std::quick_exit.
class NamedFiles {
 public:
  void add(int descriptor, const fs::path& path) {
    const std::lock_guard lock(mutex_);
    files_.emplace(descriptor, path);
  }
  /// The file is still locked: whoever opened it sees that it lost its name.
  void remove(int descriptor) {
    const std::lock_guard lock(mutex_);
    if (const auto file = files_.extract(descriptor)) remove_name(file.key(), file.mapped());
  }
  void remove_all() {
    const std::lock_guard lock(mutex_);
    for (const auto& [descriptor, path] : files_) remove_name(descriptor, path);
    files_.clear();
  }

 private:
  static void remove_name(int descriptor, const fs::path& path) {
    if (is_named(descriptor, path)) ::unlink(path.c_str());
  }

  std::mutex mutex_;
  std::map<int, fs::path> files_;  // by descriptor
};

NamedFiles& named_files() {
  static NamedFiles files;
  static const int registered = std::at_quick_exit([] { named_files().remove_all(); });
  static_cast<void>(registered);
  return files;
}

/// Opened and locked. `exists`: was there before.
int open_locked(const StorePlace& place, const fs::path& folder, const fs::path& path, bool& exists) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    exists = true;
    int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) {
      exists = false;
      file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (file < 0 && errno == EEXIST) continue;
    }
    if (file < 0) refuse(place, folder, fmt::format("cannot be written: {}; name a folder that can", reason(errno)));
    struct stat opened {};
    if (::fstat(file, &opened) != 0 || !S_ISREG(opened.st_mode)) {
      ::close(file);
      refuse(place, folder, fmt::format("{} in it is no regular file; move it away", kStoreName));
    }
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string whose = line_of(read_header(file), "process");
      ::close(file);
      if (error != EWOULDBLOCK) refuse(place, folder, fmt::format("its file system knows no locks: {}", reason(error)));
      refuse(place, folder,
             fmt::format("in use by another run{}; wait for its end, or name another folder",
                         whose.empty() ? "" : fmt::format(" (process {})", whose)));
    }
    if (is_named(file, path)) return file;
    ::close(file);  // the run that held it has removed it meanwhile
  }
  refuse(place, folder, fmt::format("{} in it is taken again and again", kStoreName));
}

}  // namespace

StorePlace measuring_place(const fs::path& folder, const std::string& key) {
  StorePlace place;
  place.folders = {folder};
  place.key = key;
  place.schedule = "none";
  place.from = "measuring";
  place.named = false;
  return place;
}

StoreFiles::StoreFiles(const StorePlace& place, std::int64_t bytes) {
  try {
    for (std::size_t i = 0; i < place.folders.size(); ++i) take(place, i, bytes);
  } catch (...) {
    release();
    throw;
  }
}

StoreFiles::~StoreFiles() { release(); }

StoreFiles::StoreFiles(StoreFiles&& other) noexcept
    : files_(std::exchange(other.files_, {})), notes_(std::move(other.notes_)) {}

void StoreFiles::release() {
  for (const File& file : files_) {
    named_files().remove(file.descriptor);
    ::close(file.descriptor);
  }
  files_.clear();
}

void StoreFiles::take(const StorePlace& place, std::size_t index, std::int64_t bytes) {
  const fs::path& folder = place.folders[index];
  std::int64_t free_bytes = free_in(place, folder);
  const fs::path path = folder / kStoreName;
  for (const File& earlier : files_) {
    std::error_code error;
    if (fs::equivalent(earlier.path.parent_path(), folder, error))
      refuse(place, folder,
             fmt::format("is named twice (as {}); name each folder once", earlier.path.parent_path().string()));
    if (place.named && device_of(earlier.path) == device_of(folder))
      notes_.push_back(fmt::format("{}: {} and {} lie on one file system; two folders there are no faster than one",
                                   place.key, earlier.path.parent_path().string(), folder.string()));
  }
  bool exists = false;
  const int file = open_locked(place, folder, path, exists);
  files_.push_back({path, file});
  if (!exists) named_files().add(file, path);
  struct stat status {};
  ::fstat(file, &status);
  if (exists && status.st_size > 0) {
    const std::string header = read_header(file);
    if (header.empty())
      refuse(place, folder, fmt::format("{} in it is not a store of penstock-exec; move it away", kStoreName));
    const std::string whose = fmt::format(
        "was left by process {}, which did not end by itself; its states began as {} and are of no checkpoint",
        line_of(header, "process"), line_of(header, "from"));
    if (const std::string other = line_of(header, "schedule"); other != place.schedule && !place.resumed)
      refuse(place, folder,
             fmt::format("{} in it is of another schedule ({}, this one is {}); it {}: remove it, or name another "
                         "folder",
                         kStoreName, other, place.schedule, whose));
    notes_.push_back(fmt::format("{}: {}. They are not used: all is written anew", path.string(), whose));
    free_bytes += static_cast<std::int64_t>(status.st_blocks) * 512;
  }
  if (exists) named_files().add(file, path);
  if (!place.named) named_files().remove(file);
  const std::int64_t needed = kDataOffset + bytes;
  const auto size = [](std::int64_t value) { return format_bytes(static_cast<double>(value)); };
  const auto no_room = [&](const std::string& why) {
    throw DoesNotFit(fmt::format("{} {}: {} are needed there, {} are free: {}", place.key, folder.string(),
                                 size(needed), size(free_bytes), why));
  };
  if (needed > free_bytes) no_room(fmt::format("{} too few", size(needed - free_bytes)));
  if (place.direct && ::fcntl(file, F_SETFL, O_DIRECT) != 0)
    refuse(place, folder,
           fmt::format("its file system does no direct I/O (O_DIRECT: {}); name a folder on a local drive",
                       reason(errno)));
  const Block header = make_block();
  const std::string text = fmt::format("{}file {} of {}\nschedule {}\n{}\nfrom {}\n", kFormat, index,
                                       place.folders.size(), place.schedule, own_name(), place.from);
  std::memcpy(header.get(), text.data(), std::min(text.size(), static_cast<std::size_t>(kDriveAlignment) - 1));
  if (const ssize_t wrote = ::pwrite(file, header.get(), static_cast<std::size_t>(kDriveAlignment), 0);
      wrote != kDriveAlignment) {
    if (wrote >= 0 || lacks_room(errno)) no_room(room_refused(wrote >= 0 ? ENOSPC : errno, needed));
    if (errno == EINVAL)
      refuse(place, folder, fmt::format("its file system does no direct I/O in blocks of {} bytes", kDriveAlignment));
    refuse(place, folder, fmt::format("cannot be written: {}", reason(errno)));
  }
  if (status.st_size > needed && ::ftruncate(file, needed) != 0)
    refuse(place, folder, fmt::format("cannot be written: {}", reason(errno)));
  bool by_zeros = false;
  if (const int error = take_places(file, needed, by_zeros); error != 0) {
    if (lacks_room(error)) no_room(room_refused(error, needed));
    refuse(place, folder, fmt::format("no file of {} can be made there: {}", size(needed), reason(error)));
  }
  if (by_zeros)
    notes_.push_back(fmt::format("{} {}: its file system sets no places aside, so {} of zeros were written", place.key,
                                 folder.string(), size(needed)));
  if (::fsync(file) != 0) refuse(place, folder, fmt::format("cannot be written: {}", reason(errno)));
  sync_folder(folder);
}

std::int64_t free_for_store(const StorePlace& place, std::span<const WrittenBeside> beside) {
  std::map<dev_t, std::int64_t> on_system;  // folders that share one
  for (const fs::path& folder : place.folders) {
    static_cast<void>(free_in(place, folder));
    ++on_system[device_of(folder)];
  }
  std::map<dev_t, std::int64_t> taken;
  for (const WrittenBeside& other : beside) taken[device_of(existing_part(other.to))] += other.bytes;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const fs::path& folder : place.folders) {
    const dev_t device = device_of(folder);
    std::int64_t free_bytes = (free_in(place, folder) - taken[device]) / on_system.at(device);
    struct stat status {};
    if (::stat((folder / kStoreName).c_str(), &status) == 0)
      free_bytes += static_cast<std::int64_t>(status.st_blocks) * 512;
    least = std::min(least, free_bytes - kDataOffset);
  }
  return std::max<std::int64_t>(0, least) * static_cast<std::int64_t>(place.folders.size());
}

}  // namespace penstock::exec
