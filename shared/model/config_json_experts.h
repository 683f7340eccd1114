// What a config.json says of its mixtures of experts.
#pragma once

#include "shared/json_reader.h"
#include "shared/model/model.h"

namespace penstock {

/// Keys that config.json may lack; those that it must have are num_experts (or num_local_experts),
/// num_experts_per_tok and, in a family that has it, moe_intermediate_size.
inline constexpr const char* kOptionalExpertKeys[] = {"norm_topk_prob",       "output_router_logits",
                                                      "router_aux_loss_coef", "decoder_sparse_step",
                                                      "mlp_only_layers",      "router_jitter_noise"};

/// Of a family without experts nothing is read. REQUIRES: the other sizes are read.
void read_experts(JsonObject& object, ModelConfig& config);

}  // namespace penstock
