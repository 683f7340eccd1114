#include "exec/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <vector>

#include "exec/checkpoint/checkpoint_record.h"
#include "exec/checkpoint/safetensors.h"
#include "exec/runtime/bf16.h"
#include "shared/error.h"
#include "shared/files.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFiles[] = {kWeightsFile, kStatesFile, kRecordFile};
constexpr std::int64_t kPiece = std::int64_t{1} << 20;
constexpr std::string_view kParts[] = {"master.", "moment_m.", "moment_v."};

std::string stored_name(StatePart part, const ParameterTensor& tensor) {
  return std::string(kParts[static_cast<int>(part)]) + tensor.name;
}

template <typename Body>
void for_each_tensor(const Model& model, const Body& body) {
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors) body(layer, tensor);
}

/// What stands in the file of weights.
std::vector<TensorEntry> weight_entries(const Model& model) {
  std::vector<TensorEntry> entries;
  for_each_tensor(model, [&](const Layer&, const ParameterTensor& tensor) {
    entries.push_back({tensor.name, StoredType::bf16, stored_shape(tensor)});
  });
  return entries;
}

std::vector<StatePart> state_parts(bool has_master) {
  if (has_master) return {StatePart::master, StatePart::moment_m, StatePart::moment_v};
  return {StatePart::moment_m, StatePart::moment_v};
}

/// What stands in the file of the optimizer's states.
std::vector<TensorEntry> state_entries(const Model& model, bool has_master, StoredType moments) {
  std::vector<TensorEntry> entries;
  for (const StatePart part : state_parts(has_master))
    for_each_tensor(model, [&](const Layer&, const ParameterTensor& tensor) {
      const StoredType type = part == StatePart::master ? StoredType::f32 : moments;
      entries.push_back({stored_name(part, tensor), type, stored_shape(tensor)});
    });
  return entries;
}

FileIdentity write_weights(const fs::path& path, const Model& model, const StateReader& states) {
  SafetensorsWriter writer(path, weight_entries(model));
  std::vector<std::uint16_t> values;
  for_each_tensor(model, [&](const Layer& layer, const ParameterTensor& tensor) {
    for (std::int64_t first = 0; first < tensor.elements(); first += kPiece) {
      values.resize(static_cast<std::size_t>(std::min(kPiece, tensor.elements() - first)));
      states.read_weights(layer.index, tensor.offset + first, values);
      writer.append(std::as_bytes(std::span(values)));
    }
  });
  return writer.close();
}

FileIdentity write_states(const fs::path& path, const Numerics& numerics, const Model& model,
                          const StateReader& states) {
  const bool has_master = numerics.states != StateFormat::bf16;
  const StoredType moments = numerics.moments == ElementType::bf16 ? StoredType::bf16 : StoredType::f32;
  SafetensorsWriter writer(path, state_entries(model, has_master, moments));
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  for (const StatePart part : state_parts(has_master))
    for_each_tensor(model, [&](const Layer& layer, const ParameterTensor& tensor) {
      for (std::int64_t first = 0; first < tensor.elements(); first += kPiece) {
        values.resize(static_cast<std::size_t>(std::min(kPiece, tensor.elements() - first)));
        states.read_layer(layer.index, part, tensor.offset + first, values);
        if (part == StatePart::master || moments == StoredType::f32) {
          writer.append(std::as_bytes(std::span(values)));
          continue;
        }
        halves.resize(values.size());
        std::transform(values.begin(), values.end(), halves.begin(), round_to_bf16);  // exact: they were bf16
        writer.append(std::as_bytes(std::span(halves)));
      }
    });
  return writer.close();
}

/// Removed with all that is in it unless it was put in place.
class PartialFolder {
 public:
  explicit PartialFolder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    fs::create_directory(path_);
  }
  ~PartialFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void sync_folder(const fs::path& folder) {
  const FileHandle handle(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0 || fsync(handle.get()) != 0)
    throw std::runtime_error(fmt::format("{}: cannot be written: {}", folder.string(), std::strerror(errno)));
}

void put_in_place(const fs::path& partial, const fs::path& folder) {
  // An exchange leaves the old checkpoint under the partial name, which is then removed: at no moment is there none.
  const unsigned flags = fs::exists(folder) ? RENAME_EXCHANGE : 0;
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, folder.c_str(), flags) != 0)
    throw std::runtime_error(fmt::format("{}: cannot be put in place: {}", folder.string(), std::strerror(errno)));
}

/// Without a slash at its end; if it is a link, the folder that it leads to.
fs::path folder_at(const fs::path& given) { return follow_links(given.has_filename() ? given : given.parent_path()); }

