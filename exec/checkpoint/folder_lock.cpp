#include "exec/checkpoint/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string_view>
#include <system_error>

#include "shared/error.h"

namespace penstock::exec {
namespace {

constexpr std::string_view kOurs = "held by penstock-exec, ";
constexpr int kAttempts = 1000;  // each one fails only because another process has let go in this moment

std::string own_text() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}process {} on {}\n", kOurs, ::getpid(), host.data());
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& file, const std::filesystem::path& folder, FileCalls& calls)
    : file_(file), folder_(folder), calls_(calls) {
  try {
    for (int attempt = 0; !take(); ++attempt)
      if (attempt == kAttempts) refuse(fmt::format("{} is taken again and again", file_.string()));
  } catch (...) {
    if (descriptor_ >= 0) calls_.close(descriptor_);
    throw;
  }
}

/// False if the file that was locked is not the one of that name any more: its holder has removed it meanwhile.
bool FolderLock::take() {
  descriptor_ = calls_.open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    refuse(fmt::format("{} cannot be made: {}", file_.string(), std::generic_category().message(errno)));
  struct stat opened {
  }, named{};
  const std::string found = owner();
  if (::fstat(descriptor_, &opened) != 0 || !S_ISREG(opened.st_mode) || (!found.empty() && !found.starts_with(kOurs)))
    refuse(fmt::format("{} is in the way, which is to say who saves there, and is something else; move it away",
                       file_.string()));
  const std::string whose = found.empty() ? "" : fmt::format(" ({})", found.substr(kOurs.size()));
  if (calls_.lock(descriptor_) != 0) {
    if (errno == EWOULDBLOCK)
      refuse(fmt::format("another run saves there{}; wait for its end, or name another folder", whose));
    // The file system knows no locks: the file itself is one.
    if (!found.empty())
      refuse(
          fmt::format("another run saves there{}, or was killed, which cannot be told where {} lies: {}; remove that "
                      "file if the run is no more",
                      whose, file_.string(), std::generic_category().message(errno)));
  }
  was_left_ = !found.empty();
  if (::stat(file_.c_str(), &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev) {
    calls_.close(descriptor_);
    descriptor_ = -1;
    return false;
  }
  const std::string text = own_text();
  // For people only: a disk that is too full for it is found out by what has more to write.
  if (calls_.pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ::ftruncate(descriptor_, static_cast<off_t>(text.size())) != 0)
    refuse(fmt::format("{}: {}", file_.string(), std::generic_category().message(errno)));
  return true;
}

FolderLock::~FolderLock() {
  if (!leaves_) calls_.unlink(file_.c_str());  // still locked: whoever opened it sees that it has lost its name
  calls_.close(descriptor_);
}

/// Its first line; empty if there is none.
std::string FolderLock::owner() const {
  std::array<char, 512> text{};
  const ssize_t got = ::pread(descriptor_, text.data(), text.size(), 0);
  const std::string line(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  return line.substr(0, line.find('\n'));
}

void FolderLock::refuse(const std::string& what) const {
  throw InputError(fmt::format("{}: cannot be saved to: {}", folder_.string(), what));
}

}  // namespace penstock::exec
