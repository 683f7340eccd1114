// Which layers a scenario freezes: [optimizer] freeze.
#pragma once

#include <string>
#include <vector>

#include "shared/model/model.h"

namespace penstock {

/// "embed_tokens", "layers.3", "layers.0-15" (decoder layers, counted from 0 as Hugging Face does), "norm", "lm_head";
/// as indices of Model::layers, ascending. Final norm and output projection are one layer, and with tied embeddings one
/// with the embedding: they are frozen together. Throws InputError, beginning with the name at fault: one that is none
/// of these, a single tensor of a layer, a range beyond the model, a part of what is frozen together, everything.
std::vector<int> frozen_layers(const std::vector<std::string>& names, const ModelConfig& config);

/// Throws InputError unless `config.frozen_layers` can have come from frozen_layers.
void check_frozen_layers(const ModelConfig& config);

/// The same model with another number of decoder layers, for questions of size: what is frozen of those that are left
/// stays so, as far as something is left to train; windows go on from the first layer again.
ModelConfig with_decoder_layers(ModelConfig config, std::int64_t layers);

/// "embed_tokens, layers.0-15"; empty if nothing is frozen.
std::string frozen_text(const ModelConfig& config);

}  // namespace penstock
