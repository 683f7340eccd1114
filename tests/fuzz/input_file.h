// Our readers take files: a folder for one fuzz target, whose files are overwritten input by input.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace penstock {

class InputFolder {
 public:
  InputFolder() {
    // In memory where there is such a place: a disk that syncs every overwritten file makes the targets 30 times
    // slower.
    const std::filesystem::path memory = "/dev/shm";
    std::error_code ignored;
    const std::filesystem::path place =
        std::filesystem::exists(memory, ignored) ? memory : std::filesystem::temp_directory_path();
    std::string pattern = (place / "penstock-fuzz-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~InputFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace penstock
