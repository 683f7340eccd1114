#include "exec/checkpoint/save_target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/folder_room.h"
#include "exec/checkpoint/safetensors.h"
#include "shared/error.h"
#include "shared/path_kind.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostShown = 1000;  // of a path

std::string reason(int code) { return std::generic_category().message(code); }

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  const std::string name = folder.string();
  throw InputError(fmt::format("{}: cannot be saved to: {}",
                               name.size() > kMostShown ? name.substr(0, kMostShown) + "..." : name, what));
}

/// "cannot be replaced: ..." for the reason why the name of `folder` cannot be taken from it.
std::string why_not_replaced(const fs::path& folder, int code) {
  if (code == EBUSY)
    return fmt::format(
        "it is mounted (a volume of a container, a drive), which cannot be replaced as a whole; name a "
        "folder in it, {}",
        (folder / "checkpoint").string());
  if (code == EXDEV)
    return "it is in a lower layer of an overlay (the image of a container), which cannot be replaced; name a new "
           "folder";
  return fmt::format("it cannot be replaced: {}; name a new folder", reason(code));
}

/// The first thing in the folder that is no part of a checkpoint; empty if there is none.
std::string something_else_in(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (!is_checkpoint_file(at->path().filename().string()) || !at->is_regular_file(error)) return at->path().string();
  return error ? fmt::format("{} ({})", folder.string(), error.message()) : "";
}

[[noreturn]] void refuse_in_the_way(const fs::path& folder, const fs::path& other) {
  refuse(folder,
         fmt::format("{} is in the way, where a save writes; move it away, or name another folder", other.string()));
}

bool is_whole(const fs::path& folder) {
  try {
    const Checkpoint opened(folder);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// CheckpointRecord::replaces of the checkpoint in `folder`, which is whole.
std::string replaced_by(const fs::path& folder) {
  return parse_record(read_record_text(folder), (folder / kRecordFile).string()).replaces;
}

}  // namespace

SaveTarget::SaveTarget(const fs::path& given, FileCalls& calls)
    : calls_(calls), names_(checkpoint_names(given)), lock_((require_place(), names_.lock), names_.folder, calls) {
  take_up_partial();
  take_up_finished();
  probe();
  require_previous();
}

SaveTarget::~SaveTarget() = default;

/// What can be seen without changing anything.
void SaveTarget::require_place() const {
  const fs::path& folder = names_.folder;
  std::error_code error;
  if (!fs::is_directory(names_.parent, error))
    refuse(folder, fmt::format("the folder {} {}", names_.parent.string(),
                               !error || error == std::errc::no_such_file_or_directory
                                   ? "does not exist"
                                   : fmt::format("cannot be opened: {}", error.message())));
  const std::size_t longest = names_.previous.filename().string().size();
  const long most = ::pathconf(names_.parent.c_str(), _PC_NAME_MAX);
  if (most > 0 && longest > static_cast<std::size_t>(most))
    refuse(folder, fmt::format("its name is {} bytes too long for what is written beside it (NAME.previous); name a "
                               "shorter one",
                               longest - static_cast<std::size_t>(most)));
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status) && is_there(folder)) refuse(folder, error.message());
  if (!fs::exists(status)) return;
  if (is_mount_point(folder)) refuse(folder, why_not_replaced(folder, EBUSY));
  if (!fs::is_directory(status) || (!fs::is_empty(folder, error) && !fs::exists(folder / kRecordFile, error)))
    refuse(folder, "it exists and is not a checkpoint; name a new folder");
  if (const std::string other = something_else_in(folder); !other.empty())
    refuse(folder,
           fmt::format("{} is no part of a checkpoint and would be lost; name a new folder, or move it away", other));
}

/// Throws InputError unless `other`, beside `folder`, can be what a save left.
void SaveTarget::require_own(const fs::path& other) const {
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(other, error)) && something_else_in(other).empty()) return;
  refuse_in_the_way(names_.folder, other);
}

void SaveTarget::take_up_partial() {
  const fs::path& partial = names_.partial;
  if (!is_there(partial)) return;
  require_own(partial);
  if (record_checksum_in(partial).empty()) return remove(partial);
  // Cut off between its last byte and its next name.
  if (is_there(names_.finished) || !is_on_its_way(partial)) refuse_in_the_way(names_.folder, partial);
  rename(partial, names_.finished);
}

