#include "exec/checkpoint/run_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/error.h"
#include "shared/ir/schedule_names.h"
#include "shared/model/frozen_layers.h"
#include "shared/nearest_name.h"
#include "shared/scenario/moved_keys.h"

namespace penstock::exec {
namespace {

using nlohmann::json;

constexpr bool kNever = false;  // ParameterTensors and what they mean hang on it
constexpr bool kIfMeant = true;

class Describer {
 public:
  void table(std::string name) { table_ = std::move(name); }
  void add(const char* key, bool may_change, const json& value) { add_named(key, key, may_change, value); }
  /// A key that is called otherwise in the scenario.
  void add_named(const char* key, const char* name, bool may_change, const json& value) {
    description_.values.push_back({key, table_.empty() ? name : table_ + "." + name, may_change, value.dump(), false});
  }
  /// A key that earlier records lack.
  void add_later(const char* key, bool may_change, const json& value) {
    add(key, may_change, value);
    description_.values.back().is_later = true;
  }
  RunDescription take() { return std::move(description_); }

 private:
  RunDescription description_;
  std::string table_;
};

/// `value` where it has an effect, null elsewhere.
json if_used(bool used, const json& value) { return used ? value : json(); }

/// What matters to longer sequences only has no effect.
void describe_config(const ModelConfig& config, std::int64_t sequence_length, Describer& describer) {
  // All members, so that a new one does not compile before it is described here or left out for a reason.
  const auto& [name, family, hidden, intermediate, decoder_layers, heads, kv_heads, head_dim, vocabulary, max_positions,
               tied_embeddings, qkv_bias, qk_norm, qk_norm_whole, rms_epsilon, rope_theta, rope_scaling, rope_factor,
               rope_low_freq_factor, rope_high_freq_factor, rope_original_positions, rope_attention_factor,
               rope_truncate, sliding_window, window_layers, experts, frozen] = config;
  // What is frozen is the optimizer's. qk_norm_whole goes with the family.
  const bool yarn = rope_scaling == RopeScaling::yarn, dynamic = rope_scaling == RopeScaling::dynamic;
  const bool scaled = dynamic ? sequence_length > max_positions : rope_factor != 1 || rope_scaling != RopeScaling::none;
  const bool by_range = yarn || (scaled && rope_scaling == RopeScaling::none);
  describer.add("model_type", kNever, model_family_names()[static_cast<std::size_t>(family)]);
  describer.add("hidden_size", kNever, hidden);
  describer.add("intermediate_size", kNever, intermediate);
  describer.add("num_hidden_layers", kNever, decoder_layers);
  describer.add("num_attention_heads", kNever, heads);
  describer.add("num_key_value_heads", kNever, kv_heads);
  describer.add("head_dim", kNever, head_dim);
  describer.add("vocab_size", kNever, vocabulary);
  describer.add("tie_word_embeddings", kNever, tied_embeddings);
  describer.add("qkv_bias", kNever, qkv_bias);
  describer.add("qk_norm", kNever, qk_norm);
  describer.add("rms_norm_eps", kNever, rms_epsilon);
  const auto& [expert_count, per_token, width, normalised, balance, every, dense] = experts;
  const bool has_experts = expert_count > 0;
  describer.add_later("num_experts", kNever, if_used(has_experts, expert_count));
  describer.add_later("num_experts_per_tok", kIfMeant, if_used(has_experts, per_token));
  describer.add_later("moe_intermediate_size", kNever, if_used(has_experts, width));
  describer.add_later("norm_topk_prob", kIfMeant, if_used(has_experts, normalised));
  describer.add_later("router_aux_loss_coef", kIfMeant, if_used(has_experts && balance > 0, balance));
  describer.add_later("decoder_sparse_step", kNever, if_used(has_experts, every));
  describer.add_later("mlp_only_layers", kNever, if_used(has_experts, dense));
  // Other frequencies for the same weights are how a trained model is made to take longer sequences.
  describer.add("rope_theta", kIfMeant, rope_theta);
  describer.add("rope_scaling.factor", kIfMeant, if_used(scaled, rope_factor));
  describer.add("rope_scaling.low_freq_factor", kIfMeant, if_used(by_range, rope_low_freq_factor));
  describer.add("rope_scaling.high_freq_factor", kIfMeant, if_used(by_range, rope_high_freq_factor));
  describer.add("rope_scaling.original_max_position_embeddings", kIfMeant, if_used(by_range, rope_original_positions));
  describer.add_later("rope_scaling.rope_type", kIfMeant,
                      if_used(scaled && rope_scaling != RopeScaling::none,
                              rope_scaling_names()[static_cast<std::size_t>(rope_scaling)]));
  describer.add_later("rope_scaling.attention_factor", kIfMeant, if_used(yarn, rope_attention_factor));
  describer.add_later("rope_scaling.truncate", kIfMeant, if_used(yarn, rope_truncate));
  describer.add_later("max_position_embeddings", kIfMeant, if_used(dynamic && scaled, max_positions));
  const bool windowed = sliding_window > 0 && sliding_window < sequence_length;  // else it hides nothing
  describer.add_later("sliding_window", kIfMeant, if_used(windowed, sliding_window));
  describer.add_later("layer_types", kIfMeant, if_used(windowed, window_layers));
}

void describe_numerics(const Numerics& numerics, std::int64_t micro_batch_tokens, Describer& describer) {
  const auto& [states, moments, gradient_sum, gradient_link, sum_on_host, clip, chunking] = numerics;
  const auto& [mlp_tokens, loss_tokens] = chunking;
  const auto type = [](ElementType element) { return element_type_names()[static_cast<std::size_t>(element)]; };
  describer.add("states", kIfMeant, state_format_names()[static_cast<std::size_t>(states)]);
  describer.add("moments", kIfMeant, type(moments));
  describer.add("gradient_sum", kIfMeant, type(gradient_sum));
  describer.add("gradient_link", kIfMeant, type(gradient_link));
  describer.add("sum_on_host", kIfMeant, sum_on_host);
  describer.add("clip", kIfMeant, clip);
  // A chunk of all tokens or more is none.
  describer.add("mlp_chunk_tokens", kIfMeant, mlp_tokens < micro_batch_tokens ? mlp_tokens : 0);
  describer.add("loss_chunk_tokens", kIfMeant, loss_tokens > 0 ? loss_tokens : kDefaultLossTokens);
}

void describe_training(const RunOptions& run, bool clips, const ModelConfig& model, const std::string& data,
                       Describer& describer) {
  const auto& [steps, warmup_steps, backend, deterministic, learning_rate, learning_rate_warmup_steps, rate, beta1,
               beta2, epsilon, weight_decay, max_norm, decay, init, rows, link_h2d, link_d2h, checkpoint, eval,
               metrics] = run;
  const auto& [file, kind, packing, seed] = rows;  // `data` has the first three
  const auto& [schedule, total_steps, final_rate, decay_steps] = rate;
  const bool is_constant = schedule == RateSchedule::constant;
  describer.table("data");
  describer.add("seed", kIfMeant, seed);
  describer.table("run");
  describer.add("deterministic", kIfMeant, deterministic);
  describer.table("optimizer");
  describer.add("learning_rate", kIfMeant, learning_rate);
  describer.add_named("learning_rate_warmup_steps", "warmup_steps", kIfMeant, learning_rate_warmup_steps);
  describer.add("beta1", kIfMeant, beta1);
  describer.add("beta2", kIfMeant, beta2);
  describer.add("epsilon", kIfMeant, epsilon);
  describer.add("weight_decay", kIfMeant, weight_decay);
  describer.add("max_norm", kIfMeant, if_used(clips, max_norm));
  describer.table("data");
  describer.add_named("data", "file", kIfMeant, data);
  describer.table("optimizer");
  describer.add_later("schedule", kIfMeant, kRateSchedules[static_cast<std::size_t>(schedule)]);
  describer.add_later("total_steps", kIfMeant, if_used(!is_constant, total_steps));
  describer.add_later("final_learning_rate", kIfMeant, if_used(!is_constant, final_rate));
  describer.add_later("decay_steps", kIfMeant, if_used(schedule == RateSchedule::wsd, decay_steps));
  describer.add_later("decay", kIfMeant, kDecays[static_cast<std::size_t>(weight_decay == 0 ? Decay::all : decay)]);
  describer.add_later("freeze", kNever, frozen_text(model));
}

}  // namespace

const DescribedValue* RunDescription::find(std::string_view key) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.key == key; });
  return found == values.end() ? nullptr : &*found;
}

