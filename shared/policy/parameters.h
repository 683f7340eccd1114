// The documented parameter space of streamed schedules (docs/design.md, "Policies"). A named policy is a preset of it.
// Scenario files override any of these in [policy], under the names given here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/ir/schedule_names.h"
#include "shared/policy/parameter_kinds.h"

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
  int activation_slots = 2;             // HBM ring of kept activations when they wait elsewhere; on NVMe, DRAM ring too
  TierKind gradients = TierKind::dram;  // where finished gradients wait for the norm; nvme: of layers whose states are
                                        // there, the others' in dram
  TierKind gradient_sums =
      TierKind::hbm;       // where sums wait between groups; elsewhere they come back, grow and leave again (ZeRO-3)
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

/// Whether activations of any layer are to wait there.
inline bool activations_on(const PolicyParameters& p, TierKind tier) {
  return p.activations == tier || (p.first_layers > 0 && p.first_activations == tier) ||
         std::any_of(p.keep_layers.begin(), p.keep_layers.end(),
                     [tier](const LayerKeep& kept) { return kept.activations == tier; });
}
/// Whether any wait outside of HBM, behind a ring of activation_slots.
inline bool activations_travel(const PolicyParameters& p) {
  return activations_on(p, TierKind::dram) || activations_on(p, TierKind::nvme);
}

