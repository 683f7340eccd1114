// Checkpoints of small runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "exec/checkpoint/checkpoint.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {

inline RunDescription description_of(const SmallRun& run, std::uint64_t seed = 7) {
  RunOptions options;
  options.init.seed = options.data.seed = seed;
  return describe_run(run.schedule(), options, "random");
}

inline void save(const std::filesystem::path& folder, SmallRun& run, std::int64_t step, std::uint64_t seed = 7) {
  SaveTarget target(folder);
  save_checkpoint(target, {step, description_of(run, seed)}, run.schedule(), run.model(), run.training().states());
}

/// Has run.json name the files that lie beside it now, as if they had been written so.
inline void bind_files(const std::filesystem::path& folder) {
  CheckpointRecord record = parse_record(read_record_text(folder), folder.string());
  for (auto& [name, identity] : record.files) identity = SafetensorsFile(folder / name).identity();
  std::ofstream(folder / kRecordFile) << record_text(record);
}

}  // namespace penstock::exec
