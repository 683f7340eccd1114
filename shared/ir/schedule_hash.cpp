#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "shared/ir/schedule_json.h"

namespace penstock {
namespace {

/// FNV-1a, 64 bits: offset basis and prime as its authors publish them (Fowler, Noll, Vo; RFC 9923). Numbers go in as
/// 8 bytes, lowest first; lists with their length before them, so that no two different schedules feed the same bytes.
class Hash {
 public:
  void number(std::int64_t value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) state_ = (state_ ^ (bits & 0xff)) * 0x100000001b3u;
  }
  template <typename... Numbers>
  void numbers(Numbers... values) {
    (number(static_cast<std::int64_t>(values)), ...);
  }
  void real(double value) {
    std::int64_t bits = 0;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&bits, &value, sizeof bits);
    number(bits);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

void add(Hash& hash, const ModelConfig& c) {
  hash.numbers(c.family, c.hidden, c.intermediate, c.decoder_layers, c.heads, c.kv_heads, c.head_dim, c.vocabulary,
               c.max_positions, c.tied_embeddings, c.qkv_bias, c.qk_norm, c.rope_original_positions);
  for (const double value :
       {c.rms_epsilon, c.rope_theta, c.rope_factor, c.rope_low_freq_factor, c.rope_high_freq_factor})
    hash.real(value);
  // Where there are none the hash is as it was before they had a name.
  if (c.sliding_window > 0) {
    hash.numbers(c.sliding_window, c.window_layers.size());
    for (const int layer : c.window_layers) hash.numbers(layer);
  }
  if (c.rope_scaling != RopeScaling::none) {
    hash.numbers(c.rope_scaling, c.rope_truncate);
    hash.real(c.rope_attention_factor);
  }
  if (c.qk_norm_whole) hash.numbers(c.qk_norm_whole);
  if (const Experts& e = c.experts; e.count > 0) {
    hash.numbers(e.count, e.per_token, e.intermediate, e.normalised, e.every, e.dense_layers.size());
    hash.real(e.balance);
    for (const int layer : e.dense_layers) hash.numbers(layer);
  }
  for (const int layer : c.frozen_layers) hash.numbers(layer);
}

void add(Hash& hash, const std::vector<Access>& accesses) {
  hash.numbers(accesses.size());
  for (const Access& a : accesses)
    hash.numbers(a.buffer, a.offset_bytes, a.bytes, a.value.tensor, a.value.layer, a.value.version,
                 a.value.micro_batch);
}

/// In the order of Work's alternatives when hashes were first taken; 8 was a work that is gone.
std::size_t work_number(const Work& work) { return work.index() < 8 ? work.index() : work.index() + 1; }

/// In the order of Keep when hashes were first taken; 3 came later.
int keep_number(Keep keep) {
  switch (keep) {
    case Keep::input: return 0;
    case Keep::input_attention: return 1;
    case Keep::everything: return 2;
    case Keep::input_context: break;
  }
  return 3;
}

struct AddWork {
  Hash& hash;

  void operator()(const CopyWork& work) const {
    hash.numbers(work.bursts.size());
    for (const Burst& burst : work.bursts) hash.numbers(burst.bytes, burst.count);
    if (work.threads != 1) hash.numbers(work.threads);
  }
  void operator()(const TemplateWork& work) const { hash.numbers(work.kind, work.pass, keep_number(work.keep)); }
  void operator()(const OptimizerWork& work) const { hash.numbers(work.elements, work.threads); }
  void operator()(const AccumulateWork& work) const { hash.numbers(work.elements, work.threads); }
  void operator()(const FinishGradientWork& work) const { hash.numbers(work.elements, work.threads); }
  void operator()(const StepScalarsWork&) const {}
  void operator()(const InputWork&) const {}
  void operator()(const ReportWork&) const {}
  void operator()(const WaitWork& work) const { hash.numbers(work.op, work.distance); }
  void operator()(const HostPassWork& work) const { hash.numbers(work.traffic_bytes, work.threads); }
};

}  // namespace

std::string schedule_hash(const Schedule& schedule) {
  Hash hash;
  const Numerics& n = schedule.numerics;
  add(hash, schedule.model);
  hash.numbers(schedule.micro_batch.sequences, schedule.micro_batch.sequence_length, schedule.micro_batches,
               schedule.library_bytes);
  // Windows came first, and are not named. What documents are expected decides nothing.
  if (schedule.micro_batch.kind != BatchKind::windows) hash.numbers(schedule.micro_batch.kind);
  if (schedule.micro_batch.is_cut()) hash.numbers(schedule.micro_batch.chunk_tokens);
  hash.numbers(n.states, n.moments, n.gradient_sum, n.gradient_link, n.sum_on_host, n.clip, n.chunking.mlp_tokens,
               n.chunking.loss_tokens);
  hash.numbers(schedule.tiers.size());
  for (const Tier& tier : schedule.tiers) hash.numbers(tier.kind, tier.device);
  hash.numbers(schedule.lanes.size());
  for (const Lane& lane : schedule.lanes) hash.numbers(lane.kind, lane.device);
  hash.numbers(schedule.buffers.size());
  for (const Buffer& buffer : schedule.buffers) hash.numbers(buffer.tier, buffer.offset_bytes, buffer.bytes);
  add(hash, schedule.initial);
  hash.numbers(schedule.ops.size());
  for (const Op& op : schedule.ops) {
    hash.numbers(op.lane, op.layer, op.micro_batch, op.phase, work_number(op.work));
    std::visit(AddWork{hash}, op.work);
    add(hash, op.reads);
    add(hash, op.writes);
  }
  hash.numbers(schedule.edges.size());
  for (const Edge& edge : schedule.edges) hash.numbers(edge.from, edge.to, edge.distance);
  return fmt::format("{:016x}", hash.value());
}

}  // namespace penstock
