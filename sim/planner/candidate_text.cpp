#include "sim/planner/candidate_text.h"

#include <fmt/format.h>

#include <utility>

#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock::sim {
namespace {

std::string size_text(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::string group_text(const PolicyParameters& p) {
  if (p.group == 0) return "one group";
  if (p.first_group > 0) return fmt::format("groups of {} behind one of {}", p.group, p.first_group);
  return fmt::format("groups of {}", p.group);
}

const char* kept(Keep keep) {
  switch (keep) {
    case Keep::input: return "inputs";
    case Keep::input_context: return "inputs and attention's context";
    case Keep::input_attention: return "inputs and attention";
    case Keep::everything: return "everything";
  }
  return "";
}

/// "in DRAM"
std::string place_text(TierKind tier) {
  return fmt::format("{} {}", tier == TierKind::nvme ? "on" : "in", tier_text(tier));
}

std::string keep_text(const PolicyParameters& p) {
  std::string text = fmt::format("{} kept", kept(p.keep));
  if (p.checkpoint_every > 1) text += fmt::format(" of 1 layer in {}", p.checkpoint_every);
  text += fmt::format(" {}", place_text(p.activations));
  if (p.first_layers > 0)
    text += fmt::format(", of the first {} layer{} {} {}", p.first_layers, p.first_layers == 1 ? "" : "s",
                        kept(p.first_keep), place_text(p.first_activations));
  if (activations_travel(p)) text += fmt::format(" ({} slots)", p.activation_slots);
  if (p.checkpoint_every > 1 && p.forward_twice) text += ", forward of a block made again twice";
  return text;
}

std::string layers_text(const char* what, int count, const char* where) {
  if (count == 0) return {};
  return count < 0 ? fmt::format(", all {} {}", what, where)
                   : fmt::format(", {} of {} layer{} {}", what, count, count == 1 ? "" : "s", where);
}

std::string optimizer_text(const PolicyParameters& p) {
  const char* place = p.optimizer_place == OptimizerPlace::gpu || p.resident_states < 0 ? "GPU" : "CPU";
  switch (p.optimizer_time) {
    case OptimizerTime::end: return fmt::format("{} optimizer at the end", place);
    case OptimizerTime::backward: return fmt::format("{} optimizer as gradients land", place);
    case OptimizerTime::next_forward: return fmt::format("{} optimizer under the next forward", place);
  }
  return {};
}

}  // namespace

const char* tier_text(TierKind kind) {
  return kind == TierKind::hbm ? "HBM" : kind == TierKind::dram ? "DRAM" : "NVMe";
}

std::string candidate_text(const Candidate& candidate) {
  const PolicyParameters& p = candidate.parameters;
  std::string text = fmt::format("micro-batch {}, {}, {}", candidate.micro_batch, group_text(p), keep_text(p));
  if (candidate.chunk_tokens > 0) text.insert(0, fmt::format("chunks of {} tokens, ", candidate.chunk_tokens));
  text += layers_text("states", p.resident_states, "in HBM");
  if (p.resident_weights < 0 || (p.resident_states >= 0 && p.resident_weights > p.resident_states))
    if (p.resident_states >= 0) text += layers_text("weights", p.resident_weights, "in HBM");
  text += layers_text("states", p.nvme_states, "on NVMe") + layers_text("weights", p.nvme_weights, "on NVMe");
  if (p.resident_weights >= 0 && p.resident_states >= 0)
    text += fmt::format(", {} weight buffer{}", p.weight_buffers, p.weight_buffers == 1 ? "" : "s");
  if (p.resident_states >= 0) text += fmt::format(", gradients wait {}", place_text(p.gradients));
  if (p.group > 0 && p.gradient_sums != TierKind::hbm) text += fmt::format(", sums {}", place_text(p.gradient_sums));
  text += ", " + optimizer_text(p);
  if (p.numerics.chunking.mlp_tokens > 0) text += fmt::format(", MLP by {} tokens", p.numerics.chunking.mlp_tokens);
  return text;
}

std::string usable_text(TierKind tier, const Machine& machine) {
  const TierCapacities usable = usable_memory(machine);
  const auto [all, rest] = tier == TierKind::hbm    ? std::pair(machine.gpu.hbm_bytes, usable.hbm)
                           : tier == TierKind::dram ? std::pair(machine.dram_bytes, usable.dram)
                                                    : std::pair(machine.nvme.bytes, usable.nvme);
  if (all == rest) return size_text(all);
  return fmt::format("{} of its {}", size_text(rest), size_text(all));
}

std::string shortage_text(const ArenaBytes& arenas, const Machine& machine) {
  std::string text;
  const auto add = [&](TierKind tier, std::int64_t need, std::int64_t have) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} needs {} and has {}", tier_names()[static_cast<std::size_t>(tier)], size_text(need),
                        usable_text(tier, machine));
    if (need > have) text += fmt::format(", {} too little", size_text(need - have));
  };
  const TierCapacities usable = usable_memory(machine);
  add(TierKind::hbm, arenas.hbm, usable.hbm);
  add(TierKind::dram, arenas.dram, usable.dram);
  if (arenas.nvme > 0) add(TierKind::nvme, arenas.nvme, usable.nvme);
  return text;
}

}  // namespace penstock::sim
