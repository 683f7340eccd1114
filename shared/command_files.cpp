#include "shared/command_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "shared/error.h"
#include "shared/files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Identity = std::pair<dev_t, ino_t>;

[[noreturn]] void refuse(std::string_view option, const fs::path& path, std::string_view why) {
  throw InputError(fmt::format("{} {}: {}; name another place", option, path.string(), why));
}

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

std::optional<Identity> identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

/// Of what is at `path` and, if it is a folder, of all that is in it.
std::set<Identity> contents_of(const fs::path& path) {
  std::set<Identity> all;
  const auto add = [&all](const fs::path& at) {
    if (const std::optional<Identity> identity = identity_of(at)) all.insert(*identity);
  };
  add(path);
  std::error_code error;
  if (!fs::is_directory(path, error)) return all;
  for (fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error))
    add(at->path());
  return all;
}

bool meet(const std::set<Identity>& a, const std::set<Identity>& b) {
  return std::any_of(a.begin(), a.end(), [&b](const Identity& one) { return b.contains(one); });
}

/// Where an output will be.
struct Place {
  std::string spelt;                // absolute, links followed as far as there is something, in small letters
  std::optional<Identity> itself;   // none: nothing is there yet
  std::vector<Identity> ancestors;  // the folders above it that are there
};

Place place_of(const fs::path& given) {
  const fs::path path = without_slash(given);
  std::error_code error;
  const fs::path followed = fs::absolute(follow_links(path));
  fs::path absolute = fs::weakly_canonical(followed, error);
  if (error) absolute = followed.lexically_normal();  // a folder that may not be looked into
  Place place{absolute.string(), identity_of(path), {}};
  for (char& c : place.spelt) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (fs::path at = absolute; at != at.parent_path(); at = at.parent_path())
    if (const std::optional<Identity> above = identity_of(at.parent_path())) place.ancestors.push_back(*above);
  return place;
}

bool is_same(const Place& a, const Place& b) { return a.spelt == b.spelt || (a.itself && a.itself == b.itself); }

bool lies_in(const Place& inner, const Place& outer) {
  if (inner.spelt.starts_with(outer.spelt + "/")) return true;
  return outer.itself &&
         std::find(inner.ancestors.begin(), inner.ancestors.end(), *outer.itself) != inner.ancestors.end();
}

/// Throws InputError unless `folder` is one, or can be made one.
void check_made_folder(const fs::path& folder, std::string_view option) {
  std::error_code error;
  fs::path at = fs::absolute(without_slash(folder)), missing;
  for (; fs::symlink_status(at, error).type() == fs::file_type::not_found; at = at.parent_path()) missing = at;
  if (!fs::is_directory(at, error))
    refuse(option, folder, fmt::format("cannot be made a folder: {} is none", at.string()));
  if (!missing.empty()) check_output_file(missing);
}

/// The files that this process's own text goes to.
std::set<Identity> standard_streams() {
  std::set<Identity> streams;
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status {};
    if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) streams.insert({status.st_dev, status.st_ino});
  }
  return streams;
}

}  // namespace

void CommandFiles::reads(const fs::path& path) {
  if (!path.empty()) inputs_.push_back(path);
}

void CommandFiles::reads(std::span<const fs::path> paths) {
  for (const fs::path& path : paths) reads(path);
}

void CommandFiles::writes(const fs::path& path, std::string_view option) {
  if (!path.empty()) outputs_.push_back({path, std::string(option), false, {}, {}, {}});
}

void CommandFiles::writes_into(const fs::path& folder, const std::vector<std::string>& names, std::string_view option) {
  if (folder.empty()) return;
  for (const std::string& name : names) outputs_.push_back({folder / name, std::string(option), false, folder, {}, {}});
}

void CommandFiles::replaces(const fs::path& folder, std::string_view option, const fs::path& instead_of) {
  if (!folder.empty()) outputs_.push_back({folder, std::string(option), true, {}, instead_of, {}});
}

void CommandFiles::uses(const fs::path& path, std::string_view option, const fs::path& given) {
  outputs_.push_back({path, std::string(option), true, {}, {}, given});
}

void CommandFiles::check() const {
  if (outputs_.empty()) return;
  for (const Output& output : outputs_) check_alone(output);
  check_inputs();
  check_outputs();
}

void CommandFiles::check_alone(const Output& output) const {
  std::error_code error;
  if (!output.made_folder.empty()) check_made_folder(output.made_folder, output.option);
  if (output.is_folder || (!output.made_folder.empty() && !fs::exists(output.made_folder, error))) return;
  check_output_file(output.path);
}

void CommandFiles::refuse_output(const Output& output, const std::string& why) {
  if (output.given.empty()) refuse(output.option, output.path, why);
  throw InputError(fmt::format("{} {}: {}, which it needs, {}; name another place", output.option,
                               output.given.string(), output.path.string(), why));
}

void CommandFiles::check_inputs() const {
  std::vector<std::set<Identity>> read;
  for (const fs::path& input : inputs_) read.push_back(contents_of(input));
  const std::set<Identity> streams = standard_streams();
  std::error_code error;
  for (const Output& output : outputs_) {
    const Place place = place_of(output.path);
    const std::set<Identity> lost = output.is_folder ? contents_of(output.path)
                                    : place.itself   ? std::set<Identity>{*place.itself}
                                                     : std::set<Identity>{};
    if (meet(lost, streams)) refuse_output(output, "is where this command's own messages go");
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const fs::path& input = inputs_[i];
      if (!output.instead_of.empty() && fs::equivalent(input, output.instead_of, error) &&
          (fs::equivalent(output.path, output.instead_of, error) || lies_in(place_of(output.instead_of), place)))
        continue;
      if (meet(lost, read[i]))
        refuse_output(output, fmt::format("would replace what this command reads, {}", input.string()));
      for (const Identity& above : place.ancestors)
        if (read[i].contains(above))
          refuse(output.option, output.path,
                 fmt::format("lies in the folder {}, which this command reads as a whole", input.string()));
    }
  }
}

void CommandFiles::check_outputs() const {
  std::vector<Place> places;
  for (const Output& output : outputs_) places.push_back(place_of(output.path));
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto other = [&](std::size_t k) {
        return fmt::format("{} ({})", outputs_[k].path.string(), outputs_[k].option);
      };
      if (is_same(places[i], places[j]))
        refuse_output(outputs_[i], fmt::format("would be written twice, also as {}", other(j)));
      if (lies_in(places[i], places[j]))
        refuse_output(outputs_[i], fmt::format("lies in {}, which is written as a whole", other(j)));
      if (lies_in(places[j], places[i]))
        refuse_output(outputs_[j], fmt::format("lies in {}, which is written as a whole", other(i)));
    }
}

}  // namespace penstock
