#include "exec/checkpoint/model_folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "exec/checkpoint/run_description.h"
#include "exec/checkpoint/weight_files.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/model/config_json.h"
#include "shared/path_kind.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFileBytes = 1'000'000'000;  // the largest tokenizers have some 40 MB
constexpr std::size_t kCopied = 1 << 20;               // bytes at a time
constexpr const char* kConfig = "config.json";
constexpr const char* kTemplates = "additional_chat_templates";  // transformers' CHAT_TEMPLATE_DIR

// Names of transformers' tokenizers (VOCAB_FILES_NAMES and so on), generation config and chat templates, and of the
// licences under which models are published.
constexpr std::string_view kNames[] = {kConfig,      "generation_config.json", "special_tokens_map.json",
                                       "merges.txt", "added_tokens.json",      "tekken.json"};
constexpr std::string_view kBeginnings[] = {"tokenizer", "tokenization_", "vocab.",  "chat_template",
                                            "LICENSE",   "LICENCE",       "license", "NOTICE",
                                            "Notice",    "USE_POLICY",    "COPYING"};
constexpr std::string_view kEndings[] = {".model", ".tiktoken", ".vocab"};
constexpr std::string_view kWeightEndings[] = {
    ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pth", ".pt", ".h5", ".msgpack"};

bool ends_with_one_of(std::string_view name, std::span<const std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

bool goes_with_weights(std::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view beginning) { return name.starts_with(beginning); }) ||
         ends_with_one_of(name, kEndings);
}

bool is_template(std::string_view name) { return name.ends_with(".jinja"); }

void require_same_model(const fs::path& config, const ModelConfig& trained) {
  constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();
  const std::vector<DescribedValue> there = describe_model(read_model_config(config), kAnyLength),
                                    ours = describe_model(trained, kAnyLength);
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (there[i].value != ours[i].value)
      throw InputError(
          fmt::format("{}: {} is {}, but of what was trained it is {}; name the folder of the model that was trained",
                      config.string(), ours[i].key, there[i].value, ours[i].value));
}

}  // namespace

ModelFiles find_model_files(const fs::path& like, const Model& model) {
  std::error_code error;
  if (!fs::is_directory(like, error))
    throw InputError(
        fmt::format("{}: {}; name the folder whose config.json and tokenizer go with the weights", like.string(),
                    is_there(like) ? "is no folder" : fmt::format("cannot be opened: {}", why_not_read(like, ENOENT))));
  require_same_model(like / kConfig, model.config);
  ModelFiles files;
  const auto sort_out = [&](const std::string& name, bool copied) {
    const fs::path path = like / name;
    if (!copied) {
      if (!ends_with_one_of(name, kWeightEndings) && !name.starts_with('.')) files.left.push_back(name);
      return;
    }
    files.copied_bytes += InputFile(path, kMaxFileBytes).size();
    files.copied.push_back(name);
  };
  for (const std::string& name : names_in(like)) {
    if (!fs::is_directory(like / name, error))
      sort_out(name, goes_with_weights(name));
    else if (name == kTemplates)
      for (const std::string& inner : names_in(like / name)) sort_out(name + "/" + inner, is_template(inner));
    else
      sort_out(name, false);
  }
  return files;
}

std::string config_text(const fs::path& like, StoredType type) {
  const std::string text = read_text_file(like / kConfig, kMaxFileBytes);
  auto config = nlohmann::ordered_json::parse(text);  // it was read before
  const std::string dtype = type == StoredType::f32 ? "float32" : "bfloat16";
  bool is_changed = false;
  for (const char* key : {"dtype", "torch_dtype"}) {  // since transformers 5, and before
    if (!config.contains(key) || config[key] == dtype) continue;
    config[key] = dtype;
    is_changed = true;
  }
  return is_changed ? config.dump(2) + "\n" : text;
}

void copy_model_file(const fs::path& like, const std::string& name, const fs::path& to, FileCalls& calls) {
  InputFile from(like / name, kMaxFileBytes);
  OutputFile file(to / name, calls);
  std::string piece(kCopied, '\0');
  while (const std::size_t got = from.read(piece)) file.write(std::string_view(piece).substr(0, got));
  file.commit();
}

bool is_written_model_file(std::string_view name) {
  if (name.ends_with(".tmp")) {  // OutputFile's: NAME.16HEX.tmp
    name = name.substr(0, name.size() - 4);
    name = name.substr(0, name.rfind('.'));
  }
  return goes_with_weights(name) || is_template(name) ||
         (name.starts_with("model") && ends_with_one_of(name, std::span(kWeightEndings).first(2)));
}

}  // namespace penstock::exec
