#include "exec/checkpoint/checkpoint_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "exec/checkpoint/checkpoint_record.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/path_kind.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

fs::path beside(const fs::path& folder, const char* suffix) { return folder.string() + suffix; }

/// Whether the finished checkpoint beside FOLDER, which is not there, was on its way to it (save_target.h).
bool was_on_its_way(const CheckpointNames& names) {
  if (!is_there(names.lock)) return false;
  try {
    const std::string place = (names.finished / kRecordFile).string();
    const std::string old = parse_record(read_record_text(names.finished), place).replaces;
    return old.empty() || old == record_checksum_in(names.previous);
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

CheckpointNames checkpoint_names(const fs::path& given) {
  fs::path named = given;
  while (named.has_relative_path() && (!named.has_filename() || named.filename() == ".")) named = named.parent_path();
  const fs::path folder = follow_links(named);
  const fs::path name = folder.filename();
  if (name.empty() || name == "." || name == "..")
    throw InputError(
        fmt::format("\"{}\": cannot be a checkpoint's folder, which is replaced as a whole and has others beside it; "
                    "name a folder of its own",
                    given.string()));
  return {folder,
          beside(folder, ".partial"),
          beside(folder, ".new"),
          beside(folder, ".previous"),
          beside(folder, ".lock"),
          folder.has_parent_path() ? folder.parent_path() : fs::path(".")};
}

bool is_checkpoint_file(std::string_view name) {
  return std::any_of(std::begin(kCheckpointFiles), std::end(kCheckpointFiles), [&](std::string_view file) {
    return name == file || (name.starts_with(std::string(file) + ".") && name.ends_with(".tmp"));  // OutputFile's
  });
}

std::string record_checksum_in(const fs::path& folder) {
  try {
    return record_checksum(read_record_text(folder));
  } catch (const InputError&) {
    return {};
  }
}

CheckpointNames names_to_read(const fs::path& given) {
  const fs::path name = given.lexically_normal().filename();
  return checkpoint_names(name == "." || name == ".." ? fs::weakly_canonical(given) : given);
}

fs::path find_checkpoint(const fs::path& given) {
  const CheckpointNames names = names_to_read(given);
  if (is_there(names.folder)) return names.folder;
  if (was_on_its_way(names)) return names.finished;
  std::string others;
  for (const fs::path& other : {names.finished, names.previous})
    if (!record_checksum_in(other).empty()) others += fmt::format("; {} holds a checkpoint", other.string());
  if (others.empty()) return names.folder;  // whose file then says what is wrong, and what may have been meant
  throw InputError(fmt::format("{}: is not there{}", given.string(), others));
}

}  // namespace penstock::exec
