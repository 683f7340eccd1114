#include "exec/checkpoint/states.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "exec/checkpoint/state_updates.h"
#include "exec/numerics/bf16.h"
#include "exec/optimizer/planes.h"
#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements moved at a time

bool is_state(TensorKind tensor) {
  return tensor == TensorKind::weights || tensor == TensorKind::low_bits || tensor == TensorKind::master ||
         tensor == TensorKind::moment_m || tensor == TensorKind::moment_v;
}

StatePart part_of(TensorKind tensor) {
  if (tensor == TensorKind::moment_m) return StatePart::moment_m;
  return tensor == TensorKind::moment_v ? StatePart::moment_v : StatePart::master;
}

/// Elements of 2 bytes, or 4 (fp32 as it is).
bool is_half(TensorKind tensor, const Numerics& numerics) {
  if (tensor == TensorKind::weights || tensor == TensorKind::low_bits) return true;
  return (tensor == TensorKind::moment_m || tensor == TensorKind::moment_v) && numerics.moments == ElementType::bf16;
}

std::uint16_t half_of(TensorKind tensor, StateFormat format, float value) {
  if (format == StateFormat::planes && tensor == TensorKind::weights)
    return split_planes(std::bit_cast<std::uint32_t>(value)).hi;
  if (tensor == TensorKind::low_bits) return split_planes(std::bit_cast<std::uint32_t>(value)).lo;
  return round_to_bf16(value);
}

std::int64_t element_size(TensorKind tensor, const Numerics& numerics) { return is_half(tensor, numerics) ? 2 : 4; }

// Patterns of magnitudes from which on a value is lost: infinity and NaN; what rounds to infinity in bf16, whose
// largest number is 0x7F7F, by half a step.
constexpr std::uint32_t kInfinity = 0x7F800000u, kBeyondBf16 = 0x7F7F8000u;

/// Where the first value is whose magnitude has `limit` or a larger pattern; values.size() if none has.
std::size_t first_beyond(std::span<const float> values, std::uint32_t limit) {
  const auto magnitude = [](float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu; };
  std::uint32_t largest = 0;  // all of them first: that takes one pass without branches
  for (const float value : values) largest = std::max(largest, magnitude(value));
  if (largest < limit) return values.size();
  const auto found = std::find_if(values.begin(), values.end(), [&](float value) { return magnitude(value) >= limit; });
  return static_cast<std::size_t>(found - values.begin());
}

/// `at`: flat position in the layer.
[[noreturn]] void refuse_value(const StateSource& source, const Layer& layer, StatePart part, std::int64_t at,
                               float value) {
  const auto tensor = std::find_if(layer.tensors.begin(), layer.tensors.end(), [&](const ParameterTensor& candidate) {
    return at < candidate.offset + candidate.elements();
  });
  if (tensor == layer.tensors.end()) throw std::logic_error("padding that is not zero");
  throw InputError(fmt::format(
      "{} is {}, {}: training cannot start from it; take another copy, or one from before it was lost",
      source.place(*tensor, part, at - tensor->offset), value,
      std::isfinite(value) ? "more than bf16, in which it is used, can hold (3.39e38)" : "not a finite number"));
}

struct Piece {
  const Access* access;
  std::int64_t first;
  std::int64_t count;
};

std::vector<Piece> pieces_of(const Schedule& schedule, const Model& model) {
  std::vector<Piece> pieces;
  for (const Access& access : schedule.initial) {
    if (!is_state(access.value.tensor)) continue;
    if (access.value.layer < 0 || access.value.layer >= model.layer_count())
      throw InputError(fmt::format("schedule: an initial value names layer {}", access.value.layer));
    const std::int64_t elements = model.layers[static_cast<std::size_t>(access.value.layer)].state_elements;
    const std::int64_t needed = elements * element_size(access.value.tensor, schedule.numerics);
    if (access.bytes < needed)
      throw InputError(fmt::format("schedule: initial buffer \"{}\" has {} bytes for a state of layer {} that has {}",
                                   schedule.buffers[static_cast<std::size_t>(access.buffer)].name, access.bytes,
                                   access.value.layer, needed));
    for (std::int64_t first = 0; first < elements; first += kPiece)
      pieces.push_back({&access, first, std::min(kPiece, elements - first)});
  }
  return pieces;
}