void SaveTarget::take_up_finished() {
  const fs::path& finished = names_.finished;
  if (!is_there(finished)) return;
  require_own(finished);
  if (record_checksum_in(finished).empty() || was_replaced(finished)) return remove(finished);
  if (!is_on_its_way(finished)) refuse_in_the_way(names_.folder, finished);
  try {
    const fs::path old = take_place();
    sync(names_.parent);
    remove(old);
  } catch (const std::runtime_error& error) {
    lock_.leave();
    refuse(names_.folder, fmt::format("{} is the finished checkpoint of an earlier run, which cannot be put in its "
                                      "place: {}",
                                      finished.string(), error.what()));
  }
  notes_.push_back(fmt::format("{}: an earlier run was cut off before its finished checkpoint stood there; now it does",
                               names_.folder.string()));
}

bool SaveTarget::is_on_its_way(const fs::path& finished) const {
  if (!lock_.was_left() || !is_whole(finished)) return false;
  const std::string old = replaced_by(finished);
  if (is_there(names_.folder)) return old == record_checksum_in(names_.folder);
  return old.empty() || old == record_checksum_in(names_.previous);
}

bool SaveTarget::was_replaced(const fs::path& old) const {
  const std::string own = record_checksum_in(old);
  return lock_.was_left() && !own.empty() && is_whole(names_.folder) && replaced_by(names_.folder) == own;
}

