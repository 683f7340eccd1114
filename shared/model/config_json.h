// Reads a Hugging Face config.json (Llama, Qwen2/2.5, Qwen3, Mistral, Ministral, Mixtral, Qwen3-MoE, OLMoE).
#pragma once

#include <filesystem>

#include "shared/model/model.h"

namespace penstock {

/// Throws InputError: missing file, not JSON, unknown model_type (naming the nearest that can be read), missing key,
/// absurd value. Keys that may be absent are the family's defaults (shared/model/model_families.h). Keys of config.json
/// that do not change shapes or mathematics are ignored, as Hugging Face's own reader does; those that would change the
/// mathematics in a way not supported (hidden_act other than silu, biases, dropout, ...) are refused. Scalings of
/// rotary frequencies that are not computed are kept in the config: they change neither bytes nor time
/// (shared/model/sequence_limits.h).
ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace penstock
