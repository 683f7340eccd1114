#include "exec/checkpoint/model_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "exec/checkpoint/folder_room.h"
#include "exec/checkpoint/states.h"
#include "exec/checkpoint/weight_files.h"
#include "exec/numerics/bf16.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/path_kind.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements at a time
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kConfig = "config.json";

std::string reason(int code) { return std::generic_category().message(code); }

std::vector<TensorEntry> entries_of(const Shard& shard, StoredType type) {
  std::vector<TensorEntry> entries;
  for (const ParameterTensor* tensor : shard.tensors) entries.push_back({tensor->name, type, stored_shape(*tensor)});
  return entries;
}

/// As transformers writes it.
std::string index_text(const std::vector<Shard>& shards, const Model& model) {
  std::int64_t bytes = 0;
  nlohmann::ordered_json map;
  for (const Shard& shard : shards) {
    bytes += shard.bytes;
    for (const ParameterTensor* tensor : shard.tensors) map[tensor->name] = shard.file;
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_parameters", model.parameters}, {"total_size", bytes}}},
                                        {"weight_map", map}};
  return index.dump(2) + "\n";
}

void write_text(const fs::path& path, const std::string& text, FileCalls& calls) {
  OutputFile file(path, calls);
  file.write(text);
  file.commit();
}

void sync(const fs::path& folder, FileCalls& calls) {
  const FileHandle handle(calls.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  // EINVAL: a file system that has nothing to sync of a folder.
  if (handle.get() < 0 || (calls.fsync(handle.get()) != 0 && errno != EINVAL))
    throw std::runtime_error(fmt::format("{}: cannot be synced: {}", folder.string(), reason(errno)));
}

void make_folder(const fs::path& folder, FileCalls& calls) {
  if (calls.mkdir(folder.c_str(), 0777) != 0)
    throw std::runtime_error(fmt::format("{}: cannot be made: {}", folder.string(), reason(errno)));
}

/// Folders of a model's folder that `files` are in.
std::vector<std::string> folders_of(const std::vector<std::string>& files) {
  std::vector<std::string> folders;
  for (const std::string& name : files)
    if (const std::string folder = fs::path(name).parent_path().string();
        !folder.empty() && (folders.empty() || folders.back() != folder))
      folders.push_back(folder);
  return folders;
}

/// Nothing but what is written into a model's folder, and the folder if nothing else is in it.
void remove_written(const fs::path& folder, FileCalls& calls) noexcept {
  try {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (fs::is_directory(at->symlink_status(error)))
        remove_written(at->path(), calls);
      else if (is_written_model_file(at->path().filename().string()))
        calls.unlink(at->path().c_str());
    calls.rmdir(folder.c_str());
  } catch (const std::exception&) {
    return;  // no memory for a path
  }
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  throw InputError(fmt::format("{}: cannot be exported to: {}", folder.string(), what));
}

}  // namespace

std::vector<Shard> plan_shards(const Model& model, StoredType type, std::int64_t shard_bytes) {
  std::vector<Shard> shards(1);
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      const std::int64_t bytes = tensor.elements() * stored_bytes(type);
      if (!shards.back().tensors.empty() && shards.back().bytes + bytes > shard_bytes) shards.emplace_back();
      shards.back().tensors.push_back(&tensor);
      shards.back().bytes += bytes;
    }
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].file = shards.size() == 1 ? "model.safetensors"
                                        : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

ModelFolder::ModelFolder(ModelFolderOptions options, const Model& model, FileCalls& calls)
    : options_(std::move(options)),
      model_(model),
      calls_(calls),
      names_(checkpoint_names(options_.to)),
      files_(find_model_files(options_.like, model)),
      shards_(plan_shards(model, options_.type, options_.shard_bytes)),
      lock_((require_place(), names_.lock), names_.folder, calls) {
  take_up_partial();
}

void ModelFolder::require_place() const {
  std::error_code error;
  if (!fs::is_directory(names_.parent, error))
    refuse(names_.folder, fmt::format("the folder {} does not exist, or is none", names_.parent.string()));
  if (!is_there(names_.folder)) return;
  if (!fs::is_directory(names_.folder, error) || !fs::is_empty(names_.folder, error))
    refuse(names_.folder, "it is there already, and nothing is written over; name a new folder");
  if (is_mount_point(names_.folder))
    refuse(names_.folder, fmt::format("it is mounted and cannot be put in place as a whole; name a folder in it, {}",
                                      (names_.folder / "model").string()));
}