/// Goes through what the save will do, with folders of one empty file.
void SaveTarget::probe() {
  const auto try_to = [&](const char* what, bool done) {
    if (!done) throw std::runtime_error(fmt::format("in {} {}: {}", names_.parent.string(), what, reason(errno)));
  };
  const auto make = [&](const fs::path& folder) {
    try_to("no folder can be made", calls_.mkdir(folder.c_str(), 0777) == 0);
    const fs::path inside = folder / kWeightsFile;  // no run.json: it is no checkpoint, whatever happens now
    const FileHandle file(calls_.open(inside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    try_to("no file can be made", file.get() >= 0);
  };
  try {
    make(names_.partial);
    try_to("a folder cannot be renamed", calls_.rename(names_.partial.c_str(), names_.finished.c_str()) == 0);
    make(names_.partial);
    can_exchange_ = calls_.exchange(names_.partial.c_str(), names_.finished.c_str()) == 0;
    sync(names_.partial);
    sync(names_.parent);
  } catch (const std::exception& error) {
    remove(names_.partial);
    remove(names_.finished);
    refuse(names_.folder, error.what());
  }
  const int denied = is_there(names_.folder) ? try_to_take(names_.folder, names_.finished) : 0;
  remove(names_.partial);
  remove(names_.finished);
  require_removed(names_.partial);
  require_removed(names_.finished);
  if (denied != 0) refuse(names_.folder, why_not_replaced(names_.folder, denied));
}

/// A folder takes the place of none that has something in it, so that nothing happens; whatever forbids to take its
/// name away even otherwise is said first. Returns that, or 0.
int SaveTarget::try_to_take(const fs::path& folder, const fs::path& scratch) const {
  if (calls_.rename(folder.c_str(), scratch.c_str()) != 0) return errno == ENOTEMPTY || errno == EEXIST ? 0 : errno;
  rename(scratch, folder);  // a file system that does it all the same
  return 0;
}

/// Else the save would find it in its way.
void SaveTarget::require_removed(const fs::path& folder) const {
  if (is_there(folder))
    refuse(names_.folder,
           fmt::format("{} was made to try it and cannot be removed: {}", folder.string(), reason(errno)));
}

/// Where folders cannot be exchanged, the old checkpoint needs this name for a moment.
void SaveTarget::require_previous() {
  const fs::path& previous = names_.previous;
  if (!is_there(previous)) return;
  std::error_code error;
  const bool is_rest = record_checksum_in(previous).empty() && fs::is_directory(fs::symlink_status(previous, error)) &&
                       something_else_in(previous).empty();
  if (was_replaced(previous) || (is_rest && (lock_.was_left() || !can_exchange_))) return remove(previous);
  if (!can_exchange_) refuse_in_the_way(names_.folder, previous);
}

void SaveTarget::require_room(std::span<const std::int64_t> file_bytes) const {
  std::vector<PlannedFile> files;
  for (std::size_t i = 0; i < file_bytes.size(); ++i)
    files.push_back({std::string(kCheckpointFiles[i]), file_bytes[i]});
  penstock::exec::require_room(names_, files, "a checkpoint of this run",
                               is_there(names_.folder) ? " (the old one stands until the new one is whole)" : "",
                               calls_);
}

fs::path SaveTarget::begin() {
  make_folder(names_.partial);
  return names_.partial;
}

std::string SaveTarget::replaces() const { return record_checksum_in(names_.folder); }

void SaveTarget::put_in_place() {
  const std::string folder = names_.folder.string();
  fs::path kept = names_.partial, old;
  try {
    sync(names_.partial);
    rename(names_.partial, names_.finished);
    kept = names_.finished;
    sync(names_.parent);
    old = take_place();
  } catch (const std::exception& error) {
    lock_.leave();
    throw std::runtime_error(fmt::format(
        "{}: the checkpoint is finished and kept in {}, but cannot be put in its place: {}{}", folder, kept.string(),
        error.what(), is_there(names_.folder) ? fmt::format("; {} is what it was before", folder) : ""));
  }
  try {
    sync(names_.parent);
  } catch (const std::exception& error) {
    lock_.leave();
    throw std::runtime_error(fmt::format(
        "{}: the checkpoint is in its place, but the system does not promise that it stays there: {}{}", folder,
        error.what(), old.empty() ? "" : fmt::format("; the one before is kept in {}", old.string())));
  }
  remove(old);
  if (!old.empty() && is_there(old)) lock_.leave();  // the next one removes it
}

void SaveTarget::abandon() noexcept { remove(names_.partial); }

void SaveTarget::make_folder(const fs::path& folder) const {
  if (calls_.mkdir(folder.c_str(), 0777) != 0)
    throw std::runtime_error(fmt::format("{}: cannot be made: {}", folder.string(), reason(errno)));
}

void SaveTarget::sync(const fs::path& folder) const {
  const FileHandle handle(calls_.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  // EINVAL: a file system that has nothing to sync of a folder.
  if (handle.get() < 0 || (calls_.fsync(handle.get()) != 0 && errno != EINVAL))
    throw std::runtime_error(fmt::format("{}: cannot be synced: {}", folder.string(), reason(errno)));
}

void SaveTarget::rename(const fs::path& from, const fs::path& to) const {
  if (calls_.rename(from.c_str(), to.c_str()) != 0)
    throw std::runtime_error(fmt::format("{} cannot be renamed to {}: {}", from.string(), to.string(), reason(errno)));
}

/// What is finished takes the folder's place. Returns where the one before is now; empty: there was none.
fs::path SaveTarget::take_place() const {
  if (!is_there(names_.folder)) {
    rename(names_.finished, names_.folder);
    return {};
  }
  if (const std::string other = something_else_in(names_.folder); !other.empty())
    throw std::runtime_error(fmt::format("{} is no part of a checkpoint and would be lost", other));
  if (calls_.exchange(names_.finished.c_str(), names_.folder.c_str()) == 0) return names_.finished;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    throw std::runtime_error(fmt::format("{}: {}", names_.folder.string(), reason(errno)));
  rename(names_.folder, names_.previous);
  try {
    rename(names_.finished, names_.folder);
  } catch (const std::runtime_error&) {
    calls_.rename(names_.previous.c_str(), names_.folder.c_str());
    throw;
  }
  return names_.previous;
}

/// The next save takes up what is left.
void SaveTarget::remove(const fs::path& folder) const noexcept { remove_checkpoint(folder, calls_); }

void remove_checkpoint(const fs::path& folder, FileCalls& calls) noexcept {
  if (folder.empty()) return;
  try {
    std::error_code error;
    calls.unlink((folder / kRecordFile).c_str());
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (is_checkpoint_file(at->path().filename().string())) calls.unlink(at->path().c_str());
    calls.rmdir(folder.c_str());
  } catch (const std::exception&) {
    return;  // no memory for a path
  }
}

}  // namespace penstock::exec
