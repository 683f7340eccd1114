#include "tests/source_text.h"

#include <fstream>
#include <set>

#include "tests/source_folder.h"

namespace penstock {

std::vector<SourceText> source_texts(const std::string& folder) {
  const std::set<std::string> endings = {".h", ".cpp", ".cuh", ".cu"};
  std::vector<SourceText> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_folder() / folder)) {
    if (!entry.is_regular_file() || !endings.contains(entry.path().extension().string())) continue;
    SourceText source{std::filesystem::relative(entry.path(), source_folder()), {}};
    std::ifstream text(entry.path());
    for (std::string line; std::getline(text, line);) source.lines.push_back(line);
    found.push_back(std::move(source));
  }
  return found;
}

std::string included(const std::string& line) {
  const std::string opens = "#include ";
  if (!line.starts_with(opens) || line.size() == opens.size()) return "";
  return line.substr(opens.size(), line.find_first_of("\">", opens.size() + 1) - opens.size());
}

}  // namespace penstock
