// What of a published model's folder goes with weights that were trained from it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/safetensors.h"
#include "shared/file_calls.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// Names in the folder, those in folders of it as "FOLDER/NAME"; in order.
struct ModelFiles {
  std::vector<std::string> copied;  // config.json, generation_config.json, tokenizer, chat templates, licences
  std::vector<std::string> left;    // all else but weights and hidden files: model cards, other programs' formats
  std::int64_t copied_bytes = 0;
};

/// Throws InputError if `like` is no folder with a config.json of `model`, or has a file to be copied that is not
/// regular (links are followed), cannot be read, or is larger than 1 GB.
ModelFiles find_model_files(const std::filesystem::path& like, const Model& model);

/// config.json as it is in `like`, but for its dtype where the weights are written in another one.
std::string config_text(const std::filesystem::path& like, StoredType type);

/// Into `to`, synced. `name` as in ModelFiles::copied.
void copy_model_file(const std::filesystem::path& like, const std::string& name, const std::filesystem::path& to,
                     FileCalls& calls);

/// Whether a file of this name may be what a model's folder was being written with, temporaries included.
bool is_written_model_file(std::string_view name);

}  // namespace penstock::exec
