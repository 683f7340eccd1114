// The sources of this checkout as text, for tests that hold them to a rule.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

struct SourceText {
  std::filesystem::path path;  // from the checkout's root
  std::vector<std::string> lines;
};

/// Every .h, .cpp, .cuh and .cu below `folder` of the checkout.
std::vector<SourceText> source_texts(const std::string& folder);

/// What stands between the quotes or angle brackets of `#include`, with the opening one ('"' or '<'); "" for a line that
/// includes nothing.
std::string included(const std::string& line);

}  // namespace penstock