RunDescription describe_run(const Schedule& schedule, const RunOptions& run, const std::string& data) {
  Describer describer;
  describe_config(schedule.model, schedule.micro_batch.sequence_length, describer);
  describer.table("workload");
  describer.add("sequence_length", kIfMeant, schedule.micro_batch.sequence_length);
  describer.add("sequences", kIfMeant, schedule.whole_step().sequences);
  describer.add("micro_batch", kIfMeant, schedule.micro_batch.sequences);
  describer.table("policy");
  describe_numerics(schedule.numerics, schedule.shape_of(0).tokens(), describer);
  describe_training(run, schedule.numerics.clip, schedule.model, data, describer);
  describer.table("workload");
  describer.add_later("rows", kIfMeant, batch_kind_names()[static_cast<std::size_t>(schedule.micro_batch.kind)]);
  describer.add_later("chunk_tokens", kIfMeant, schedule.micro_batch.chunk_tokens);
  return describer.take();
}

std::vector<DescribedValue> describe_model(const ModelConfig& config, std::int64_t sequence_length) {
  Describer describer;
  describe_config(config, sequence_length, describer);
  return describer.take().values;
}

const RunDescription& described_keys() {
  static const RunDescription keys = describe_run(Schedule{}, RunOptions{}, "");
  return keys;
}

