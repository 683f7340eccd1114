#include "shared/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/nearest_name.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Folder and extension of each kind, in the order of the enum.
struct Place {
  std::string_view folder, extension;
};
constexpr Place kPlaces[] = {{"", ".toml"},      {"models", ".json"},   {"hardware", ".toml"}, {"cards", ".toml"},
                             {"hosts", ".toml"}, {"software", ".toml"}, {"prices", ".toml"}};

constexpr const char* kVariable = "PENSTOCK_CATALOGUE";

const Place& place_of(CatalogueKind kind) { return kPlaces[static_cast<std::size_t>(kind)]; }

/// Where the program was installed, if it was.
fs::path installed() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return (program.parent_path() / PENSTOCK_SHARE_FROM_PROGRAMS / "penstock/scenarios").lexically_normal();
}

std::vector<fs::path> places() { return {"scenarios", installed(), PENSTOCK_SOURCE_CATALOGUE}; }

bool is_catalogue(const fs::path& folder) {
  std::error_code ignored;
  return !folder.empty() && fs::is_directory(folder / "models", ignored) &&
         fs::is_directory(folder / "hardware", ignored);
}

std::optional<fs::path> catalogue() {
  if (const char* const chosen = std::getenv(kVariable); chosen != nullptr && *chosen != '\0') {
    if (is_catalogue(chosen)) return chosen;
    throw InputError(fmt::format(
        "the environment's {} is {}, which is no catalogue: it has no folders models and hardware", kVariable, chosen));
  }
  for (const fs::path& folder : places())
    if (is_catalogue(folder)) return folder;
  return std::nullopt;
}

/// The first of the catalogue's `names` that is of the type; from above the catalogue where it begins with its name.
std::optional<fs::path> first_there(const std::vector<fs::path>& names, fs::file_type type) {
  const auto folder = catalogue();
  if (!folder) return std::nullopt;
  std::error_code ignored;
  for (const fs::path& name : names) {
    if (name.empty() || name.is_absolute()) continue;
    if (fs::status(*folder / name, ignored).type() == type) return *folder / name;
    const fs::path above = folder->parent_path() / name;
    if (*name.begin() == folder->filename() && fs::status(above, ignored).type() == type) return above;
  }
  return std::nullopt;
}

/// "rtx4090" of "hardware/rtx4090.toml"; names may have points in them.
std::string bare_name(const Place& place, const fs::path& file) {
  std::string name = file.filename().string();
  if (name.ends_with(place.extension)) name.resize(name.size() - place.extension.size());
  return name;
}

/// Files of a kind by the names that stand for them.
std::vector<std::string> names_of(CatalogueKind kind, const fs::path& folder) {
  const Place& place = place_of(kind);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder / place.folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == place.extension) names.push_back(bare_name(place, at->path()));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

fs::path catalogue_folder() {
  if (const auto folder = catalogue()) return *folder;
  const std::vector<fs::path> tried = places();
  throw InputError(fmt::format(
      "the catalogue is in none of its places: ./{}, {} (beside an installed program), {} (of its source); change to a "
      "folder with one, or install the program with `cmake --install`",
      tried[0].string(), tried[1].string(), tried[2].string()));
}

std::optional<fs::path> in_catalogue(CatalogueKind kind, const fs::path& name) {
  const Place& place = place_of(kind);
  const fs::path own = place.folder / name;
  return first_there({own, own.string() + std::string(place.extension), name}, fs::file_type::regular);
}

fs::path file_beside(CatalogueKind kind, const fs::path& folder, const fs::path& name) {
  std::error_code ignored;
  const fs::path beside = folder / name;
  return fs::exists(beside, ignored) ? beside : in_catalogue(kind, name).value_or(beside);
}

fs::path named_file(CatalogueKind kind, const fs::path& name) {
  std::error_code error;
  const fs::file_type type = fs::status(name, error).type();
  const bool is_there = type != fs::file_type::not_found && type != fs::file_type::directory;
  if (name.empty() || is_there) return name;  // whoever reads it says what else is wrong with it
  if (auto file = in_catalogue(kind, name)) return *file;
  const int reason = error.value();
  if (type == fs::file_type::directory || fs::is_symlink(fs::symlink_status(name, error))) return name;
  const std::string why = why_not_read(name, reason);
  throw InputError(fmt::format("{}: cannot be read: {}{}", name.string(), why,
                               why.ends_with('?') ? "" : nearest_in_catalogue(kind, name)));
}

fs::path named_folder(const fs::path& name) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return name;
  return first_there({name}, fs::file_type::directory).value_or(name);
}

std::vector<std::string> catalogue_names(CatalogueKind kind) {
  const auto folder = catalogue();
  return folder ? names_of(kind, *folder) : std::vector<std::string>{};
}

std::string nearest_in_catalogue(CatalogueKind kind, const fs::path& name) {
  const auto folder = catalogue();
  if (!folder) return "";
  const std::string nearest = nearest_name(bare_name(place_of(kind), name), names_of(kind, *folder));
  return nearest.empty() ? "" : fmt::format("; did you mean {} of the catalogue?", nearest);
}

}  // namespace penstock
