// Reads a Hugging Face config.json (Llama, Qwen2/2.5, Qwen3, Mistral, Mixtral, Qwen3-MoE, OLMoE).
#pragma once

#include <filesystem>

#include "shared/model/model.h"

namespace penstock {

/// Throws InputError: missing file, not JSON, unknown model_type (naming the nearest that can be read), missing key,
/// absurd value. Keys that may be absent are the family's defaults (shared/model/model_families.h). Keys of config.json
/// that do not change shapes or mathematics are ignored, as Hugging Face's own reader does; those that would change the
/// mathematics in a way not supported (hidden_act other than silu, biases, dropout, ...) are refused. Sliding windows
/// and scaled rotary frequencies are kept in the config, since they matter for long sequences only
/// (shared/model/sequence_limits.h).
ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace penstock
