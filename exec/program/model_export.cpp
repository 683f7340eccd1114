#include "exec/program/model_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/checkpoint_names.h"
#include "exec/checkpoint/checkpoint_series.h"
#include "exec/checkpoint/run_description.h"
#include "shared/error.h"
#include "shared/model/config_json.h"
#include "shared/model/frozen_layers.h"
#include "shared/path_kind.h"
#include "shared/standard_streams.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

/// What uses a folder beside the one that is written.
void add_names_beside(const fs::path& folder, std::string_view option, CommandFiles& files) {
  const CheckpointNames names = checkpoint_names(folder);
  for (const fs::path& beside : {names.partial, names.lock}) files.uses(beside, option, folder);
}

/// Of a run that saved every so many steps the newest one.
fs::path chosen_checkpoint(const fs::path& given) {
  const CheckpointNames names = names_to_read(given);
  if (is_there(names.folder / kRecordFile) || !is_there(names.folder)) return given;
  std::vector<std::string> passed_over;
  const std::optional<FoundCheckpoint> found = newest_checkpoint(names.folder, passed_over);
  for (const std::string& text : passed_over) tell(fmt::format("penstock-exec: note: {}\n", text));
  return found ? found->folder : given;
}

void require_model_of(const Checkpoint& checkpoint, const ModelConfig& config) {
  const std::int64_t length = std::stoll(checkpoint.description().find("sequence_length")->value);
  for (const DescribedValue& value : describe_model(config, length)) {
    const std::string& trained = checkpoint.description().find(value.key)->value;
    if (trained != value.value)
      throw InputError(fmt::format(
          "{}: {} of what was trained is {}, but {} of the model that the folder is to be like; name the folder of the "
          "model that was trained",
          checkpoint.folder().string(), value.key, trained, value.value));
  }
}

/// The model of config.json in `like`, with the layers frozen that the checkpoint's run froze: it has weights alone of
/// them.
Model model_of(const Checkpoint& checkpoint, const fs::path& like) {
  ModelConfig config = read_model_config(like / "config.json");
  require_model_of(checkpoint, config);
  const auto text = nlohmann::json::parse(checkpoint.description().find("freeze")->value).get<std::string>();
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(", ", at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  if (!names.empty()) config.frozen_layers = frozen_layers(names, config);
  return make_model(config);
}

}  // namespace

ModelFolderOptions export_options(const Scenario& scenario) {
  const CheckpointOptions& checkpoint = scenario.run.checkpoint;
  ModelFolderOptions options;
  options.to = checkpoint.export_to;
  options.like = checkpoint.export_like;
  if (options.like.empty() && scenario.run.init.weights.empty())
    throw InputError(
        fmt::format("{}: [checkpoint] export: the run starts from no published weights, so nothing says which "
                    "config.json and tokenizer go with its own; give export_like = FOLDER",
                    scenario.path.string()));
  std::error_code error;
  const fs::path& weights = scenario.run.init.weights;
  if (options.like.empty()) options.like = fs::is_directory(weights, error) ? weights : weights.parent_path();
  if (options.like.empty()) options.like = ".";
  options.type = checkpoint.export_fp32 ? StoredType::f32 : StoredType::bf16;
  options.shard_bytes = checkpoint.export_shard_bytes;
  return options;
}

void add_export_files(const ModelFolderOptions& options, std::string_view option, CommandFiles& files) {
  files.reads(options.like);
  files.replaces(options.to, option);
  add_names_beside(options.to, option, files);
}

std::string exported_text(const ModelFolder& folder) {
  return fmt::format("exported to {}: {}\n", folder.folder().string(), folder.describe());
}

void export_checkpoint(const Checkpoint& checkpoint, const Model& model, ModelFolder& folder) {
  require_model_of(checkpoint, model.config);
  folder.require_room();
  checkpoint.verify(model);
  folder.write(checkpoint);
}

int export_command(const ExportCommandOptions& options) {
  ModelFolderOptions to;
  to.to = options.to;
  to.like = options.like;
  to.type = options.type == "fp32" ? StoredType::f32 : StoredType::bf16;
  if (!options.shard.empty()) to.shard_bytes = parse_bytes(options.shard, "--shard");
  if (to.shard_bytes < 1) throw InputError("--shard: expected more than zero, found \"" + options.shard + '"');
  const fs::path checkpoint = chosen_checkpoint(options.checkpoint);
  CommandFiles files;
  files.reads(checkpoint);
  add_export_files(to, "--to", files);
  files.check();
  const std::unique_ptr<Checkpoint> opened = open_checkpoint(checkpoint);
  const Model model = model_of(*opened, options.like);
  ModelFolder folder(to, model);
  export_checkpoint(*opened, model, folder);
  if (!options.json) {
    print_out(fmt::format("{}{}", checkpoint == options.checkpoint ? "" : fmt::format("took {}\n", checkpoint.string()),
                          exported_text(folder)));
    return kExitDone;
  }
  nlohmann::ordered_json json = {{"format", "penstock-export/1"},
                                 {"folder", folder.folder().string()},
                                 {"checkpoint", checkpoint.string()},
                                 {"type", options.type},
                                 {"weights", nlohmann::ordered_json::array()},
                                 {"copied", folder.files().copied},
                                 {"not_copied", folder.files().left}};
  for (const Shard& shard : folder.shards())
    json["weights"].push_back({{"file", shard.file}, {"tensors", shard.tensors.size()}, {"tensor_bytes", shard.bytes}});
  print_out(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  return kExitDone;
}

}  // namespace penstock::exec
