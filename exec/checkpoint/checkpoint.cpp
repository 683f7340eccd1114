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

#include "exec/checkpoint/safetensors.h"
#include "exec/runtime/bf16.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "penstock-checkpoint/1";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kRun = "run.json";
constexpr std::string_view kFiles[] = {kWeights, kOptimizer, kRun};
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

void write_weights(const fs::path& path, const Model& model, const StateReader& states) {
  SafetensorsWriter writer(path, weight_entries(model));
  std::vector<std::uint16_t> values;
  for_each_tensor(model, [&](const Layer& layer, const ParameterTensor& tensor) {
    for (std::int64_t first = 0; first < tensor.elements(); first += kPiece) {
      values.resize(static_cast<std::size_t>(std::min(kPiece, tensor.elements() - first)));
      states.read_weights(layer.index, tensor.offset + first, values);
      writer.append(std::as_bytes(std::span(values)));
    }
  });
  writer.close();
}

void write_states(const fs::path& path, const Numerics& numerics, const Model& model, const StateReader& states) {
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
  writer.close();
}

const char* state_name(StateFormat format) {
  switch (format) {
    case StateFormat::planes: return "planes";
    case StateFormat::master_and_copy: return "master_and_copy";
    case StateFormat::bf16: return "bf16";
  }
  return "";
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

class CheckpointStates : public StateSource {
 public:
  /// Throws InputError unless every tensor of the model is there, in its shape and type and as it was written, and
  /// nothing else.
  CheckpointStates(const fs::path& folder, bool has_master, const Model& model)
      : weights_(folder / kWeights), optimizer_(folder / kOptimizer), has_master_(has_master) {
    weights_.require_exactly(weight_entries(model));
    optimizer_.require_exactly(state_entries(model, has_master, moments_in(model)));
    weights_.verify();
    optimizer_.verify();
  }
  void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const final {
    if (part == StatePart::master && !has_master_) return weights_.read(tensor.name, first, out);
    optimizer_.read(stored_name(part, tensor), first, out);
  }
  std::string place(const ParameterTensor& tensor, StatePart part) const final {
    if (part == StatePart::master && !has_master_) return fmt::format("{}: {}", weights_.path().string(), tensor.name);
    return fmt::format("{}: {}", optimizer_.path().string(), stored_name(part, tensor));
  }

 private:
  /// As the first moment has it; all others must be the same.
  StoredType moments_in(const Model& model) const {
    const StoredTensor* moment = optimizer_.find(stored_name(StatePart::moment_m, model.layers[0].tensors[0]));
    return moment != nullptr && moment->type == StoredType::bf16 ? StoredType::bf16 : StoredType::f32;
  }

  SafetensorsFile weights_, optimizer_;
  bool has_master_;
};

/// Without a slash at its end; if it is a link, the folder that it leads to.
fs::path folder_at(const fs::path& given) { return follow_links(given.has_filename() ? given : given.parent_path()); }

/// Where it is written before it is put in place.
fs::path partial_of(const fs::path& folder) { return folder.string() + ".partial"; }

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
  if (!fs::is_directory(folder) || (!fs::is_empty(folder) && !fs::exists(folder / kRun)))
    throw InputError(
        fmt::format("{}: cannot be saved to: it exists and is not a checkpoint; name a new folder", folder.string()));
  require_nothing_else(folder);
}

void save_checkpoint(const fs::path& given, const CheckpointInfo& info, const Schedule& schedule, const Model& model,
                     const StateReader& states) {
  check_save_target(given);
  const fs::path folder = folder_at(given);
  const PartialFolder partial(partial_of(folder));
  write_weights(partial.path() / kWeights, model, states);
  write_states(partial.path() / kOptimizer, schedule.numerics, model, states);
  const nlohmann::ordered_json run = {{"format", kFormat},
                                      {"step", info.step},
                                      {"seed", std::to_string(info.seed)},
                                      {"states", state_name(schedule.numerics.states)},
                                      {"model", model.config.name},
                                      {"parameters", model.parameters}};
  write_text_file(partial.path() / kRun, run.dump(2) + "\n");
  sync_folder(partial.path());
  put_in_place(partial.path(), folder);
  sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
}

Checkpoint open_checkpoint(const fs::path& folder, const Model& model) {
  const fs::path file = folder / kRun;
  const nlohmann::json json = read_json_file(file, 1 << 20);
  JsonObject run(json, file.string());
  if (run.text("format") != kFormat)
    run.fail("format", fmt::format("found {}, this program reads \"{}\"", shown(json["format"]), kFormat));
  Checkpoint checkpoint;
  checkpoint.info.step = run.integer("step", 0, std::int64_t{1} << 40);
  const std::string seed = run.text("seed");
  if (seed.empty() || seed.size() > 20 || seed.find_first_not_of("0123456789") != std::string::npos)
    run.fail("seed", "must be a number, found \"" + seed + "\"");
  checkpoint.info.seed = std::strtoull(seed.c_str(), nullptr, 10);
  const std::vector<std::string_view> formats{"planes", "master_and_copy", "bf16"};
  const bool has_master = run.choice("states", formats) != 2;
  run.text("model");
  const std::int64_t parameters = run.integer("parameters", 0, std::int64_t{1} << 50);
  if (parameters != model.parameters)
    run.fail("parameters", fmt::format("{} parameters, the scenario's model {} has {}", parameters, model.config.name,
                                       model.parameters));
  run.finish();
  checkpoint.states = std::make_unique<CheckpointStates>(folder, has_master, model);
  return checkpoint;
}

}  // namespace penstock::exec
