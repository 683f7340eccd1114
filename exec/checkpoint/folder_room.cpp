#include "exec/checkpoint/folder_room.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <stdexcept>
#include <system_error>

#include "exec/checkpoint/safetensors.h"
#include "shared/error.h"
#include "shared/path_kind.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

// Of a folder, of a small file, and of what a file system notes about files.
constexpr std::int64_t kFolderBytes = 64 << 10;

std::string reason(int code) { return std::generic_category().message(code); }

std::int64_t free_bytes(const struct statvfs& system) {
  // What is kept for root is free for root.
  const auto blocks = ::geteuid() == 0 ? system.f_bfree : system.f_bavail;
  return static_cast<std::int64_t>(std::min<unsigned long long>(blocks, INT64_MAX / system.f_frsize) * system.f_frsize);
}

bool is_in_memory(const fs::path& folder) {
  struct statfs system {};
  return ::statfs(folder.c_str(), &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

/// Takes the room for a moment. Empty, or why it cannot be had.
std::string try_room(const CheckpointNames& names, std::span<const PlannedFile> files, FileCalls& calls) {
  const fs::path& partial = names.partial;
  if (calls.mkdir(partial.c_str(), 0777) != 0)
    throw std::runtime_error(fmt::format("{}: cannot be made: {}", partial.string(), reason(errno)));
  std::string why;
  for (std::size_t i = 0; i < files.size() && why.empty(); ++i) {
    const FileHandle file(calls.open((partial / files[i].name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() < 0 || calls.allocate(file.get(), files[i].bytes) == 0) continue;
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
      why = fmt::format("{} cannot take it: {}", names.parent.string(), reason(errno));
  }
  for (const PlannedFile& file : files) calls.unlink((partial / file.name).c_str());
  calls.rmdir(partial.c_str());
  if (is_there(partial))
    throw InputError(fmt::format("{}: cannot be saved to: {} was made to try it and cannot be removed: {}",
                                 names.folder.string(), partial.string(), reason(errno)));
  return why;
}

}  // namespace

void require_room(const CheckpointNames& names, std::span<const PlannedFile> files, std::string_view what,
                  std::string_view beside, FileCalls& calls) {
  struct statvfs system {};
  const bool known = calls.statvfs(names.parent.c_str(), &system) == 0 && system.f_frsize > 0 && system.f_blocks > 0;
  const std::int64_t block = known ? static_cast<std::int64_t>(system.f_frsize) : 4096;
  std::int64_t needed = kFolderBytes, largest = 0;
  for (const PlannedFile& file : files) {
    needed += (file.bytes + block - 1) / block * block;
    largest = std::max(largest, file.bytes);
  }
  const auto refuse = [&](const std::string& why) {
    throw DoesNotFit(fmt::format("{}: {} has {} and {}; name a folder elsewhere, or make room", names.folder.string(),
                                 what, format_bytes(static_cast<double>(needed)), why));
  };
  if (known && free_bytes(system) < needed)
    refuse(fmt::format("{} has {} free{}", names.parent.string(), format_bytes(static_cast<double>(free_bytes(system))),
                       beside));
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<std::int64_t>(limit.rlim_cur) < largest)
    refuse(fmt::format("its largest file {}, more than the {} that a process may write here (ulimit -f)",
                       format_bytes(static_cast<double>(largest)), format_bytes(static_cast<double>(limit.rlim_cur))));
  if (is_in_memory(names.parent)) return;  // all that is free is free, and taking it would write every page
  const std::string why = try_room(names, files, calls);
  if (!why.empty()) refuse(why);
}

}  // namespace penstock::exec
