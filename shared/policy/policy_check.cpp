#include <fmt/format.h>

#include "shared/error.h"
#include "shared/ir/limits.h"
#include "shared/policy/plan.h"
#include "shared/units.h"

namespace penstock {
namespace {

constexpr std::int64_t kLongestSequence = std::int64_t{1} << 26;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;  // of one micro-batch
constexpr std::int64_t kMostOps = 4'000'000;
constexpr std::int64_t kMostLibraryBytes = std::int64_t{1} << 48;  // far above every machine's memory

bool is_cut(const PolicyInput& input) { return input.chunk_tokens > 0 && input.chunk_tokens < input.sequence_length; }
std::int64_t chunks(const PolicyInput& input) {
  return is_cut(input) ? (input.sequence_length + input.chunk_tokens - 1) / input.chunk_tokens : 1;
}

[[noreturn]] void fail(const std::string& text) { throw InputError("policy: " + text); }

void check_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) fail(fmt::format("{} = {} is out of range ({} to {})", name, value, low, high));
}

/// A number of decoder layers; -1 stands for every layer.
std::string layers_text(int count) { return count < 0 ? "\"all\"" : fmt::format("{}", count); }
void check_layers(const char* name, int value, int decoders) {
  if (value < -1 || value > decoders)
    fail(fmt::format("{} = {} is out of range (0 to {}, or \"all\")", name, value, decoders));
}

void check_workload(const PolicyInput& input) {
  check_range("sequence_length", input.sequence_length, 1, kLongestSequence);
  check_range("sequences", input.sequences, 1, 1 << 24);
  check_range("micro_batch", input.micro_batch, 1, input.sequences);
  if (input.sequences % input.micro_batch != 0)
    fail(fmt::format("micro_batch = {} does not divide sequences = {}", input.micro_batch, input.sequences));
  check_range("chunk_tokens", input.chunk_tokens, 0, kLongestSequence);
  if (is_cut(input) && input.micro_batch > 1)
    fail(
        fmt::format("chunk_tokens = {} cuts sequences of {} tokens, and a micro-batch is one chunk then: set "
                    "micro_batch = 1 (found {})",
                    input.chunk_tokens, input.sequence_length, input.micro_batch));
  if (is_cut(input) && chunks(input) > kMaxChunks)
    fail(
        fmt::format("chunk_tokens = {} cuts sequences of {} tokens into {} chunks: expected at most {}, so at least "
                    "{} tokens each",
                    input.chunk_tokens, input.sequence_length, chunks(input), kMaxChunks,
                    (input.sequence_length + kMaxChunks - 1) / kMaxChunks));
  if (input.micro_batch * input.sequence_length > kMostTokens)
    fail(fmt::format("a micro-batch of {} sequences of {} tokens is absurdly large", input.micro_batch,
                     input.sequence_length));
  check_range("host threads", input.host_threads, 1, 1 << 16);
  if (input.library_bytes < 0 || input.library_bytes > kMostLibraryBytes)
    fail(fmt::format("attention over sequences of {} tokens would need {} of workspace; use shorter sequences",
                     input.sequence_length, format_bytes_gib(static_cast<double>(input.library_bytes))));
}

void check_groups(const PolicyInput& input) {
  const PolicyParameters& p = input.parameters;
  const int micro_batches = input.sequences / input.micro_batch;
  check_range("group", p.group, 0, micro_batches);
  check_range("first_group", p.first_group, 0, micro_batches);
  const int group = p.group > 0 ? p.group : micro_batches;
  const int first = p.first_group > 0 ? p.first_group : group;
  if ((micro_batches - first) % group != 0)
    fail(fmt::format("groups of {} micro-batches{} do not add up to the {} of a step", group,
                     p.first_group > 0 ? fmt::format(" behind a first group of {}", first) : "", micro_batches));
  const std::int64_t most = kMostOps / (std::int64_t{input.model.layer_count()} * 8 * chunks(input));
  if (micro_batches <= most) return;
  if (is_cut(input))
    fail(fmt::format(
        "{} sequences of {} chunks through {} layers make more than {} ops per step; make larger chunks, or "
        "steps of at most {} sequences",
        micro_batches, chunks(input), input.model.layer_count(), kMostOps, most));
  fail(fmt::format(
      "{} micro-batches of {} layers make more than {} ops per step; make micro-batches of at least {} sequences, or "
      "steps of at most {}",
      micro_batches, input.model.layer_count(), kMostOps, (input.sequences + most - 1) / most,
      most * input.micro_batch));
}

// Of values that [policy] could not have: the table of parameters says which it can.
template <typename Parameter, typename Kind>
void check_value(const char*, const Parameter&, const Kind&) {}  // any value of its type
template <typename Integer>
void check_value(const char* key, const Integer& value, const Count& kind) {
  check_range(key, static_cast<std::int64_t>(value), kind.low, kind.high);
}
void check_value(const char* key, const double& value, const Real& kind) {
  if (!(value >= kind.low && value <= kind.high))
    fail(fmt::format("{} = {} is out of range ({} to {})", key, value, kind.low, kind.high));
}

