// Reads a Hugging Face config.json (Llama, Qwen2/2.5, Qwen3, Mistral).
#pragma once

#include <filesystem>

#include "shared/model/model.h"

namespace penstock {

/// Throws InputError: missing file, not JSON, unknown model_type, missing key, absurd value. Keys of
/// config.json that do not change shapes or mathematics are ignored, as Hugging Face's own reader does;
/// those that would change the mathematics in a way not supported (sliding window in use, a rope_type other
/// than default and llama3, hidden_act other than silu, ...) are refused.
ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace penstock
