#include "exec/checkpoint/weight_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <system_error>

#include "exec/checkpoint/foreign_file.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"
#include "shared/path_kind.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxIndexBytes = 100'000'000;  // as the header of one file
constexpr std::size_t kMostNames = 3;
// Names of transformers (SAFE_WEIGHTS_NAME and so on) and peft.
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kAdapter = "adapter_model.";
constexpr std::string_view kAdapterConfig = "adapter_config.json";
/// Of files that hold weights or optimizer states, in any framework.
constexpr std::string_view kWeightExtensions[] = {".safetensors", ".bin", ".pth",  ".pt",
                                                  ".ckpt",        ".h5",  ".gguf", ".msgpack"};

/// The first of `count` things, which are all of them or kMostNames at least.
std::string first_of(const std::vector<std::string>& things, std::size_t count) {
  const std::size_t shown = std::min(things.size(), kMostNames);
  const std::string text =
      fmt::format("{}", fmt::join(things.begin(), things.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return count > shown ? fmt::format("{} and {} more", text, count - shown) : text;
}

bool holds_weights(const fs::path& file) {
  const std::string extension = file.extension().string();
  return std::find(std::begin(kWeightExtensions), std::end(kWeightExtensions), extension) !=
         std::end(kWeightExtensions);
}

template <class Wanted>
std::vector<std::string> only(const std::vector<std::string>& names, const Wanted& wanted) {
  std::vector<std::string> chosen;
  std::copy_if(names.begin(), names.end(), std::back_inserter(chosen), wanted);
  return chosen;
}

/// Folders in it that hold what it does not: a trainer's checkpoints, a downloader's snapshots.
std::vector<std::string> folders_with_weights(const fs::path& folder, const std::vector<std::string>& names) {
  return only(names, [&](const std::string& name) {
    return is_there(folder / name / kSingle) || is_there(folder / name / kIndex);
  });
}

/// What a folder holds in place of model.safetensors or its index, and what to do.
std::string what_else(const fs::path& folder, const std::vector<std::string>& names) {
  const auto with_extension = [&](std::string_view extension) {
    return only(names, [&](const std::string& name) { return fs::path(name).extension() == extension; });
  };
  std::vector<std::string> safe = with_extension(".safetensors");
  const auto own = only(safe, [](const std::string& name) { return name.starts_with("consolidated"); });
  if (!own.empty() && own.size() == safe.size())
    return fmt::format(
        "only {}, which has the publisher's own names and order of rows; take the model's files in the format of "
        "transformers",
        some_of(own));
  if (safe.size() == 1) return fmt::format("only {}; if that is meant, name this file", safe[0]);
  if (!safe.empty())
    return fmt::format("{}, but no {}, which says which tensor is read from which file; download it too", some_of(safe),
                       kIndex);
  std::vector<std::string> pickles = only(names, [](const std::string& name) {
    return name.starts_with("pytorch_model") || fs::path(name).extension() == ".pth" ||
           fs::path(name).extension() == ".pt" || fs::path(name).extension() == ".ckpt";
  });
  if (!pickles.empty())
    return fmt::format("only {}, a pickle, which can run code when it is read; {}", some_of(pickles), kConvertPickle);
  if (const auto others = only(names, [](const std::string& name) { return holds_weights(name); }); !others.empty())
    return fmt::format("only {}; take the model's .safetensors files", some_of(others));
  if (const auto folders = folders_with_weights(folder, names); !folders.empty())
    return fmt::format("but its folders {}; name one", some_of(folders));
  return "and nothing like them; name the folder of a model that was downloaded whole";
}

/// The file that a folder's weights begin with.
fs::path start_in(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  const auto adapter =
      only(names, [](const std::string& name) { return name.starts_with(kAdapter) || name == kAdapterConfig; });
  const bool has_single = is_there(folder / kSingle), has_index = is_there(folder / kIndex);
  if (!adapter.empty())
    throw InputError(fmt::format(
        "{}: holds an adapter ({}), as peft trains{}; merge it into its base model (merge_and_unload, then "
        "save_pretrained) and name that folder{}",
        folder.string(), some_of(adapter), has_single || has_index ? ", beside weights" : ", and no whole model",
        has_single || has_index
            ? fmt::format(", or name the file {} to start without it", has_single ? kSingle : kIndex)
            : ""));
  if (has_single) return folder / kSingle;
  if (has_index) return folder / kIndex;
  throw InputError(
      fmt::format("{}: has neither {} nor {}, {}", folder.string(), kSingle, kIndex, what_else(folder, names)));
}

[[noreturn]] void refuse_shard_name(const fs::path& index, const std::string& tensor, const nlohmann::json& file) {
  const std::string name = file.is_string() ? file.get<std::string>() : "";
  if (holds_weights(name) && fs::path(name).extension() != ".safetensors" && !fs::path(name).has_parent_path())
    throw InputError(fmt::format("{}: weight_map.{} names {}, which is no safetensors file; {}", index.string(),
                                 shown_name(tensor), shown_name(name), kConvertPickle));
  throw InputError(fmt::format("{}: weight_map.{} must name a .safetensors file beside the index, found {}",
                               index.string(), shown_name(tensor), shown(file)));
}

std::map<std::string, std::string> read_index(const fs::path& path) {
  const std::string text = read_text_file(path, kMaxIndexBytes);
  const std::size_t start = text.find_first_not_of("\xef\xbb\xbf \t\r\n");
  if (start == std::string::npos || text[start] != '{')
    throw InputError(
        fmt::format("{}: {}", path.string(), foreign_file(std::string_view(text).substr(0, kForeignHeadBytes))));
  const nlohmann::json index = parse_json(text, path.string());
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object() ||
      index["weight_map"].empty())
    throw InputError(
        fmt::format("{}: has no object \"weight_map\" with a file for each tensor; name an index ({}), a "
                    ".safetensors file, or a folder",
                    path.string(), kIndex));
  std::map<std::string, std::string> map;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string()) refuse_shard_name(path, tensor, file);
    const auto& name = file.get_ref<const std::string&>();
    const bool is_plain = std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20; });
    if (!is_plain || fs::path(name).has_parent_path() || fs::path(name).extension() != ".safetensors")
      refuse_shard_name(path, tensor, file);
    map.emplace(tensor, name);
  }
  return map;
}

}  // namespace

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) throw InputError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