/// The table of all parameters but the name: calls `row(about, member, values)` for each, in the order in which they
/// are written. Everything that goes over the parameters goes over this: reading and writing [policy], `penstock-sim
/// list policy` and the table of docs/policies.md, comparing candidates, what a scenario fixes, and the planner's moves
/// in one parameter at a time. So a new parameter is a member above and a row here.
///
/// `about` is a ParameterAbout; `member(p)` the parameter within (const) PolicyParameters, a reference or a tuple of
/// them; `values` one of the kinds of parameter_kinds.h.
template <typename Row>
void each_parameter(Row&& row) {
  using P = PolicyParameters;
  constexpr int kMostMicroBatches = 1'000'000, kMostLayers = 4096, kMostBuffers = 1024;
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
  constexpr auto kOrder = Decides::order_of_additions;
  constexpr auto kNumerics = Decides::numerics;
  static constexpr std::string_view kCopyLanes[] = {"per_direction", "shared"};
  static constexpr std::string_view kPlaces[] = {"host", "gpu"};
  static constexpr std::string_view kTimes[] = {"end", "backward", "next_forward"};
  static constexpr std::string_view kHostWaits[] = {"none", "per_layer", "per_buffer", "on_compute"};
  const auto only_with_first_layers = [](const P& p) { return p.first_layers > 0; };
  const auto only_with_nvme_states = [](const P& p, std::int64_t) { return p.nvme_states != 0; };
  // One group leaves no sum to wait on a drive: it would be the same schedule.
  const auto only_with_sums_on_gpu = [](const P& p, std::int64_t tier) {
    return !p.numerics.sum_on_host && (tier != static_cast<std::int64_t>(TierKind::nvme) || p.group > 0);
  };

  row(
      ParameterAbout{.key = "group",
                     .meaning = "micro-batches per visit: 1 = micro-batch-major, all = layer-major; groups must add up "
                                "to the step"},
      [](auto& p) -> auto& { return p.group; }, CountOrAll{1, kMostMicroBatches, 0});
  row(
      ParameterAbout{.key = "first_group",
                     .meaning = "size of the first group, under whose forward a `next_forward` optimizer hides; 0 = as "
                                "`group`"},
      [](auto& p) -> auto& { return p.first_group; }, Count{0, kMostMicroBatches});
  row(
      ParameterAbout{.key = "weight_buffers",
                     .meaning = "slots of the ring of decoder weights",
                     .moves = steps(1, {-2, -1, 1, 2}, 1, 64)},
      [](auto& p) -> auto& { return p.weight_buffers; }, Count{1, kMostBuffers});
  row(
      ParameterAbout{.key = "burst", .meaning = "how copies of weights, states and gradients are cut"},
      [](auto& p) { return std::tie(p.burst, p.burst_bytes); }, BurstSize{});
  row(
      ParameterAbout{.key = "copy_lanes", .meaning = "one copy engine per direction, or one for both"},
      [](auto& p) -> auto& { return p.copy_lanes; }, OneOf{kCopyLanes});
  row(
      ParameterAbout{.key = "resident_weights",
                     .meaning = "first decoder layers whose weights stay in HBM through a step; all: embedding and "
                                "head too",
                     .moves = steps(5, {-8, -4, -2, -1, 1, 2, 4, 8}, 0, kDecoderLayers)},
      [](auto& p) -> auto& { return p.resident_weights; }, CountOrAll{0, kMostLayers, -1});
  row(
      ParameterAbout{.key = "resident_states",
                     .meaning = "the same for states; such layers are updated on the GPU whatever `optimizer_place` "
                                "says",
                     .moves = steps(4, {-8, -4, -2, -1, 1, 2, 4, 8}, 0, kDecoderLayers)},
      [](auto& p) -> auto& { return p.resident_states; }, CountOrAll{0, kMostLayers, -1});
  row(
      ParameterAbout{.key = "resident_edges",
                     .meaning = "embedding and head keep weights, gradients and states in HBM"},
      [](auto& p) -> auto& { return p.resident_edges; }, Flag{});
  row(
      ParameterAbout{.key = "nvme_states",
                     .meaning = "last decoder layers whose states lie on NVMe; all: embedding and head too; updated on "
                                "the host, see above",
                     .moves = steps(7, {-2, -1, 1, 2}, 1, kDecoderLayers, only_with_nvme_states)},
      [](auto& p) -> auto& { return p.nvme_states; }, CountOrAll{0, kMostLayers, -1});
  row(
      ParameterAbout{.key = "nvme_weights", .meaning = "the same for weights"},
      [](auto& p) -> auto& { return p.nvme_weights; }, CountOrAll{0, kMostLayers, -1});
  row(
      ParameterAbout{
          .key = "nvme_slots",
          .meaning = "layers that AdamW has in DRAM at a time; 1: read, update and write one after the other",
          .moves = steps(8, {-1, 1}, 1, 8, only_with_nvme_states)},
      [](auto& p) -> auto& { return p.nvme_slots; }, Count{1, kMostBuffers});
  row(
      ParameterAbout{.key = "keep",
                     .meaning = "what forward keeps for backward; the rest is recomputed. `input_context`: "
                                "what attention made, but not its output projection",
                     .settles = {"first_layers", "keep_layers"}},
      [](auto& p) -> auto& { return p.keep; }, OneOf{keep_names()});
  row(
      ParameterAbout{.key = "checkpoint_every",
                     .meaning = "K: blocks, see above; not with `everything`",
                     .moves = steps(6, {-2, -1, 1, 2}, 1, kDecoderLayers,
                                    [](const P& p, std::int64_t) { return p.keep != Keep::everything; })},
      [](auto& p) -> auto& { return p.checkpoint_every; }, Count{1, kMostLayers});
  row(
      ParameterAbout{.key = "activations",
                     .meaning = "where layer inputs and kept regions wait",
                     .settles = {"first_layers", "keep_layers"},
                     .moves = others(11, {0, 1, 2})},
      [](auto& p) -> auto& { return p.activations; }, OneOf{tier_names()});
  row(
      ParameterAbout{.key = "first_layers",
                     .meaning = "so many of the first decoder layers are kept otherwise than the rest, each with its "
                                "input; blocks begin behind them"},
      [](auto& p) -> auto& { return p.first_layers; }, Count{0, kMostLayers});
  row(
      ParameterAbout{
          .key = "first_keep", .meaning = "what those keep", .needs = "first_layers", .counts = only_with_first_layers},
      [](auto& p) -> auto& { return p.first_keep; }, OneOf{keep_names()});
  row(
      ParameterAbout{.key = "first_activations",
                     .meaning = "where theirs wait",
                     .needs = "first_layers",
                     .counts = only_with_first_layers},
      [](auto& p) -> auto& { return p.first_activations; }, OneOf{tier_names()});
  row(
      ParameterAbout{.key = "keep_layers",
                     .meaning =
                         "what layers leave and where, by ranges; `*12`: so many of the range, spread evenly; a "
                         "later range overrides an earlier one, and all of them the keys above; not with blocks"},
      [](auto& p) -> auto& { return p.keep_layers; }, LayerRanges{});
  row(
      ParameterAbout{
          .key = "activation_slots",
          .meaning = "ring in HBM of what comes back from DRAM or NVMe, and one in DRAM for what is on NVMe",
          .moves = steps(2, {-1, 1, 2, 4}, 1, 64, [](const P& p, std::int64_t) { return activations_travel(p); })},
      [](auto& p) -> auto& { return p.activation_slots; }, Count{1, kMostBuffers});
  row(
      ParameterAbout{.key = "gradients",
                     .meaning =
                         "where finished gradients wait for the norm; resident layers' always in HBM; `nvme`: of "
                         "layers whose states are there, the others' in DRAM",
                     // From NVMe to DRAM is the way of the states, not one of its own.
                     .moves = others(12, {0, 1},
                                     [](const P& p, std::int64_t tier) {
                                       return !p.numerics.sum_on_host && (p.gradients != TierKind::nvme || tier == 0);
                                     })},
      [](auto& p) -> auto& { return p.gradients; }, OneOf{tier_names()});
  row(
      ParameterAbout{.key = "gradient_sums",
                     .meaning = "where sums wait between groups",
                     .moves = others(13, {0, 1, 2}, only_with_sums_on_gpu)},
      [](auto& p) -> auto& { return p.gradient_sums; }, OneOf{tier_names()});
  row(
      ParameterAbout{
          .key = "gradient_slots", .meaning = "ring of gradients that leave", .moves = steps(3, {-1, 1, 2}, 1, 64)},
      [](auto& p) -> auto& { return p.gradient_slots; }, Count{1, kMostBuffers});
  row(
      ParameterAbout{.key = "states",
                     .meaning = "12, 14 and 10 B/param with fp32 moments; `bf16` has no fp32 master",
                     .decides = kNumerics},
      [](auto& p) -> auto& { return p.numerics.states; }, OneOf{state_format_names()});
  row(
      ParameterAbout{.key = "moments", .meaning = "element type of m and v", .decides = kNumerics},
      [](auto& p) -> auto& { return p.numerics.moments; }, OneOf{element_type_names()});
  row(
      ParameterAbout{.key = "gradient_sum", .meaning = "element type of sums", .decides = kNumerics},
      [](auto& p) -> auto& { return p.numerics.gradient_sum; }, OneOf{element_type_names()});
  row(
      ParameterAbout{.key = "gradient_link",
                     .meaning = "element type of finished gradients and those that cross the link",
                     .decides = kNumerics},
      [](auto& p) -> auto& { return p.numerics.gradient_link; }, OneOf{element_type_names()});
  row(
      ParameterAbout{.key = "sum_on_host", .meaning = "micro-batches add up on the host", .decides = kNumerics},
      [](auto& p) -> auto& { return p.numerics.sum_on_host; }, Flag{});
  row(
      ParameterAbout{.key = "clip", .meaning = "exact global norm before any update", .decides = kNumerics},
      [](auto& p) -> auto& { return p.numerics.clip; }, Flag{});
  row(
      ParameterAbout{.key = "mlp_chunk_tokens",
                     .meaning = "rows of the MLP at a time; 0 = all",
                     .decides = kOrder,
                     .moves = others(16, {0, 2048, 4096, 8192, 16384})},
      [](auto& p) -> auto& { return p.numerics.chunking.mlp_tokens; }, Count{0, kMostTokens});
  row(
      ParameterAbout{.key = "loss_chunk_tokens",
                     .meaning = "rows of logits at a time; 0 = 1024",
                     .decides = kOrder,
                     .moves = others(17, {0, 512, 2048, 4096})},
      [](auto& p) -> auto& { return p.numerics.chunking.loss_tokens; }, Count{0, kMostTokens});
  row(
      ParameterAbout{.key = "optimizer_place", .meaning = "who updates", .moves = others(14, {0, 1})},
      [](auto& p) -> auto& { return p.optimizer_place; }, OneOf{kPlaces});
  row(
      ParameterAbout{.key = "optimizer_when",
                     .meaning = "see above",
                     .other_key = "optimizer_time",
                     .moves = others(15, {0, 1, 2},
                                     [](const P& p, std::int64_t time) {
                                       return !(p.numerics.clip && time == static_cast<int>(OptimizerTime::backward));
                                     })},
      [](auto& p) -> auto& { return p.optimizer_time; }, OneOf{kTimes});
  row(
      ParameterAbout{.key = "optimizer_threads", .meaning = "of updates and host sums; 0 = all cores but one"},
      [](auto& p) -> auto& { return p.optimizer_threads; }, Count{0, kMostLayers});
  row(
      ParameterAbout{.key = "recompute_loads",
                     .meaning = "1: no slot is ever reused, and recompute is a visit of its own"},
      [](auto& p) -> auto& { return p.recompute_loads; }, Count{0, 1});
  row(
      ParameterAbout{.key = "forward_twice",
                     .meaning = "a pass over the whole block, then each layer's forward again before its backward"},
      [](auto& p) -> auto& { return p.forward_twice; }, Flag{});
  row(
      ParameterAbout{.key = "host_pass_bytes_per_parameter",
                     .meaning = "serial passes over host memory behind backward"},
      [](auto& p) -> auto& { return p.host_pass_bytes_per_parameter; }, Real{0, 1000});
  row(
      ParameterAbout{.key = "upload_copies",
                     .meaning =
                         "decoder weights cross the link from a second bf16 copy in DRAM, which is written again "
                         "behind each update: 2 B/param more, and 4 of DRAM traffic per step"},
      [](auto& p) -> auto& { return p.upload_copies; }, Flag{});
  row(
      ParameterAbout{.key = "host_waits",
                     .meaning = "for which loads the launch thread waits: `per_layer`, each visit's; `per_buffer`, the "
                                "previous one of the same slot; `on_compute`: a load starts behind the compute op "
                                "before it; with any of them it also waits for backward and gradients before the "
                                "optimizer"},
      [](auto& p) -> auto& { return p.host_waits; }, OneOf{kHostWaits});
}

/// What the generator needs of workload and machine.
struct PolicyInput {
  Model model;
  std::int64_t sequence_length = 0;
  int sequences = 0;    // per optimizer step
  int micro_batch = 1;  // sequences per micro-batch; divides `sequences`
  // Fewer than sequence_length: each sequence is cut into chunks of so many tokens, which are the micro-batches then
  // (micro_batch must be 1, and groups count sequences); 0, or more: none is.
  std::int64_t chunk_tokens = 0;
  BatchKind rows = BatchKind::windows;
  double squared_lengths = 0;  // of packed rows, see BatchShape
  double expert_skew = 1;      // see BatchShape
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
