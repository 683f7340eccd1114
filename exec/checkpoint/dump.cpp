#include "exec/checkpoint/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "exec/checkpoint/safetensors.h"
#include "exec/checkpoint/state_source.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;  // an embedding whole would be more than is kept for a run

bool overlap(const Access& a, const Access& b) {
  return a.buffer == b.buffer && a.offset_bytes < b.offset_bytes + b.bytes && b.offset_bytes < a.offset_bytes + a.bytes;
}

/// Where what an op wrote of `layer` still lies when the step's last op has ended, and the op; nothing: others lie there.
struct LastPlace {
  const Access* access = nullptr;
  const Op* op = nullptr;
};
LastPlace last_place(const Schedule& schedule, TensorKind tensor, int layer) {
  LastPlace place;
  for (const Op& op : schedule.ops)
    for (const Access& access : op.writes) {
      if (access.value.tensor == tensor && access.value.layer == layer)
        place = {&access, &op};
      else if (place.access != nullptr && overlap(*place.access, access))
        place = {};
    }
  return place;
}

const Access& gradient_place(const Schedule& schedule, int layer) {
  const Access* const place = last_place(schedule, TensorKind::gradient, layer).access;
  if (place == nullptr)
    throw InputError(fmt::format(
        "--dump: this schedule does not keep the gradient of layer {} to the end of the step; choose a policy whose "
        "gradients wait for the norm",
        layer));
  return *place;
}

void read_place(const Schedule& schedule, const Access& place, const TierMemories& memories, std::int64_t offset_bytes,
                std::vector<std::byte>& bytes) {
  const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(place.buffer)];
  memories[static_cast<std::size_t>(buffer.tier)]->read(buffer.offset_bytes + place.offset_bytes + offset_bytes, bytes);
}

void write_gradients(const std::filesystem::path& path, const Schedule& schedule, const Model& model,
                     const TierMemories& memories) {
  const ElementType type = schedule.numerics.gradient_link;
  std::vector<SafetensorsWriter::Entry> entries;
  for (const Layer& layer : model.layers)
    if (layer.trains)
      for (const ParameterTensor& tensor : layer.tensors)
        entries.push_back(
            {tensor.name, type == ElementType::fp32 ? StoredType::f32 : StoredType::bf16, stored_shape(tensor)});
  SafetensorsWriter writer(path, entries);
  std::vector<std::byte> bytes;
  for (const Layer& layer : model.layers) {
    if (layer.tensors.empty() || !layer.trains) continue;
    const Access& place = gradient_place(schedule, layer.index);
    for (const ParameterTensor& tensor : layer.tensors) {
      const std::int64_t all = tensor.elements() * element_bytes(type);
      for (std::int64_t done = 0; done < all; done += kPieceBytes) {
        bytes.resize(static_cast<std::size_t>(std::min(kPieceBytes, all - done)));
        read_place(schedule, place, memories, tensor.offset * element_bytes(type) + done, bytes);
        writer.append(bytes);
      }
    }
  }
  writer.close();
}

/// Of each layer with experts, where all of one micro-batch's are still there; returns how many there are.
std::int64_t write_expert_choices(const std::filesystem::path& path, const Schedule& schedule, const Model& model,
                                  const TierMemories& memories) {
  std::vector<std::vector<std::byte>> choices;
  for (const Layer& layer : model.layers) {
    if (layer.kind != LayerKind::experts) continue;
    const auto [place, op] = last_place(schedule, TensorKind::kept, layer.index);
    const auto* const work = op == nullptr ? nullptr : std::get_if<TemplateWork>(&op->work);
    if (work == nullptr || schedule.micro_batches > 1) return 0;
    const Region kept = kept_region(model, layer.kind, schedule.micro_batch, schedule.layout(work->keep));
    const Field* const field = kept.find(Activation::expert_choice);
    if (field == nullptr) return 0;
    choices.emplace_back(static_cast<std::size_t>(field->bytes));
    read_place(schedule, *place, memories, field->offset_bytes, choices.back());
  }
  if (choices.empty()) return 0;
  OutputFile file(path);
  for (const std::vector<std::byte>& layer : choices)
    file.write({reinterpret_cast<const char*>(layer.data()), layer.size()});
  file.commit();
  return static_cast<std::int64_t>(choices.size());
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
  for (const char* not_always : {"labels.i32", "document_starts.i32", "expert_choices.i32"})
    std::filesystem::remove(folder / not_always);
  const std::int64_t routed = write_expert_choices(folder / "expert_choices.i32", schedule, model, memories);
  write_rows(folder, schedule, tokens, reports);
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const StepReport& report : reports) losses.push_back(report.loss);
  const BatchShape step = schedule.whole_step();
  nlohmann::ordered_json run = {{"losses", losses},
                                {"rows", batch_kind_names()[static_cast<std::size_t>(step.kind)]},
                                {"tokens_shape", {reports.size(), step.sequences, step.token_row()}},
                                {"micro_batch", schedule.micro_batch.sequences},
                                {"learning_rate", hyper.learning_rate},
                                {"beta1", hyper.beta1},
                                {"beta2", hyper.beta2},
                                {"epsilon", hyper.epsilon},
                                {"weight_decay", hyper.weight_decay},
                                {"max_norm", hyper.max_norm}};
  if (routed > 0) run["expert_choices_shape"] = {routed, schedule.micro_batch.tokens(), model.config.experts.per_token};
  write_text_file(folder / "run.json", run.dump(1) + "\n");
}

}  // namespace penstock::exec
