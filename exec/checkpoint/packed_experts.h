// Where a mixture of experts' tensors lie in files that hold the experts of a layer as one: as transformers 5 has them in
// memory, and writes them if it is told to save them so.
#pragma once

#include <optional>
#include <string>

#include "exec/checkpoint/safetensors.h"
#include "shared/model/model.h"

namespace penstock::exec {

struct PackedPlace {
  std::string name;
  Shape shape;             // of the stored tensor
  std::int64_t first = 0;  // element at which ours begins
};

/// mlp.experts.gate_up_proj [experts, 2 width, hidden], each expert's gate above its up; mlp.experts.down_proj [experts,
/// hidden, width]; Mixtral's router as mlp.gate.weight. nullopt: the tensor is stored under its own name always.
std::optional<PackedPlace> packed_place(const ParameterTensor& tensor, const ModelConfig& config);

}  // namespace penstock::exec
