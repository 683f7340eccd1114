// Where this checkout lies, for tests that read its files. A function and no macro: objects that name no path are the
// same in every checkout, so a compiler cache serves all of them.
#pragma once

#include <filesystem>

namespace penstock {

std::filesystem::path source_folder();

}  // namespace penstock
