// The documented parameter space of streamed schedules (docs/design.md, "Policies"). A named policy is a preset of it.
// Scenario files override any of these in [policy], under the names given here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

enum class BurstKind { layer, tensor, fixed };
enum class CopyLanes { per_direction, shared };
enum class OptimizerPlace { host, gpu };
enum class OptimizerTime {
  end,           // serial: the next step waits for all of it
  backward,      // as gradients land; without clipping
  next_forward,  // after the exact norm, layer by layer, hidden under the next forward
};
/// Which launch-thread waits a system makes inside a step.
enum class HostWaits {
  none,
  per_layer,   // before each layer's compute, for its weights (ZeRO-3 on one GPU)
  per_buffer,  // before each load, for the previous load of the same buffer (MegaTrain as released)
  on_compute,  // loads run in line with compute: the next load starts after the layer (FSDP2 without prefetch overlap)
};

/// Of the decoder layers first..last (1 is the one behind the embedding; last = -1: the last of the model), `count`
/// spread evenly (0 = all) keep their input and `keep` in `activations`.
struct LayerKeep {
  int first = 1, last = -1, count = 0;
  Keep keep = Keep::input;
  TierKind activations = TierKind::hbm;

  auto operator<=>(const LayerKeep&) const = default;
};

struct PolicyParameters {
  std::string name = "penstock";
  int group = 0;        // micro-batches per layer visit; 0 = all
  int first_group = 0;  // 0 = as group
  int weight_buffers = 2;
  BurstKind burst = BurstKind::layer;
  std::int64_t burst_bytes = 0;  // for BurstKind::fixed
  CopyLanes copy_lanes = CopyLanes::per_direction;
  int resident_weights =
      0;  // how many of the first decoder layers keep their weights in HBM; -1 = every layer, embedding and head too
  int resident_states = 0;      // likewise for optimizer states (needs optimizer_place gpu for those layers)
  bool resident_edges = false;  // embedding and head keep weights, gradients and states in HBM
  // How many of the last decoder layers keep states (master, low bits, moments) and weights on NVMe; -1 = every layer,
  // embedding and head too. AdamW finds them in a ring of nvme_slots in DRAM: 1 = read, update and write one after the
  // other, more = at the same time.
  int nvme_states = 0;
  int nvme_weights = 0;
  int nvme_slots = 2;
  Keep keep = Keep::input;
  int checkpoint_every = 1;              // K: keep every K-th decoder input only, recompute by blocks
  TierKind activations = TierKind::hbm;  // where kept activations and inputs wait
  /// So many of the first decoder layers keep `first_keep` in `first_activations` instead, and the input of each.
  int first_layers = 0;
  Keep first_keep = Keep::input;
  TierKind first_activations = TierKind::hbm;
  /// Others that are kept otherwise, by ranges; where ranges overlap the later one counts.
  std::vector<LayerKeep> keep_layers;
  int activation_slots = 2;             // HBM ring of kept activations when they wait elsewhere
  TierKind gradients = TierKind::dram;  // where finished gradients wait for the norm; nvme: of layers whose states are
                                        // there, the others' in dram
  TierKind gradient_sums =
      TierKind::hbm;       // where sums wait between groups; dram: they come back, grow and leave again (ZeRO-3)
  int gradient_slots = 2;  // HBM ring of gradient sums when one group covers the step
  Numerics numerics;
  OptimizerPlace optimizer_place = OptimizerPlace::host;
  OptimizerTime optimizer_time = OptimizerTime::next_forward;
  int recompute_loads = 0;  // 1: recompute fetches the weights once more than backward does (MegaTrain as released)
  bool forward_twice =
      false;  // recompute runs the forward a second time without need (MegaTrain as released: 10 N FLOPs)
  double host_pass_bytes_per_parameter =
      0;  // DRAM traffic of serial host passes after backward (scan, scale, re-flatten, zero)
  // Decoder weights cross the link from a second bf16 copy in DRAM, written behind each layer's update (MegaTrain as
  // released): 2 B/param more, and 4 B/param of DRAM traffic per step.
  bool upload_copies = false;
  HostWaits host_waits = HostWaits::none;
  int optimizer_threads = 0;  // 0 = all cores of the machine but those that other lanes need
};

/// What the generator needs of workload and machine.
struct PolicyInput {
  Model model;
  std::int64_t sequence_length = 0;
  int sequences = 0;           // per optimizer step
  int micro_batch = 1;         // sequences per micro-batch; divides `sequences`
  std::int64_t hbm_bytes = 0;  // what arenas may take of the tiers (usable_memory)
  std::int64_t dram_bytes = 0;
  std::int64_t nvme_bytes = 0;
  std::int64_t library_bytes = 0;
  int host_threads = 1;
  PolicyParameters parameters;
};

/// Writes the schedule. Throws InputError for parameters that contradict each other (clipping with
/// optimizer_time = backward, a group that does not divide, ...). Does not check capacities: the checker does,
/// after the tiers' real need is known (`fit` wants to say by how much).
Schedule make_schedule(const PolicyInput& input);

/// Bytes of each tier's arena.
struct ArenaBytes {
  std::int64_t hbm = 0;
  std::int64_t dram = 0;
  std::int64_t nvme = 0;
};
inline bool fits(const ArenaBytes& arenas, const PolicyInput& input) {
  return arenas.hbm <= input.hbm_bytes && arenas.dram <= input.dram_bytes && arenas.nvme <= input.nvme_bytes;
}
/// What make_schedule's arenas will be, without writing an op: the planner asks it thousands of times. Throws as
/// make_schedule does.
ArenaBytes arena_bytes(const PolicyInput& input);

struct PresetInfo {
  std::string name;
  std::string summary;   // one line for `list`
  std::string source;    // whose behaviour, where it is described
  bool planned = false;  // what a scenario leaves open is the planner's to choose; `parameters` are where it starts
  std::string software = {};  // file of scenarios/software that says what that system's own code adds; empty: none
};
const std::vector<PresetInfo>& presets();

/// PresetInfo::planned of the preset of this name.
bool is_planned(const std::string& name);

/// PresetInfo::software of the preset of this name; empty if there is none.
std::string preset_software(const std::string& name);

/// Throws InputError with the list of names if there is no such preset.
PolicyParameters preset_parameters(const std::string& name);

}  // namespace penstock
