// What one command reads and what it is to write, held against each other before it begins: no output may destroy an
// input, or another output of the same command.
//
//   CommandFiles files;
//   files.reads(scenario.files);
//   files.writes(options.timeline, "--timeline");
//   files.check();
//
// Two names are the same place if they lead to one inode (through links, hard links, `..`, bind mounts) or, where
// nothing is there yet, if they are spelt the same after all that, letter case aside (some file systems keep none).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Empty paths do not count, so that options which were not given need no condition.
class CommandFiles {
 public:
  /// A file, or a folder with everything in it: nothing may be written there. What does not exist does not count.
  void reads(const std::filesystem::path& path);
  void reads(std::span<const std::filesystem::path> paths);

  /// A file. `option` stands in messages.
  void writes(const std::filesystem::path& path, std::string_view option);
  /// Files of these names in a folder that is made if need be.
  void writes_into(const std::filesystem::path& folder, const std::vector<std::string>& names, std::string_view option);
  /// A folder, replaced with everything in it. `instead_of`: an input that may be replaced so, where it is this folder or lies in it.
  void replaces(const std::filesystem::path& folder, std::string_view option,
                const std::filesystem::path& instead_of = {});

  /// What `option`, given as `given`, needs `path` for by itself: nothing of this command may be there.
  void uses(const std::filesystem::path& path, std::string_view option, const std::filesystem::path& given);

  /// Throws InputError that names the output, its option and what is in its way.
  void check() const;

 private:
  struct Output {
    std::filesystem::path path;
    std::string option;
    bool is_folder = false;             // replaced whole
    std::filesystem::path made_folder;  // that the file is in, see `writes_into`; empty: one that is there
    std::filesystem::path instead_of;   // see `replaces`
    std::filesystem::path given;        // see `uses`; empty: `path` is what was given
  };
  void check_alone(const Output& output) const;
  [[noreturn]] static void refuse_output(const Output& output, const std::string& why);
  void check_inputs() const;
  void check_outputs() const;

  std::vector<std::filesystem::path> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace penstock
