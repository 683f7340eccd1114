#include "exec/checkpoint/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "exec/checkpoint/safetensors.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

bool overlap(const Access& a, const Access& b) {
  return a.buffer == b.buffer && a.offset_bytes < b.offset_bytes + b.bytes && b.offset_bytes < a.offset_bytes + a.bytes;
}

/// The place that still holds the finished gradient of `layer` when the step's last op has ended.
const Access& gradient_place(const Schedule& schedule, int layer) {
  const Access* place = nullptr;
  for (const Op& op : schedule.ops)
    for (const Access& access : op.writes) {
      if (access.value.tensor == TensorKind::gradient && access.value.layer == layer)
        place = &access;
      else if (place != nullptr && overlap(*place, access))
        place = nullptr;
    }
  if (place == nullptr)
    throw InputError(fmt::format(
        "--dump: this schedule does not keep the gradient of layer {} to the end of the step; choose a policy whose "
        "gradients wait for the norm",
        layer));
  return *place;
}

void write_gradients(const std::filesystem::path& path, const Schedule& schedule, const Model& model,
                     const TierMemories& memories) {
  const ElementType type = schedule.numerics.gradient_link;
  std::vector<SafetensorsWriter::Entry> entries;
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors)
      entries.push_back({tensor.name, type == ElementType::fp32 ? StoredType::f32 : StoredType::bf16,
                         tensor.rows == 1 ? std::vector{tensor.columns} : std::vector{tensor.rows, tensor.columns}});
  SafetensorsWriter writer(path, entries);
  std::vector<std::byte> bytes;
  for (const Layer& layer : model.layers) {
    if (layer.tensors.empty() || !layer.trains) continue;
    const Access& place = gradient_place(schedule, layer.index);
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(place.buffer)];
    for (const ParameterTensor& tensor : layer.tensors) {
      bytes.resize(static_cast<std::size_t>(tensor.elements() * element_bytes(type)));
      memories[static_cast<std::size_t>(buffer.tier)]->read(
          buffer.offset_bytes + place.offset_bytes + tensor.offset * element_bytes(type), bytes);
      writer.append(bytes);
    }
  }
  writer.close();
}

/// int32 values of one step in each file.
std::int64_t values_of_step(const Schedule& schedule) {
  const BatchShape step = schedule.whole_step();
  return step.sequences * step.token_row();
}

/// Tokens, and of packed rows labels and document starts, which are as many.
void write_rows(const std::filesystem::path& folder, const Schedule& schedule, const TokenSource& tokens,
                const std::vector<StepReport>& reports) {
  const bool packed = schedule.micro_batch.kind == BatchKind::packed;
  std::vector<std::vector<std::int32_t>> values(packed ? 3 : 1);
  std::vector<std::unique_ptr<OutputFile>> files;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].resize(static_cast<std::size_t>(values_of_step(schedule)));
    files.push_back(std::make_unique<OutputFile>(folder / kDumpFiles[i]));
  }
  StepRows rows{values[0].data()};
  if (packed) rows = {values[0].data(), values[1].data(), values[2].data()};
  for (const StepReport& report : reports) {
    tokens.fill(report.step, rows);
    for (std::size_t i = 0; i < values.size(); ++i)
      files[i]->write({reinterpret_cast<const char*>(values[i].data()), values[i].size() * sizeof(std::int32_t)});
  }
  for (const auto& file : files) file->commit();
}

}  // namespace

void require_dumpable(const std::filesystem::path& folder, const Schedule& schedule, const Model& model, int steps) {
  for (const Layer& layer : model.layers)
    if (!layer.tensors.empty() && layer.trains) gradient_place(schedule, layer.index);
  const std::int64_t needed = model.parameters * element_bytes(schedule.numerics.gradient_link) +
                              3 * steps * values_of_step(schedule) * std::int64_t{sizeof(std::int32_t)};
  std::error_code error;
  if (std::filesystem::exists(folder / "optimizer.safetensors", error))
    throw InputError(fmt::format("--dump {}: holds a checkpoint, whose run.json would be lost; name another folder",
                                 folder.string()));
  std::filesystem::path there = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const std::filesystem::space_info space = std::filesystem::space(there, error);
  if (!error && space.available < static_cast<std::uintmax_t>(needed))
    throw InputError(fmt::format("--dump {}: {} are to be written, its drive has {} free", folder.string(),
                                 format_bytes(static_cast<double>(needed)),
                                 format_bytes(static_cast<double>(space.available))));
}

void write_dump(const std::filesystem::path& folder, const Schedule& schedule, const Model& model,
                const TierMemories& memories, const TokenSource& tokens, const AdamHyper& hyper,
                const std::vector<StepReport>& reports) {
  if (reports.empty()) throw InputError(fmt::format("--dump {}: no step has computed anything", folder.string()));
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / "run.json");  // written last: files of two dumps are none
  write_gradients(folder / "gradients.safetensors", schedule, model, memories);
  for (const char* of_packed_rows : {"labels.i32", "document_starts.i32"})
    std::filesystem::remove(folder / of_packed_rows);
  write_rows(folder, schedule, tokens, reports);
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const StepReport& report : reports) losses.push_back(report.loss);
  const BatchShape step = schedule.whole_step();
  const nlohmann::ordered_json run = {{"losses", losses},
                                      {"rows", batch_kind_names()[static_cast<std::size_t>(step.kind)]},
                                      {"tokens_shape", {reports.size(), step.sequences, step.token_row()}},
                                      {"micro_batch", schedule.micro_batch.sequences},
                                      {"learning_rate", hyper.learning_rate},
                                      {"beta1", hyper.beta1},
                                      {"beta2", hyper.beta2},
                                      {"epsilon", hyper.epsilon},
                                      {"weight_decay", hyper.weight_decay},
                                      {"max_norm", hyper.max_norm}};
  write_text_file(folder / "run.json", run.dump(1) + "\n");
}

}  // namespace penstock::exec
