// One experiment, read from TOML, run unchanged by both programs (docs/design.md, "One experiment").
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shared/machine/machine.h"
#include "shared/machine/software_setting.h"
#include "shared/model/model.h"
#include "shared/policy/parameters.h"
#include "shared/scenario/cost_keys.h"
#include "shared/scenario/training_options.h"

namespace penstock {

/// [run], [init], [data], [optimizer], [checkpoint], [eval] and [log].
struct RunOptions {
  int steps = 10;
  int warmup_steps = 2;
  std::string backend = "auto";  // auto | host | cuda
  bool deterministic = true;     // false: the faster attention backward, whose last bits vary from run to run
  double learning_rate = 3e-4;
  int learning_rate_warmup_steps = 0;  // linear from 0
  RateOptions rate;                    // after it
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double max_norm = 1.0;
  Decay decay = Decay::all;
  InitOptions init;
  DataOptions data;
  double link_h2d_bytes_per_second = 0;  // host backend: throttle that stands in for a link; 0 = none
  double link_d2h_bytes_per_second = 0;
  CheckpointOptions checkpoint;
  EvalOptions eval;
  std::filesystem::path metrics;  // JSONL, a line per step; empty: none
};

/// One key of [software]: how another system was configured; only `fit` and `validate` read it.
struct GivenSetting {
  SoftwareSetting setting;
  std::string place;
};

/// [published]: what somebody else measured or met; `penstock-sim validate` and scripts/capacity read it.
struct Published {
  double step_seconds = 0;     // 0 = not published; computed where FLOP/s were published
  std::int64_t hbm_bytes = 0;  // 0 = not published
  std::optional<bool> fits;
  std::string ran_out;  // the tier that was too small; empty: not published
  std::string phase;    // memory_phase_name of the last phase that was reached or tried; empty: the first step
  std::string source;
  std::string assumed;         // what decides the figure and was not published; empty: nothing
  std::string system;          // whose program ran; empty: the policy's
  bool calibrates = false;     // a hardware or software file was made from it: no test of that file
  std::filesystem::path rows;  // CSV of further figures: overrides of this scenario, one row each (sim/validate)
};

struct Scenario {
  std::filesystem::path path;
  std::string name;  // file stem
  Model model;
  std::filesystem::path model_file;  // [model] config; empty: the scenario was made of something else
  Machine machine;                   // hardware file, card and host, or profile, after the overrides of [machine]
  std::filesystem::path software;    // [machine] software; empty: not given
  std::vector<std::filesystem::path> nvme_paths;  // [machine] nvme_path: folders in which a run keeps what is on NVMe
  std::map<std::string, GivenSetting> software_settings;
  std::int64_t sequence_length = 0;
  int sequences = 0;
  int micro_batch = 1;
  std::int64_t chunk_tokens = 0;  // see PolicyInput
  BatchKind rows = BatchKind::windows;
  double squared_lengths = 0;   // of packed rows, see BatchShape
  double expert_skew = 1;       // see BatchShape
  std::filesystem::path data;   // [workload] data: a file of tokens, which says the two above; empty: not given
  PolicyParameters policy;      // preset with the overrides of [policy]
  std::set<std::string> fixed;  // the keys of those overrides: what no planner may change
  RunOptions run;
  CostKeys cost;
  std::optional<Published> published;
  std::string text;                // the file itself, for reports
  std::vector<std::string> notes;  // what is to be said of it and is no error
  /// What it was read from, and what a run of it reads: no output may go there.
  std::vector<std::filesystem::path> files;

  /// So many sequences of the workload.
  BatchShape shape(std::int64_t of_sequences) const;
  /// What make_schedule needs; the libraries' workspace by model, length and run.deterministic, none on the host.
  PolicyInput policy_input() const;
};

/// docs/scenario.md lists the keys. Paths inside are relative to the scenario's folder. Throws InputError: unknown key
/// (with the nearest known one), wrong type or unit, value out of range, missing file.
Scenario read_scenario(const std::filesystem::path& path);

/// The same with `--set key=value` overrides applied first ("policy.name=megatrain", "machine.profile=p.json"). A value
/// that is not TOML is a text, so that quotes may be left out. Paths in overrides are relative to the current folder,
/// or else to the scenario's. Of machine.hardware, machine.profile and machine.card each replaces the others.
Scenario read_scenario(const std::filesystem::path& path, const std::vector<std::string>& overrides);

/// A scenario that is no file of its own: `place` stands in messages, paths in `text` are relative to `folder`.
Scenario parse_scenario(const std::string& text, const std::string& place, const std::filesystem::path& folder,
                        const std::vector<std::string>& overrides);

/// A scenario that was made and not read: `document` has its keys, each with the place that messages name; `path` is
/// what it is called, and its folder is where paths in it begin.
struct TomlDocument;
Scenario make_scenario(const TomlDocument& document, const std::filesystem::path& path);

/// The file that a key of a scenario names ("model.config"). In the file `scenario`: relative to its folder; on the
/// command line: as the shell would take it, or else relative to that folder. Where nothing is there, a model, a
/// machine and a software are looked up in the catalogue (shared/catalogue.h); a path that is nowhere is the one in
/// that folder.
struct TomlValue;
std::filesystem::path scenario_path(const std::string& key, const TomlValue& value,
                                    const std::filesystem::path& scenario);

/// The same as a table of keys, overrides applied, for programs that write a scenario from another one. Only its TOML
/// has been checked.
TomlDocument read_scenario_document(const std::filesystem::path& path, const std::vector<std::string>& overrides);
/// `--set` on any document.
void apply_overrides(const std::vector<std::string>& overrides, TomlDocument& document);

}  // namespace penstock
