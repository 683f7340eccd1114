#include "exec/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "exec/checkpoint/checkpoint_names.h"
#include "exec/checkpoint/safetensors.h"
#include "exec/checkpoint/state_updates.h"
#include "exec/numerics/bf16.h"
#include "shared/error.h"
#include "shared/files.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPiece = std::int64_t{1} << 20;
constexpr std::string_view kParts[] = {"master.", "moment_m.", "moment_v."};

std::string stored_name(StatePart part, const ParameterTensor& tensor) {
  return std::string(kParts[static_cast<int>(part)]) + tensor.name;
}

/// In the order of the files: by layers as state_updates has them.
using Order = std::vector<int>;

/// What stands in the file of weights.
std::vector<TensorEntry> weight_entries(const Model& model, const Order& order) {
  std::vector<TensorEntry> entries;
  for (const int layer : order)
    for (const ParameterTensor& tensor : model.layers[static_cast<std::size_t>(layer)].tensors)
      entries.push_back({tensor.name, StoredType::bf16, stored_shape(tensor)});
  return entries;
}

std::vector<StatePart> state_parts(bool has_master) {
  if (has_master) return {StatePart::master, StatePart::moment_m, StatePart::moment_v};
  return {StatePart::moment_m, StatePart::moment_v};
}

/// What stands in the file of the optimizer's states: those of what trains. A frozen tensor is its weights.
std::vector<TensorEntry> state_entries(const Model& model, const Order& order, bool has_master, StoredType moments) {
  std::vector<TensorEntry> entries;
  for (const int index : order) {
    const Layer& layer = model.layers[static_cast<std::size_t>(index)];
    if (!layer.trains) continue;
    for (const StatePart part : state_parts(has_master))
      for (const ParameterTensor& tensor : layer.tensors) {
        const StoredType type = part == StatePart::master ? StoredType::f32 : moments;
        entries.push_back({stored_name(part, tensor), type, stored_shape(tensor)});
      }
  }
  return entries;
}