std::set<std::string> allowed_keys(const std::vector<std::string>& given) {
  std::set<std::string> allowed;
  std::vector<std::string> names;
  for (const DescribedValue& value : described_keys().values) names.push_back(value.key);
  for (const std::string& text : given) {
    const std::vector<std::string> moved = moved_names(text);
    const std::string& name = moved.empty() ? text : moved.back();
    const auto& values = described_keys().values;
    const auto found = std::find_if(values.begin(), values.end(), [&](const DescribedValue& value) {
      return name == value.key || name == value.name;
    });
    if (found == values.end()) {
      const std::string nearest = nearest_name(name.substr(name.rfind('.') + 1), names);
      throw InputError(fmt::format("--allow-changed {}: decides nothing that a checkpoint holds; {}", name,
                                   nearest.empty() ? fmt::format("it may be {}", fmt::join(names, ", "))
                                                   : fmt::format("did you mean {}?", nearest)));
    }
    if (!found->may_change)
      throw InputError(
          fmt::format("--allow-changed {}: cannot be allowed: the states of a checkpoint are those of a model with its "
                      "{}, and mean nothing in another",
                      name, found->key));
    allowed.insert(found->key);
  }
  return allowed;
}

std::vector<ChangedValue> require_same(const RunDescription& before, const RunDescription& now,
                                       const std::set<std::string>& allowed, const std::string& place) {
  std::vector<ChangedValue> changed;
  std::vector<std::string> refused, never, perhaps;
  for (const DescribedValue& value : now.values) {
    const DescribedValue* was = before.find(value.key);
    if (was == nullptr) throw std::logic_error("descriptions with different keys");
    if (was->value == value.value) continue;
    if (allowed.contains(value.key)) {
      changed.push_back({value.key, was->value, value.value});
      continue;
    }
    refused.push_back(fmt::format("{} is {} in the checkpoint, {} now", value.name, was->value, value.value));
    (value.may_change ? perhaps : never).push_back(value.key);
  }
  if (refused.empty()) return changed;
  std::string cure;
  if (!never.empty())
    cure += fmt::format("; its states mean nothing with another {}: give the model that it was trained as",
                        fmt::join(never, ", "));
  if (!perhaps.empty())
    cure += fmt::format("; set {} back, or say that it is meant: --allow-changed {}",
                        perhaps.size() == 1 ? "it" : "them", fmt::join(perhaps, " --allow-changed "));
  throw InputError(
      fmt::format("{}: cannot be resumed as if nothing had changed: {}{}", place, fmt::join(refused, "; "), cure));
}

}  // namespace penstock::exec