void ModelFolder::take_up_partial() {
  if (!is_there(names_.partial)) return;
  if (lock_.was_left()) remove_written(names_.partial, calls_);
  if (is_there(names_.partial))
    refuse(names_.folder, fmt::format("{} is in the way, where it is written; move it away, or name another folder",
                                      names_.partial.string()));
}

std::int64_t ModelFolder::weights_bytes() const {
  std::int64_t bytes = 0;
  for (const Shard& shard : shards_) bytes += shard.bytes;
  return bytes;
}

void ModelFolder::require_room() const {
  std::vector<PlannedFile> planned;
  for (const Shard& shard : shards_)
    planned.push_back({shard.file, safetensors_bytes(entries_of(shard, options_.type))});
  const auto index_bytes = static_cast<std::int64_t>(index_text(shards_, model_).size());
  planned.push_back({kConfig, files_.copied_bytes + index_bytes});
  penstock::exec::require_room(names_, planned, "the model's folder", "", calls_);
}

void ModelFolder::write_shard(const Shard& shard, const StateSource& states) const {
  SafetensorsWriter writer(names_.partial / shard.file, entries_of(shard, options_.type), calls_);
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  for (const ParameterTensor* tensor : shard.tensors)
    for (std::int64_t first = 0; first < tensor->elements(); first += kPiece) {
      values.resize(static_cast<std::size_t>(std::min(kPiece, tensor->elements() - first)));
      states.read(*tensor, StatePart::master, first, values);
      halves.resize(values.size());
      std::transform(values.begin(), values.end(), halves.begin(), round_to_bf16);
      const bool is_half = options_.type == StoredType::bf16;
      if (const std::size_t at = is_half ? first_not_finite(halves) : first_not_finite(values); at < values.size())
        throw std::runtime_error(
            fmt::format("{} is {}, {}", states.place(*tensor, StatePart::master, first + static_cast<std::int64_t>(at)),
                        values[at], std::isfinite(values[at]) ? "more than bf16 can hold" : "not a finite number"));
      writer.append(is_half ? std::as_bytes(std::span(halves)) : std::as_bytes(std::span(values)));
    }
  writer.close();
}

void ModelFolder::write_files(const StateSource& states) const {
  const fs::path& partial = names_.partial;
  make_folder(partial, calls_);
  for (const std::string& name : folders_of(files_.copied)) make_folder(partial / name, calls_);
  // The small ones first: if one cannot be read any more, that is known before the weights are written.
  for (const std::string& name : files_.copied)
    if (name != kConfig) copy_model_file(options_.like, name, partial, calls_);
  write_text(partial / kConfig, config_text(options_.like, options_.type), calls_);
  for (const Shard& shard : shards_) write_shard(shard, states);
  if (shards_.size() > 1) write_text(partial / kIndex, index_text(shards_, model_), calls_);
  for (const std::string& name : folders_of(files_.copied)) sync(partial / name, calls_);
  sync(partial, calls_);
}

void ModelFolder::write(const StateSource& states) {
  try {
    write_files(states);
    // Takes the place of an empty folder, and of no other.
    if (calls_.rename(names_.partial.c_str(), names_.folder.c_str()) != 0)
      throw std::runtime_error(fmt::format("{} cannot be renamed to it: {}", names_.partial.string(), reason(errno)));
  } catch (const std::exception& error) {
    remove_written(names_.partial, calls_);
    throw std::runtime_error(fmt::format("{}: not exported: {}", names_.folder.string(), error.what()));
  }
  try {
    sync(names_.parent, calls_);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}: is in its place, but the system does not promise that it stays there: {}",
                                         names_.folder.string(), error.what()));
  }
}

std::string ModelFolder::describe() const {
  std::string text = fmt::format("{} file{} of weights in {}, {}", shards_.size(), shards_.size() == 1 ? "" : "s",
                                 options_.type == StoredType::f32 ? "fp32" : "bf16",
                                 format_bytes(static_cast<double>(weights_bytes())));
  std::vector<std::string> copied = files_.copied;
  text += fmt::format("; as in {}: {}", options_.like.string(), fmt::join(copied, ", "));
  if (std::none_of(copied.begin(), copied.end(), [](const std::string& name) { return name.starts_with("tokenizer"); }))
    text += ", which has no tokenizer";
  if (!files_.left.empty()) text += fmt::format("; not copied: {}", some_of(files_.left));
  return text;
}

}  // namespace penstock::exec
