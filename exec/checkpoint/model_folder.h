// A trained model as other programs take it: a folder as transformers' save_pretrained writes one.
//
//   model.safetensors                      or, of more bytes than a file is to have,
//   model-00001-of-00003.safetensors, ...  and model.safetensors.index.json
//   config.json, and what of the tokenizer, the chat templates and the licences lies in the folder that the training
//   started from (model_folder_files.h)
//
// Whole or not at all, and never in the place of anything: written to FOLDER.partial, synced, and renamed to FOLDER,
// which must be new or empty. FOLDER.lock is held meanwhile; what a killed one left is removed by the next.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint_names.h"
#include "exec/checkpoint/folder_lock.h"
#include "exec/checkpoint/model_folder_files.h"
#include "exec/checkpoint/safetensors.h"
#include "exec/checkpoint/state_source.h"
#include "shared/file_calls.h"
#include "shared/model/model.h"

namespace penstock::exec {

struct ModelFolderOptions {
  std::filesystem::path to;
  std::filesystem::path like;                // the folder with config.json, tokenizer and templates
  StoredType type = StoredType::bf16;        // or f32: of the master, rounded to nearest even, or as it is
  std::int64_t shard_bytes = 5'000'000'000;  // of tensors in one file; one that is larger has a file of its own
};

/// What a file of weights holds: `tensors` in order.
struct Shard {
  std::string file;
  std::vector<const ParameterTensor*> tensors;
  std::int64_t bytes = 0;  // of the tensors
};

/// Filled in the order of the model, each as far as the limit goes, as transformers does. A tied head is no tensor.
std::vector<Shard> plan_shards(const Model& model, StoredType type, std::int64_t shard_bytes);

class ModelFolder {
 public:
  /// `model` must outlive this. Throws InputError if `to` is not new, cannot be written or is being written; if `like`
  /// has no config.json, or one of another model than was trained (with the key and both values), or a file that cannot
  /// be read.
  ModelFolder(ModelFolderOptions options, const Model& model, FileCalls& calls = system_calls());
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  /// Throws DoesNotFit if it has no room beside what is there.
  void require_room() const;
  /// Throws std::runtime_error: with the system's reason, or with tensor and index of a value that is not finite. What
  /// was written is removed then.
  void write(const StateSource& states);

  const std::filesystem::path& folder() const { return names_.folder; }
  const std::vector<Shard>& shards() const { return shards_; }
  std::int64_t weights_bytes() const;
  const ModelFiles& files() const { return files_; }
  /// "2 files of weights in bf16, 5.75 GB; config.json and 4 more as in FOLDER; not copied: README.md".
  std::string describe() const;

 private:
  void require_place() const;
  void take_up_partial();
  void write_files(const StateSource& states) const;
  void write_shard(const Shard& shard, const StateSource& states) const;

  ModelFolderOptions options_;
  const Model& model_;
  FileCalls& calls_;
  CheckpointNames names_;
  ModelFiles files_;
  std::vector<Shard> shards_;
  FolderLock lock_;
};

}  // namespace penstock::exec
