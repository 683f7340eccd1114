#include "exec/checkpoint/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "exec/checkpoint/safetensors.h"
#include "shared/error.h"
#include "shared/files.h"
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
    if (layer.tensors.empty()) continue;
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

/// int32 ids of one step.
std::int64_t tokens_of_step(const Schedule& schedule) {
  return schedule.micro_batch.sequences * schedule.micro_batches * (schedule.micro_batch.sequence_length + 1);
}

void write_tokens(const std::filesystem::path& path, const Schedule& schedule, const TokenSource& tokens,
                  const std::vector<StepReport>& reports) {
  OutputFile file(path);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens_of_step(schedule)));
  for (const StepReport& report : reports) {
    tokens.fill(report.step, ids.data());
    file.write({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t)});
  }
  file.commit();
}

}  // namespace

void require_dumpable(const std::filesystem::path& folder, const Schedule& schedule, const Model& model, int steps) {
  for (const Layer& layer : model.layers)
    if (!layer.tensors.empty()) gradient_place(schedule, layer.index);
  const std::int64_t needed = model.parameters * element_bytes(schedule.numerics.gradient_link) +
                              steps * tokens_of_step(schedule) * std::int64_t{sizeof(std::int32_t)};
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
  write_tokens(folder / "tokens.i32", schedule, tokens, reports);
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const StepReport& report : reports) losses.push_back(report.loss);
  const std::int64_t sequences = schedule.micro_batch.sequences * schedule.micro_batches;
  const std::int64_t row = schedule.micro_batch.sequence_length + 1;
  const nlohmann::ordered_json run = {{"losses", losses},
                                      {"tokens_shape", {reports.size(), sequences, row}},
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
