#include "shared/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "shared/error.h"
#include "shared/files.h"

namespace penstock {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw InputError(fmt::format("{}: {}", path.string(), what));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) refuse(path, "cannot be read: " + why_not_read(path, errno));
  if (S_ISDIR(status.st_mode)) refuse(path, "is a folder; name a file in it");
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file");
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse(path, "cannot be read: " + why_not_read(path, errno));
  const char* why = nullptr;
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) why = "is not a regular file";
  if (why == nullptr && status.st_size == 0) why = "is empty";
  void* start = MAP_FAILED;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (why == nullptr) {
    start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (start == MAP_FAILED) why = std::strerror(errno);
  }
  if (why != nullptr) {
    ::close(descriptor_);
    refuse(path, why);
  }
  bytes_ = {static_cast<const unsigned char*>(start), size};
  changed_seconds_ = status.st_mtim.tv_sec;
  changed_nanoseconds_ = status.st_mtim.tv_nsec;
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<unsigned char*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

void MappedFile::require_unchanged() const {
  struct stat now {};
  if (::fstat(descriptor_, &now) != 0 || static_cast<std::size_t>(now.st_size) != bytes_.size() ||
      now.st_mtim.tv_sec != changed_seconds_ || now.st_mtim.tv_nsec != changed_nanoseconds_)
    throw std::runtime_error(
        fmt::format("{}: was changed while it was in use; write a new file and rename it instead", path_.string()));
}

}  // namespace penstock