void check_values(const PolicyParameters& p) {
  each_parameter([&](const ParameterAbout& about, const auto& member, const auto& kind) {
    check_value(about.key, member(p), kind);
  });
}

void check_streams(const PolicyParameters& p, int decoders) {
  check_values(p);
  check_layers("resident_weights", p.resident_weights, decoders);
  check_layers("resident_states", p.resident_states, decoders);
  check_layers("nvme_states", p.nvme_states, decoders);
  check_layers("nvme_weights", p.nvme_weights, decoders);
  check_range("first_layers", p.first_layers, 0, decoders);
  for (const LayerKeep& kept : p.keep_layers) {
    check_range("first layer of keep_layers", kept.first, 1, decoders);
    const int last = kept.last < 0 ? decoders : kept.last;
    check_range("last layer of keep_layers", last, kept.first, decoders);
    check_range("count of keep_layers", kept.count, 0, last - kept.first + 1);
  }
  if (!p.keep_layers.empty() && p.checkpoint_every > 1)
    fail(
        fmt::format("keep_layers keeps the input of each of its layers, but checkpoint_every = {} drops inputs; set "
                    "checkpoint_every = 1",
                    p.checkpoint_every));
  if (p.burst == BurstKind::fixed) check_range("burst_bytes", p.burst_bytes, 1 << 12, std::int64_t{1} << 40);
}

void check_contradictions(const PolicyParameters& p) {
  if (p.optimizer_time == OptimizerTime::backward && p.numerics.clip)
    fail(
        "optimizer_time = \"backward\" updates layers before the global norm is known, so it cannot clip; "
        "set clip = false, or optimizer_time = \"next_forward\" or \"end\"");
  if (p.keep == Keep::everything) {
    if (p.checkpoint_every > 1)
      fail(fmt::format(
          "keep = \"everything\" leaves nothing to recompute, but checkpoint_every = {} drops layer inputs; "
          "set checkpoint_every = 1 or keep less",
          p.checkpoint_every));
    if (p.recompute_loads > 0 || p.forward_twice)
      fail("keep = \"everything\" leaves nothing to recompute, so recompute_loads and forward_twice have no meaning");
  }
  if (p.numerics.sum_on_host && p.gradients == TierKind::hbm)
    fail("gradients summed on the host (sum_on_host) are finished there: gradients = \"hbm\" contradicts it");
  if (p.numerics.sum_on_host && p.gradient_sums != TierKind::hbm)
    fail(
        fmt::format("gradient_sums = \"{}\" lets sums travel to the GPU and back; with sum_on_host they never leave "
                    "the host",
                    tier_names()[static_cast<std::size_t>(p.gradient_sums)]));
}

void check_nvme(const PolicyParameters& p, int decoders) {
  if (p.gradients == TierKind::nvme) {
    if (p.nvme_states == 0)
      fail(
          "gradients = \"nvme\" is for layers whose states are there too, but nvme_states = 0; set it, or gradients = "
          "\"dram\"");
    if (p.numerics.sum_on_host)
      fail("gradients summed on the host (sum_on_host) wait in DRAM: gradients = \"nvme\" contradicts it");
    if (p.optimizer_time == OptimizerTime::backward)
      fail(
          "optimizer_time = \"backward\" consumes gradients as they land: none waits, so gradients = \"nvme\" has no "
          "meaning");
  }
  if (p.nvme_states == 0 && p.nvme_weights == 0) return;
  if (p.optimizer_place == OptimizerPlace::gpu)
    fail(
        "states and weights on NVMe are updated on the host: optimizer_place = \"gpu\" contradicts nvme_states and "
        "nvme_weights");
  for (const auto& [name, on_nvme] :
       {std::pair{"nvme_states", p.nvme_states}, std::pair{"nvme_weights", p.nvme_weights}}) {
    const bool overlap = p.resident_states < 0 ? on_nvme != 0
                         : on_nvme < 0         ? p.resident_states > 0
                                               : p.resident_states + on_nvme > decoders;
    if (overlap)
      fail(
          fmt::format("resident_states = {} (first layers, in HBM) and {} = {} (last layers) overlap: there are {} "
                      "decoder layers",
                      layers_text(p.resident_states), name, layers_text(on_nvme), decoders));
  }
  if (p.upload_copies && p.nvme_weights != 0)
    fail("upload_copies holds weights in DRAM a second time, nvme_weights takes them out of it; set one of them");
}

}  // namespace

void check_policy_input(const PolicyInput& input) {
  if (input.model.layer_count() < 3) fail("the model has no decoder layer");
  check_workload(input);
  check_streams(input.parameters, input.model.layer_count() - 2);
  check_groups(input);
  check_contradictions(input.parameters);
  check_nvme(input.parameters, input.model.layer_count() - 2);
}

}  // namespace penstock