/// Where it is written before it is put in place.
fs::path partial_of(const fs::path& folder) { return folder.string() + ".partial"; }

/// Empty if it cannot be read.
std::string record_bytes(const fs::path& folder) {
  try {
    return read_record_text(folder);
  } catch (const InputError&) {
    return {};
  }
}

/// Replacing a checkpoint removes the folder with all that is in it, so nothing else may be there.
void require_nothing_else(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_part = std::any_of(std::begin(kFiles), std::end(kFiles), [&name](std::string_view file) {
      return name == file || (name.starts_with(std::string(file) + ".") && name.ends_with(".tmp"));  // OutputFile's
    });
    if (!is_part)
      throw InputError(
          fmt::format("{}: cannot be saved to: {} is no part of a checkpoint and would be lost; name a new folder, or "
                      "move it away",
                      folder.string(), entry.path().string()));
  }
}

}  // namespace

void check_save_target(const fs::path& given) {
  const fs::path folder = folder_at(given);
  if (folder.empty() || folder.filename() == "." || folder.filename() == "..")
    throw InputError(
        fmt::format("\"{}\": cannot be saved to: a checkpoint replaces its folder; name a new one", given.string()));
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  if (!fs::is_directory(parent))
    throw InputError(
        fmt::format("{}: cannot be saved to: the folder {} does not exist", folder.string(), parent.string()));
  if (access(parent.c_str(), W_OK) != 0)
    throw InputError(
        fmt::format("{}: cannot be saved to: the folder {} cannot be written", folder.string(), parent.string()));
  if (const fs::path partial = partial_of(folder); fs::is_directory(partial)) require_nothing_else(partial);
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder) || (!fs::is_empty(folder) && !fs::exists(folder / kRecordFile)))
    throw InputError(
        fmt::format("{}: cannot be saved to: it exists and is not a checkpoint; name a new folder", folder.string()));
  require_nothing_else(folder);
}

void save_checkpoint(const fs::path& given, const CheckpointInfo& info, const Schedule& schedule, const Model& model,
                     const StateReader& states) {
  check_save_target(given);
  const fs::path folder = folder_at(given);
  const PartialFolder partial(partial_of(folder));
  CheckpointRecord record{info.step, info.description, {}};
  record.files[kWeightsFile] = write_weights(partial.path() / kWeightsFile, model, states);
  record.files[kStatesFile] = write_states(partial.path() / kStatesFile, schedule.numerics, model, states);
  write_text_file(partial.path() / kRecordFile, record_text(record));
  sync_folder(partial.path());
  put_in_place(partial.path(), folder);
  sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
}

Checkpoint::Checkpoint(const fs::path& folder)
    : record_(parse_record(read_record_text(folder), (folder / kRecordFile).string())),
      weights_(folder / kWeightsFile),
      states_(folder / kStatesFile),
      has_master_(record_.description.find("states")->value != "\"bf16\"") {
  const auto require_own = [&](const char* name, const SafetensorsFile& file) {
    if (file.identity() == record_.files.at(name)) return;
    throw InputError(
        fmt::format("{}: is not the file that {} was written with: it is of another checkpoint or damaged; take all "
                    "three files from one checkpoint",
                    (folder / name).string(), kRecordFile));
  };
  require_own(kWeightsFile, weights_);
  require_own(kStatesFile, states_);
}

void Checkpoint::verify(const Model& model) const {
  const bool half = record_.description.find("moments")->value == "\"bf16\"";
  weights_.require_exactly(weight_entries(model));
  states_.require_exactly(state_entries(model, has_master_, half ? StoredType::bf16 : StoredType::f32));
  weights_.verify();
  states_.verify();
}

const SafetensorsFile& Checkpoint::file_of(StatePart part) const {
  return part == StatePart::master && !has_master_ ? weights_ : states_;
}

void Checkpoint::read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const {
  const SafetensorsFile& file = file_of(part);
  file.read(&file == &weights_ ? tensor.name : stored_name(part, tensor), first, out);
}

std::string Checkpoint::place(const ParameterTensor& tensor, StatePart part) const {
  const SafetensorsFile& file = file_of(part);
  return fmt::format("{}: {}", file.path().string(), &file == &weights_ ? tensor.name : stored_name(part, tensor));
}

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& folder) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    const std::string before = record_bytes(folder);
    try {
      return std::make_unique<Checkpoint>(folder);
    } catch (const InputError&) {
      // Another run has put a new one in its place between one file and the next: then that one.
      if (attempt == kAttempts || record_bytes(folder) == before) throw;
    }
  }
}

}  // namespace penstock::exec