std::string some_of(std::span<const std::string> names) {
  std::vector<std::string> shown;
  for (const std::string& name : names.first(std::min(names.size(), kMostNames))) shown.push_back(shown_name(name));
  return first_of(shown, names.size());
}

WeightFiles::WeightFiles(const fs::path& path) : path_(path) {
  std::error_code error;
  if (!is_there(path))
    throw InputError(
        fmt::format("{}: cannot be opened: {}; weights are read from this machine: a model's folder, an index "
                    "or a .safetensors file",
                    path.string(), why_not_read(path, ENOENT)));
  start_ = fs::is_directory(path, error) ? start_in(path) : path;
  if (start_.extension() == ".json") {
    open_shards(start_, read_index(start_));
    return;
  }
  files_.push_back(std::make_unique<SafetensorsFile>(start_));
  for (const auto& [name, tensor] : files_.back()->tensors()) tensors_[name] = {files_.back().get(), &tensor};
}

void WeightFiles::open_shards(const fs::path& index, const WeightMap& map) {
  std::map<std::string, std::vector<std::string>> shards;  // tensors by file
  for (const auto& [tensor, file] : map) shards[file].push_back(tensor);
  std::vector<std::string> missing;
  for (const auto& [file, tensors] : shards)
    if (!is_there(index.parent_path() / file))
      missing.push_back(fmt::format("{} (for {})", shown_name(file), some_of(tensors)));
  if (!missing.empty())
    throw InputError(fmt::format("{}: names files that are not there: {}; download them too", index.string(),
                                 first_of(missing, missing.size())));
  std::map<std::string_view, const SafetensorsFile*> opened;
  for (const auto& [file, tensors] : shards) {
    files_.push_back(std::make_unique<SafetensorsFile>(index.parent_path() / file));
    opened[file] = files_.back().get();
  }
  std::vector<std::string> lacking;
  for (const auto& [name, file] : map) {
    const SafetensorsFile* source = opened.at(file);
    if (const StoredTensor* tensor = source->find(name); tensor != nullptr)
      tensors_[source->tensors().find(name)->first] = {source, tensor};
    else
      lacking.push_back(fmt::format("{} in {}", shown_name(name), shown_name(file)));
  }
  if (!lacking.empty())
    throw InputError(
        fmt::format("{}: names tensors in files that do not have them: {}; take index and files of one download",
                    index.string(), first_of(lacking, lacking.size())));
  std::set<std::string_view> repeated;
  for (const auto& file : files_)
    for (const auto& [name, tensor] : file->tensors()) {
      const Source* listed = find(name);
      if (listed == nullptr) unlisted_[name] = {file.get(), &tensor};
      if (listed != nullptr && listed->file != file.get()) repeated.insert(name);
    }
  repeated_ = repeated.size();
}

const WeightFiles::Source* WeightFiles::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void WeightFiles::verify() const {
  for (const std::unique_ptr<SafetensorsFile>& file : files_) file->verify();
}

void WeightFiles::read(std::string_view name, std::int64_t first, std::span<float> out) const {
  const Source* source = find(name);
  if (source == nullptr) throw InputError(fmt::format("{}: has no tensor \"{}\"", path_.string(), shown_name(name)));
  source->file->read(name, first, out);
}

fs::path WeightFiles::index_of(std::string_view tensor) const {
  const fs::path index = start_.parent_path() / kIndex;
  if (start_.extension() == ".json" || !is_there(index)) return {};
  try {
    const WeightMap map = read_index(index);
    const auto found = map.find(std::string(tensor));
    return found != map.end() && found->second != start_.filename() ? index : fs::path();
  } catch (const InputError&) {
    return {};  // another file is what the user named
  }
}

std::string WeightFiles::describe() const {
  std::string text = start_.string();
  if (start_.extension() == ".json") text += fmt::format(", {} tensors from {} files", tensors_.size(), files_.size());
  if (repeated_ > 0)
    text += fmt::format("; {} of them stand in more than one file and are read where the index says", repeated_);
  if (start_ == path_ && start_.extension() != ".json") return text;  // one file was named and nothing else meant
  std::set<std::string> read{start_.filename().string()};
  for (const auto& file : files_) read.insert(file->path().filename().string());
  const fs::path folder = start_.has_parent_path() ? start_.parent_path() : fs::path(".");
  const auto others = only(names_in(folder), [&](const std::string& name) {
    return !read.contains(name) && (holds_weights(name) || name == kIndex);
  });
  if (!others.empty()) text += fmt::format("; not read: {}", some_of(others));
  return text;
}

}  // namespace penstock::exec
