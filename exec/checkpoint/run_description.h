// What decides the mathematics of a run, key by key. A checkpoint holds it, and a run that resumes is held against it:
// going on with other heads or another step of rotation would train a model that never was.
//
// Not in it, because the same numbers come out whatever it is: the schedule (policy, group, residency, keep levels,
// where a layer's AdamW runs, threads), memory and `steps`. Nor the backend: host and GPU compute the same formulas and
// differ by rounding; nor max_position_embeddings unless rotary frequencies are scaled by it. A value that has no effect
// under the others (max_norm without clipping) is null, so that it may differ.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

struct DescribedValue {
  std::string key;   // in records: "num_attention_heads", "learning_rate", "data"
  std::string name;  // as config.json calls it, or as --set takes it, as far as it does: "data.file"
  // False: the states are those of a model with this value, and no user can want another one.
  bool may_change = true;
  std::string value;      // JSON
  bool is_later = false;  // the first records lack the key: what they are of had described_keys()' value
};

struct RunDescription {
  std::vector<DescribedValue> values;  // always the same keys in the same order

  /// nullptr if there is no such key.
  const DescribedValue* find(std::string_view key) const;
};

/// `data`: TokenSource::checksum.
RunDescription describe_run(const Schedule& schedule, const RunOptions& run, const std::string& data);

/// Of those the keys of config.json, which come first: what weights are of, trained on sequences of so many tokens.
std::vector<DescribedValue> describe_model(const ModelConfig& config, std::int64_t sequence_length);

/// The keys of every description, with the values of a scenario that says nothing.
const RunDescription& described_keys();

/// The keys in what was given with --allow-changed ("learning_rate", "optimizer.learning_rate", or where it stood once). Throws InputError for one
/// that is not described (with the nearest that is) and for one that may not change (with the reason).
std::set<std::string> allowed_keys(const std::vector<std::string>& given);

/// A value that differs.
struct ChangedValue {
  std::string key;
  std::string before, now;  // JSON
};

/// Throws InputError that names every key whose value differs and which is not in `allowed`, with both values and what
/// to do about it; `place` starts the message. Returns those that differ and are allowed.
std::vector<ChangedValue> require_same(const RunDescription& before, const RunDescription& now,
                                       const std::set<std::string>& allowed, const std::string& place);

}  // namespace penstock::exec
