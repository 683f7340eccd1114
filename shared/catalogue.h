// The catalogue: the scenarios, models, machines, cards, hosts, software and prices that come with Penstock, and where they lie.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

/// What a file of the catalogue is; each kind has a folder of its own there and an extension.
enum class CatalogueKind { scenario, model, hardware, card, host, software, prices };

/// The catalogue: the folder that the environment's PENSTOCK_CATALOGUE names, which must be one, or the first of these that
/// has `models` and `hardware` in it.
///   scenarios                          in the current folder
///   ../share/penstock/scenarios        from the program's own folder, as `cmake --install` lays them, moved or not
///   scenarios                          in the source that the program was built from
/// Throws InputError that names all three if there is none.
std::filesystem::path catalogue_folder();

/// The file of the catalogue that `name` means: a name with or without its extension ("rtx4090", "rtx4090.toml"), a
/// path in the catalogue ("hardware/rtx4090.toml") or from above it ("scenarios/hardware/rtx4090.toml"). None if there
/// is no such file, no catalogue, or `name` is absolute.
std::optional<std::filesystem::path> in_catalogue(CatalogueKind kind, const std::filesystem::path& name);

/// The file that another file in `folder` names: relative to that folder, or else the catalogue's; relative to the folder if
/// neither is there.
std::filesystem::path file_beside(CatalogueKind kind, const std::filesystem::path& folder,
                                  const std::filesystem::path& name);

/// The file that a command line names: `name` if that exists, else the catalogue's. Throws InputError if there is
/// neither, with the nearest of both.
std::filesystem::path named_file(CatalogueKind kind, const std::filesystem::path& name);

/// The same of a folder: "published", "scenarios/measured". A name that is nowhere comes back as it is.
std::filesystem::path named_folder(const std::filesystem::path& name);

/// The names that stand for the catalogue's files of a kind, in order; none if there is no catalogue.
std::vector<std::string> catalogue_names(CatalogueKind kind);

/// For messages: "; did you mean gh200 of the catalogue?" for a name that is not there; empty if none is close.
std::string nearest_in_catalogue(CatalogueKind kind, const std::filesystem::path& name);

}  // namespace penstock
