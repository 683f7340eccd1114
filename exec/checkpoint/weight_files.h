// The safetensors files of a published model: one, or several behind an index ("model.safetensors.index.json"), whose
// "weight_map" says which tensor is read from which file. The map is obeyed: a tensor that stands in other files too is
// read from the one that it names. "metadata" of an index (total_size) is for people: every tensor is held against its
// own file, so that a wrong sum could only refuse what is right.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/safetensors.h"

namespace penstock::exec {

/// Names of the folder's entries, in order. Throws InputError if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Thread safety: reads may run side by side.
class WeightFiles {
 public:
  /// `path`: a .safetensors file, an index, or a folder that has either under the names of transformers, which takes
  /// model.safetensors where both are there, and so is it here. Throws InputError as SafetensorsFile does; for a folder
  /// without weights, or with an adapter, with what is in it; for an index that names files which are not there, or a
  /// file for a tensor that it does not have.
  explicit WeightFiles(const std::filesystem::path& path);

  struct Source {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };
  using Sources = std::map<std::string_view, Source>;
  /// What can be read, by name.
  const Sources& tensors() const { return tensors_; }
  /// Tensors that stand in the files but not in the index: never read.
  const Sources& unlisted() const { return unlisted_; }
  const Source* find(std::string_view name) const;

  /// As SafetensorsFile::verify, file by file.
  void verify() const;
  /// As SafetensorsFile::read.
  void read(std::string_view name, std::int64_t first, std::span<float> out) const;

  const std::filesystem::path& path() const { return path_; }
  /// Where one file is read: the index beside it that names another file for the tensor; else empty.
  std::filesystem::path index_of(std::string_view tensor) const;
  /// Which files are read, what was decided about tensors that stand twice, and which files beside them are not read;
  /// one line.
  std::string describe() const;

 private:
  using WeightMap = std::map<std::string, std::string>;  // file by tensor
  void open_shards(const std::filesystem::path& index, const WeightMap& map);

  std::filesystem::path path_;  // as given
  std::filesystem::path start_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  Sources tensors_, unlisted_;
  std::size_t repeated_ = 0;  // tensors that stand in more than one file
};

/// "a, b, c and 9 more".
std::string some_of(std::span<const std::string> names);

}  // namespace penstock::exec
