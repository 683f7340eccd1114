// Where the states come from before the first step: random numbers, published weights, or a checkpoint.
//
// Thread safety: all members may be called from several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/model/model.h"

namespace penstock::exec {

enum class StatePart { master, moment_m, moment_v };

class StateSource {
 public:
  virtual ~StateSource() = default;
  /// Elements [first, first + out.size()) of the tensor's own row-major order, in fp32.
  virtual void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const = 0;
  /// Where a person finds an element of the tensor's own row-major order ("FILE: NAME[3, 5]"), for messages.
  virtual std::string place(const ParameterTensor& tensor, StatePart part, std::int64_t index) const;
  /// Which files are read and what was decided about them, in one line; empty if there are none.
  virtual std::string describe() const { return ""; }
};

/// Projections and embeddings normal with standard deviation 0.02, norm weights 1, biases 0, moments 0. Each element is
/// a function of (seed, tensor name, index).
std::unique_ptr<StateSource> random_states(std::uint64_t seed);

/// Published weights (safetensors: a file, an index, or their folder, see weight_files.h); moments 0. Throws InputError
/// unless they are the model's, to the tensor: a name that is missing, a shape or dtype that is another, and every
/// tensor that the model would not use, other than rotary tables and a copy of the embedding as the head tied to it,
/// which are held against what they follow from. Names without "model." (a model saved without head) are understood.
std::unique_ptr<StateSource> published_states(const std::filesystem::path& path, const Model& model);

/// "[2, 9]", or "[9]" of a vector: where an element of a tensor's row-major order is, for messages.
std::string element_text(const std::vector<std::int64_t>& shape, std::int64_t index);

/// As files have it under Hugging Face's names: norms and biases are vectors.
std::vector<std::int64_t> stored_shape(const ParameterTensor& tensor);

/// Elements [first, first + out.size()) of a layer's flat order; padding is 0.
void read_flat(const StateSource& source, const Layer& layer, StatePart part, std::int64_t first, std::span<float> out);

}  // namespace penstock::exec
