// Where the states come from before the first step: random numbers, published weights, or a checkpoint.
//
// Thread safety: all members may be called from several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "shared/model/model.h"

namespace penstock::exec {

enum class StatePart { master, moment_m, moment_v };

class StateSource {
 public:
  virtual ~StateSource() = default;
  /// Elements [first, first + out.size()) of the tensor's own row-major order, in fp32.
  virtual void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const = 0;
};

/// Projections and embeddings normal with standard deviation 0.02, norm weights 1, biases 0, moments 0. Each element is
/// a function of (seed, tensor name, index).
std::unique_ptr<StateSource> random_states(std::uint64_t seed);

/// Published weights (safetensors: a file, an index, or their folder); moments 0. Throws InputError if a tensor is
/// missing.
std::unique_ptr<StateSource> published_states(const std::filesystem::path& path, const Model& model);

/// Elements [first, first + out.size()) of a layer's flat order; padding is 0.
void read_flat(const StateSource& source, const Layer& layer, StatePart part, std::int64_t first, std::span<float> out);

}  // namespace penstock::exec
