// Models small enough that a schedule of one is checked in milliseconds, with every structural feature that schedules
// see.
#pragma once

#include <string>
#include <vector>

#include "shared/model/frozen_layers.h"
#include "shared/model/model.h"
#include "shared/policy/parameters.h"

namespace penstock::small {

inline ModelConfig base(const char* name) {
  ModelConfig c;
  c.name = name;
  c.hidden = 64;
  c.intermediate = 128;
  c.decoder_layers = 5;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.vocabulary = 256;
  c.max_positions = 512;
  return c;
}

inline Model llama() { return make_model(base("small-llama")); }

inline Model qwen2_tied() {
  ModelConfig c = base("small-qwen2");
  c.family = ModelFamily::qwen2;
  c.qkv_bias = true;
  c.tied_embeddings = true;
  return make_model(c);
}

inline Model qwen3() {
  ModelConfig c = base("small-qwen3");
  c.family = ModelFamily::qwen3;
  c.qk_norm = true;
  return make_model(c);
}

/// Layers 0, 2 and 3 are dense, 1 and 4 have eight experts, of which a token has three.
inline Model experts() {
  ModelConfig c = base("small-experts");
  c.family = ModelFamily::qwen3_moe;
  c.qk_norm = true;
  c.experts = {.count = 8, .per_token = 3, .intermediate = 48, .dense_layers = {0, 2, 3}};
  return make_model(c);
}

/// The same with these layers frozen, as [optimizer] freeze names them.
inline Model frozen(const Model& model, const std::vector<std::string>& names) {
  ModelConfig config = model.config;
  config.frozen_layers = frozen_layers(names, config);
  return make_model(config);
}

/// What people freeze of the five layers, each with what comes of it for backward: nothing below a layer, single layers
/// in between, embedding and head.
inline std::vector<std::vector<std::string>> frozen_sets(const Model& model) {
  const std::vector<std::string> edges = model.config.tied_embeddings ? std::vector<std::string>{"embed_tokens", "norm"}
                                                                      : std::vector<std::string>{"norm", "lm_head"};
  std::vector<std::vector<std::string>> sets = {
      {"layers.2"}, {"layers.0-4"}, {"layers.1-2", "layers.4"}, edges, {"layers.0"}};
  std::vector<std::string> low = {"embed_tokens", "layers.0-2"};
  if (model.config.tied_embeddings) low.push_back("norm");
  sets.push_back(low);
  low.push_back("layers.4");
  sets.push_back(low);
  if (!model.config.tied_embeddings) sets.push_back({"embed_tokens", "layers.0-4"});  // the head alone trains
  return sets;
}

/// Four micro-batches of two sequences of 32 tokens.
inline PolicyInput input(const Model& model, const std::string& preset) {
  PolicyInput in;
  in.model = model;
  in.sequence_length = 32;
  in.sequences = 8;
  in.micro_batch = 2;
  in.hbm_bytes = std::int64_t{1} << 40;
  in.dram_bytes = std::int64_t{1} << 40;
  in.nvme_bytes = std::int64_t{1} << 40;
  in.library_bytes = 0;
  in.host_threads = 4;
  in.parameters = preset_parameters(preset);
  return in;
}

}  // namespace penstock::small