void load_piece(const Schedule& schedule, const Model& model, const TierMemories& memories, const StateSource& source,
                const Piece& piece) {
  const Value& value = piece.access->value;
  const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(piece.access->buffer)];
  std::vector<float> values(static_cast<std::size_t>(piece.count));
  const Layer& layer = model.layers[static_cast<std::size_t>(value.layer)];
  read_flat(source, layer, part_of(value.tensor), piece.first, values);
  const bool as_bf16 = is_half(value.tensor, schedule.numerics) && value.tensor != TensorKind::low_bits;
  if (const std::size_t at = first_beyond(values, as_bf16 ? kBeyondBf16 : kInfinity); at < values.size())
    refuse_value(source, layer, part_of(value.tensor), piece.first + static_cast<std::int64_t>(at), values[at]);
  Memory& memory = *memories[static_cast<std::size_t>(buffer.tier)];
  const std::int64_t offset = buffer.offset_bytes + piece.access->offset_bytes;
  if (!is_half(value.tensor, schedule.numerics))
    return memory.write(offset + 4 * piece.first, std::as_bytes(std::span(values)));
  std::vector<std::uint16_t> halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    halves[i] = half_of(value.tensor, schedule.numerics.states, values[i]);
  memory.write(offset + 2 * piece.first, std::as_bytes(std::span(halves)));
}

}  // namespace

std::size_t first_not_finite(std::span<const float> values) { return first_beyond(values, kInfinity); }
std::size_t first_not_finite(std::span<const std::uint16_t> bf16) {
  const auto found =
      std::find_if(bf16.begin(), bf16.end(), [](std::uint16_t bits) { return (bits & 0x7F80) == 0x7F80; });
  return static_cast<std::size_t>(found - bf16.begin());
}

void load_states(const Schedule& schedule, const Model& model, const TierMemories& memories,
                 const StateSource& source) {
  const std::vector<Piece> pieces = pieces_of(schedule, model);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t failed = pieces.size();  // the first of them: all before it were begun, so that it is the same every time
  const auto work = [&] {
    std::size_t i = pieces.size();
    try {
      for (i = next++; i < pieces.size(); i = next++) load_piece(schedule, model, memories, source, pieces[i]);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (i < failed) {
        failed = i;
        error = std::current_exception();
      }
      next = pieces.size();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < usable_cores(); ++i) others.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

const Access& StateReader::place(TensorKind tensor, int layer) const {
  const Access* found = state_place(schedule_, tensor, layer);
  if (found == nullptr) throw InputError(fmt::format("schedule: no initial place holds a state of layer {}", layer));
  return *found;
}

template <typename T>
void StateReader::fetch(TensorKind tensor, int layer, std::int64_t first, std::span<T> out) const {
  const Access& access = place(tensor, layer);
  const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
  memories_[static_cast<std::size_t>(buffer.tier)]->read(
      buffer.offset_bytes + access.offset_bytes + first * static_cast<std::int64_t>(sizeof(T)),
      std::as_writable_bytes(out));
}

void StateReader::read_weights(int layer, std::int64_t first, std::span<std::uint16_t> out) const {
  fetch(TensorKind::weights, layer, first, out);
}

void StateReader::read_layer(int layer, StatePart part, std::int64_t first, std::span<float> out) const {
  const Numerics& numerics = schedule_.numerics;
  const bool moment = part != StatePart::master;
  const TensorKind tensor = part == StatePart::moment_m   ? TensorKind::moment_m
                            : part == StatePart::moment_v ? TensorKind::moment_v
                                                          : TensorKind::master;
  const bool trains = model_.layers[static_cast<std::size_t>(layer)].trains;
  if (!trains && moment) return std::fill(out.begin(), out.end(), 0.0f);
  if (moment ? numerics.moments == ElementType::fp32 : trains && numerics.states == StateFormat::master_and_copy)
    return fetch(tensor, layer, first, out);
  std::vector<std::uint16_t> high(out.size()), low(out.size());
  fetch(moment ? tensor : TensorKind::weights, layer, first, std::span(high));
  if (moment || !trains || numerics.states == StateFormat::bf16) {
    std::transform(high.begin(), high.end(), out.begin(), widen_bf16);
    return;
  }
  fetch(TensorKind::low_bits, layer, first, std::span(low));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<float>(join_planes(high[i], low[i]));
}

void StateReader::read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const {
  for (const Layer& layer : model_.layers)
    for (const ParameterTensor& own : layer.tensors)
      if (own.name == tensor.name) return read_layer(layer.index, part, own.offset + first, out);
  throw InputError(fmt::format("the model has no tensor \"{}\"", tensor.name));
}

std::uint64_t StateReader::fingerprint() const {
  std::uint64_t hash = 0;
  std::vector<float> values;
  for (const Layer& layer : model_.layers)
    for (const StatePart part : {StatePart::master, StatePart::moment_m, StatePart::moment_v})
      for (std::int64_t first = 0; first < layer.state_elements; first += kPiece) {
        values.resize(static_cast<std::size_t>(std::min(kPiece, layer.state_elements - first)));
        read_layer(layer.index, part, first, values);
        for (const float value : values) hash = mix64(hash ^ std::bit_cast<std::uint32_t>(value)) + hash;
      }
  return hash;
}

}  // namespace penstock::exec
