// What the names and shapes of published tensors tell about the model that they are of, where it is another one than
// the scenario's: sentences that stand behind a message, without a full stop.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/safetensors.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// Why a file may have the tensors `unused`, which the model has not, while all that it needs is there. REQUIRES: one
/// at least.
std::string why_unused(std::span<const std::string> unused, const ModelConfig& config);

/// Why a file may lack the tensors `missing`; `unused`: those that it has beyond the model's, `decoder_layers`: how
/// many it has, by its names.
std::string why_missing(std::span<const std::string> missing, std::span<const std::string> unused,
                        std::int64_t decoder_layers, const ModelConfig& config);

/// Decoder layers that the names speak of: one more than the largest number behind "layers.".
std::int64_t decoder_layers_of(std::span<const std::string> names);

/// Which key of config.json would make the model's `tensor` as `found`; where none would alone, what else it may be.
std::string why_other_shape(const ParameterTensor& tensor, const Shape& found, const ModelConfig& config);

/// What to do about a dtype that cannot be read.
std::string what_about_dtype(std::string_view dtype);

}  // namespace penstock::exec
