#include "exec/checkpoint/state_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "shared/random.h"

namespace penstock::exec {
namespace {

constexpr float kInitialDeviation = 0.02f;  // initializer_range of every family

class RandomStates : public StateSource {
 public:
  explicit RandomStates(std::uint64_t seed) : seed_(seed) {}
  void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const override {
    if (part != StatePart::master || tensor.is_bias()) return std::fill(out.begin(), out.end(), 0.0f);
    if (tensor.is_norm()) return std::fill(out.begin(), out.end(), 1.0f);
    const std::uint64_t key = random_key(seed_, tensor.name);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = kInitialDeviation * random_normal(key, static_cast<std::uint64_t>(first) + i);
  }

 private:
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<StateSource> random_states(std::uint64_t seed) { return std::make_unique<RandomStates>(seed); }

std::string StateSource::place(const ParameterTensor& tensor, StatePart, std::int64_t index) const {
  return tensor.name + element_text(stored_shape(tensor), index);
}

std::string element_text(const std::vector<std::int64_t>& shape, std::int64_t index) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; index /= shape[i]) place[i] = index % shape[i];
  return fmt::format("[{}]", fmt::join(place, ", "));
}

std::vector<std::int64_t> stored_shape(const ParameterTensor& tensor) {
  if (tensor.is_norm() || tensor.is_bias()) return {tensor.columns};
  return {tensor.rows, tensor.columns};
}

void read_flat(const StateSource& source, const Layer& layer, StatePart part, std::int64_t first,
               std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  for (const ParameterTensor& tensor : layer.tensors) {
    const std::int64_t from = std::max(first, tensor.offset), to = std::min(end, tensor.offset + tensor.elements());
    if (from >= to) continue;
    source.read(tensor, part, from - tensor.offset,
                out.subspan(static_cast<std::size_t>(from - first), static_cast<std::size_t>(to - from)));
  }
}

}  // namespace penstock::exec
