// The card and the host that a person means: a file of theirs, or one of the catalogue by whatever name they call it.
//
// Cards: case, spaces, dashes and the maker's words do not matter ("RTX 4090", "rtx-4090", "4090", "NVIDIA GeForce RTX
// 4090"); neither do generations of sockets and memory ("NVIDIA A100-SXM4-80GB"). What is left is the chip's name, with
// all that makes it another card ("ti", "super", "max-q"), and must be that of the card; a size of memory and PCIe, SXM
// or NVL must be the card's if they are said, and must be said where it has several. Nothing is chosen silently.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// A path (with a slash, or ending in .toml) is taken from `folder`, any other name from the catalogue. Throws
/// InputError that begins with `place`: of an unknown name with the nearest, of an ambiguous one with all that it may
/// be.
std::filesystem::path find_card(const std::string& name, const std::filesystem::path& folder, const std::string& place);
std::filesystem::path find_host(const std::string& name, const std::filesystem::path& folder, const std::string& place);

}  // namespace penstock