/// Any order will do where names are asked for.
Order in_model_order(const Model& model) {
  Order order(static_cast<std::size_t>(model.layer_count()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// A bad state never takes the place of a good one.
[[noreturn]] void refuse_state(const std::string& name, const ParameterTensor& tensor, std::int64_t index,
                               float value) {
  throw std::runtime_error(
      fmt::format("the state is bad and is not saved: {}{} is {}; go on from a checkpoint of before, with a lower "
                  "learning rate or other data",
                  name, element_text(stored_shape(tensor), index), value));
}

void write_weights(SafetensorsWriter& writer, const Layer& layer, const StateReader& states) {
  std::vector<std::uint16_t> values;
  for (const ParameterTensor& tensor : layer.tensors)
    for (std::int64_t first = 0; first < tensor.elements(); first += kPiece) {
      values.resize(static_cast<std::size_t>(std::min(kPiece, tensor.elements() - first)));
      states.read_weights(layer.index, tensor.offset + first, values);
      if (const std::size_t at = first_not_finite(values); at < values.size())
        refuse_state(tensor.name, tensor, first + static_cast<std::int64_t>(at), widen_bf16(values[at]));
      writer.append(std::as_bytes(std::span(values)));
    }
}

StoredType stored_moments(const Numerics& numerics) {
  return numerics.moments == ElementType::bf16 ? StoredType::bf16 : StoredType::f32;
}
bool has_master(const Numerics& numerics) { return numerics.states != StateFormat::bf16; }

void write_states(SafetensorsWriter& writer, const Layer& layer, const Numerics& numerics, const StateReader& states) {
  const StoredType moments = stored_moments(numerics);
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  for (const StatePart part : state_parts(has_master(numerics)))
    for (const ParameterTensor& tensor : layer.tensors)
      for (std::int64_t first = 0; first < tensor.elements(); first += kPiece) {
        values.resize(static_cast<std::size_t>(std::min(kPiece, tensor.elements() - first)));
        states.read_layer(layer.index, part, tensor.offset + first, values);
        if (const std::size_t at = first_not_finite(values); at < values.size())
          refuse_state(stored_name(part, tensor), tensor, first + static_cast<std::int64_t>(at), values[at]);
        if (part == StatePart::master || moments == StoredType::f32) {
          writer.append(std::as_bytes(std::span(values)));
          continue;
        }
        halves.resize(values.size());
        std::transform(values.begin(), values.end(), halves.begin(), round_to_bf16);  // exact: they were bf16
        writer.append(std::as_bytes(std::span(halves)));
      }
}

void write_files(const fs::path& folder, const CheckpointInfo& info, const std::string& replaces,
                 const Schedule& schedule, const Model& model, const StateReader& states, FileCalls& calls,
                 const std::function<void(int layer)>& has_read) {
  const std::vector<std::int64_t> bytes = checkpoint_file_bytes(schedule, model);
  const Numerics& numerics = schedule.numerics;
  CheckpointRecord record{
      info.step, info.description, replaces, {{kWeightsFile, {bytes[0], 0}}, {kStatesFile, {bytes[1], 0}}}};
  // As long now as it will be: what a disk that is full in the end would lack is there.
  OutputFile run(folder / kRecordFile, calls);
  run.write(record_text(record));
  const Order order = state_updates(schedule, model).order;
  SafetensorsWriter weights(folder / kWeightsFile, weight_entries(model, order), calls);
  SafetensorsWriter optimizer(folder / kStatesFile,
                              state_entries(model, order, has_master(numerics), stored_moments(numerics)), calls);
  for (const int index : order) {
    const Layer& layer = model.layers[static_cast<std::size_t>(index)];
    write_weights(weights, layer, states);
    if (layer.trains) write_states(optimizer, layer, numerics, states);
    if (has_read) has_read(index);
  }
  record.files[kWeightsFile] = weights.close();
  record.files[kStatesFile] = optimizer.close();
  run.write_at(0, record_text(record));
  run.commit();
}

std::vector<std::int64_t> file_bytes(const Order& order, const Numerics& numerics, const Model& model) {
  return {safetensors_bytes(weight_entries(model, order)),
          safetensors_bytes(state_entries(model, order, has_master(numerics), stored_moments(numerics)))};
}

}  // namespace

std::vector<std::int64_t> checkpoint_file_bytes(const Schedule& schedule, const Model& model) {
  return file_bytes(state_updates(schedule, model).order, schedule.numerics, model);
}

std::int64_t checkpoint_bytes(const Numerics& numerics, const Model& model) {
  Order order(model.layers.size());
  std::iota(order.begin(), order.end(), 0);
  const std::vector<std::int64_t> bytes = file_bytes(order, numerics, model);
  return std::reduce(bytes.begin(), bytes.end());
}

void save_checkpoint(SaveTarget& target, const CheckpointInfo& info, const Schedule& schedule, const Model& model,
                     const StateReader& states, const std::function<void(int layer)>& has_read) {
  const fs::path partial = target.begin();
  try {
    write_files(partial, info, target.replaces(), schedule, model, states, target.calls(), has_read);
  } catch (const std::exception& error) {
    target.abandon();
    throw std::runtime_error(fmt::format("{}: not saved: {}", target.names().folder.string(), error.what()));
  }
  target.put_in_place();
}

Checkpoint::Checkpoint(const fs::path& folder)
    : folder_(folder),
      record_(parse_record(read_record_text(folder), (folder / kRecordFile).string())),
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
  const Order order = in_model_order(model);
  weights_.require_exactly(weight_entries(model, order));
  states_.require_exactly(state_entries(model, order, has_master_, half ? StoredType::bf16 : StoredType::f32));
  weights_.verify();
  states_.verify();
}

const SafetensorsFile& Checkpoint::file_of(StatePart part, const ParameterTensor& tensor) const {
  return part == StatePart::master && states_.find(stored_name(part, tensor)) == nullptr ? weights_ : states_;
}

void Checkpoint::read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const {
  const SafetensorsFile& file = file_of(part, tensor);
  file.read(&file == &weights_ ? tensor.name : stored_name(part, tensor), first, out);
}

std::string Checkpoint::place(const ParameterTensor& tensor, StatePart part, std::int64_t index) const {
  const SafetensorsFile& file = file_of(part, tensor);
  return fmt::format("{}: {}{}", file.path().string(), &file == &weights_ ? tensor.name : stored_name(part, tensor),
                     element_text(stored_shape(tensor), index));
}

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& given) {
  constexpr int kAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    const fs::path folder = find_checkpoint(given);
    const std::string before = record_checksum_in(folder);
    try {
      return std::make_unique<Checkpoint>(folder);
    } catch (const InputError&) {
      // Another run has put a new one in its place between one file and the next: then that one.
      if (attempt == kAttempts || (find_checkpoint(given) == folder && record_checksum_in(folder) == before)) throw;
    }
  }
}

}  // namespace penstock::exec
