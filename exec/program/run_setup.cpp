#include "exec/program/run_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/dump.h"
#include "exec/data/model_tokenizer.h"
#include "exec/program/drive.h"
#include "exec/program/model_export.h"
#include "exec/program/run_outputs.h"
#include "exec/runtime/bind.h"
#include "exec/runtime/limits.h"
#include "shared/compare/recording.h"
#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "shared/model/sequence_limits.h"
#include "shared/policy/evaluation.h"
#include "shared/random.h"
#include "shared/standard_streams.h"
#include "shared/units.h"
#include "sim/front_desk.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

void note(std::string_view text) { tell(fmt::format("penstock-exec: note: {}\n", text)); }

/// A planner may cut the MLP into chunks to make a model fit, which decides the bits: what a run leaves open, a resumed
/// one takes from the checkpoint.
void plan_with_chunks_of(const RunDescription& before, const std::set<std::string>& allowed, Scenario& scenario) {
  if (!is_planned(scenario.policy.name)) return;
  Chunking& chunking = scenario.policy.numerics.chunking;
  const auto take = [&](const char* key, std::int64_t& tokens) {
    if (allowed.contains(key) || !scenario.fixed.insert(key).second) return;
    tokens = std::stoll(before.find(key)->value);
  };
  take("mlp_chunk_tokens", chunking.mlp_tokens);
  take("loss_chunk_tokens", chunking.loss_tokens);
}

std::unique_ptr<StateSource> fresh_states(const Scenario& scenario) {
  const InitOptions& init = scenario.run.init;
  return init.weights.empty() ? random_states(init.seed) : published_states(init.weights, scenario.model);
}

void resume(std::unique_ptr<Checkpoint> checkpoint, const fs::path& from, const std::set<std::string>& allowed,
            RunSetup& setup) {
  Resumed resumed{
      checkpoint->folder(), require_same(checkpoint->description(), setup.description, allowed, from.string()), {}};
  std::set<std::string> in_vain = allowed;
  for (const ChangedValue& value : resumed.changed) in_vain.erase(value.key);
  resumed.allowed_in_vain.assign(in_vain.begin(), in_vain.end());
  checkpoint->verify(setup.scenario.model);
  if (checkpoint->folder() != names_to_read(from).folder)
    note(fmt::format("{}: is not there, for a save was cut off; going on from {}, which was to be put there",
                     from.string(), checkpoint->folder().string()));
  setup.steps_before = checkpoint->step();
  setup.states = std::move(checkpoint);
  setup.resumed = std::move(resumed);
}

std::unique_ptr<RunSaves> open_saves(const fs::path& folder, const CheckpointOptions& options) {
  auto saves = std::make_unique<RunSaves>(folder, options);
  for (const std::string& text : saves->notes()) note(text);
  return saves;
}

/// What the run begins with.
std::string states_text(const RunSetup& setup) {
  if (setup.resumed) return fmt::format("step {} of {}", setup.steps_before, setup.resumed->from.string());
  return setup.weights.empty() ? "random numbers" : setup.weights;
}

/// What is left on drives at the end, or in the middle: the drive of the states may be one of them.
std::vector<WrittenBeside> written_beside(const RunCommandOptions& options, const RunSetup& setup) {
  std::vector<WrittenBeside> written;
  const Scenario& scenario = setup.scenario;
  if (setup.save) written.push_back({options.save, checkpoint_bytes(scenario.policy.numerics, scenario.model)});
  if (setup.exported) written.push_back({setup.exported->folder(), setup.exported->weights_bytes()});
  return written;
}

void require_room_to_save(const RunSetup& setup) {
  if (setup.save)
    setup.save->require_place(setup.steps_before, setup.scenario.run.steps,
                              checkpoint_file_bytes(setup.schedule, setup.scenario.model));
}

/// Whose places are taken now, maybe where files will be written.
void require_room_beside_drive(const RunSetup& setup) {
  try {
    require_room_to_save(setup);
    if (setup.exported) setup.exported->require_room();
  } catch (const DoesNotFit& error) {
    throw DoesNotFit(fmt::format("{}. What this run keeps on NVMe has taken {} of the same drive", error.what(),
                                 format_bytes(static_cast<double>(setup.drive->bytes()))));
  }
}

RunShape run_shape(const RunCommandOptions& options, const RunSetup& setup, int cores, std::int64_t drive_bytes) {
  const Scenario& scenario = setup.scenario;
  RunShape shape;
  shape.on_host = setup.backend->is_host();
  shape.micro_batch = scenario.shape(scenario.micro_batch);
  shape.chunking = scenario.policy.numerics.chunking;
  shape.micro_batches = scenario.sequences / scenario.micro_batch * chunk_count(shape.micro_batch);
  shape.steps = scenario.run.steps;
  shape.writes_times = !options.timeline.empty() || !options.compare.empty();
  shape.cores = cores;
  shape.drive_bytes = std::min(drive_bytes, scenario.machine.nvme.bytes);
  return shape;
}

std::string_view words(BatchKind rows) {
  return rows == BatchKind::packed ? "packed documents" : "windows of one text";
}

/// The file decides which rows it can make; nothing of it is ignored because somebody asked for others.
void require_packing(Packing packing, const TokenSource& tokens, const fs::path& scenario) {
  if (packing == Packing::automatic || (packing == Packing::packed) == (tokens.rows() == BatchKind::packed)) return;
  throw InputError(fmt::format("{}: [data] packing: is \"{}\", but rows of {} are {}: {}", scenario.string(),
                               kPackings[static_cast<std::size_t>(packing)], tokens.describe(), words(tokens.rows()),
                               packing == Packing::windows
                                   ? "windows would ignore where documents begin and what is not trained on"
                                   : "it is one text, all of which is trained on"));
}

/// Where the model's tokenizer may lie: with its weights, or with its config.json.
std::vector<fs::path> model_folders(const Scenario& scenario) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  if (const fs::path& weights = scenario.run.init.weights; !weights.empty())
    folders.push_back(fs::is_directory(weights, ignored) ? weights : weights.parent_path());
  folders.push_back(scenario.model_file.parent_path());
  for (fs::path& folder : folders)
    if (folder.empty()) folder = ".";
  return folders;
}

/// Of what is trained on, or evaluated.
void require_own_tokenizer(const Scenario& scenario, const TokenSource& tokens) {
  std::string doubt;
  if (tokens.token_file() != nullptr)
    doubt = check_tokenizer(*tokens.token_file(), model_folders(scenario));
  else if (tokens.is_bytes())
    doubt = bytes_beside_tokenizer(tokens.describe(), model_folders(scenario));
  if (!doubt.empty()) note(doubt);
}

/// What [eval] reads. Its rows must be of the kind that the schedule's are.
void open_held_out(const TokenShape& shape, RunSetup& setup) {
  const Scenario& scenario = setup.scenario;
  const RunOptions& run = scenario.run;
  auto tokens =
      open_tokens(run.eval.file, run.eval.kind, scenario.path, shape, random_key(run.data.seed, "evaluation"));
  if (tokens->rows() != setup.tokens->rows())
    throw InputError(
        fmt::format("{}: [eval] file: rows of {} are {}, and those that are trained on {}; give a file of "
                    "the same kind",
                    scenario.path.string(), tokens->describe(), words(tokens->rows()), words(setup.tokens->rows())));
  require_own_tokenizer(scenario, *tokens);
  setup.evaluation.emplace().tokens = std::move(tokens);
}

/// Proved, and over the places of the run's own schedule.
void set_up_evaluation(const RunCommandOptions& options, RunSetup& setup) {
  const Scenario& scenario = setup.scenario;
  if (!setup.evaluation) return;
  setup.evaluation->schedule = make_evaluation(scenario.policy_input());
  sim::require_sound(setup.evaluation->schedule, scenario.path.string() + ": [eval]");
  require_same_places(setup.schedule, setup.evaluation->schedule,
                      (options.schedule.empty() ? scenario.path : options.schedule).string());
}

/// Plans what is open, and holds the schedule against the machine.
void plan_and_prove(const RunCommandOptions& options, const MemoryLimits& limits, RunSetup& setup) {
  const Scenario asked = sim::within_room(setup.scenario, setup.room);
  if (options.schedule.empty()) setup.decision = sim::plan_what_is_open(setup.scenario, setup.room);
  setup.schedule = sim::proved_schedule(setup.scenario, options.schedule);
  if (setup.schedule.micro_batch.is_cut())
    if (const std::string why = cut_not_computed(setup.schedule.model); !why.empty())
      throw InputError(fmt::format("{}: [workload] chunk_tokens: {}", options.scenario.scenario.string(), why));
  try {
    require_tiers(setup.schedule, setup.scenario, options.schedule);
    require_drive_path(setup.schedule, setup.scenario, options.schedule);
    require_host_memory(setup.schedule, arena_bytes(setup.schedule), setup.backend->is_host(), setup.beside, limits);
  } catch (const DoesNotFit& error) {
    if (!options.schedule.empty()) throw;
    throw DoesNotFit(fmt::format("{} {}", error.what(), sim::remedies_text(sim::find_remedies(asked, true))));
  }
}

}  // namespace

void prepare_run(const RunCommandOptions& options, Scenario given, StatusLine& status, RunSetup& setup) {
  setup.scenario = std::move(given);
  require_computed(setup.scenario.model.config, setup.scenario.sequence_length, setup.scenario.rows,
                   options.scenario.scenario.string());
  say_notes(setup.scenario, "penstock-exec");
  RunOptions& run = setup.scenario.run;
  if (options.steps > 0) run.steps = options.steps;
  if (!options.export_to.empty()) run.checkpoint.export_to = options.export_to;
  run.warmup_steps = std::min(run.warmup_steps, run.steps - 1);
  const Scenario& scenario = setup.scenario;
  if (!options.record.empty()) require_recordable(scenario, options.schedule);
  setup.timelines = {options.schedule, options.timeline, {}};
  check_run_outputs(options, scenario, setup.timelines);
  if (!options.save.empty()) setup.save = open_saves(options.save, run.checkpoint);
  if (!run.checkpoint.export_to.empty()) {
    setup.exported = std::make_unique<ModelFolder>(export_options(scenario), scenario.model);
    setup.exported->require_room();
  }
  const TokenShape shape{scenario.sequences, scenario.sequence_length, scenario.model.config.vocabulary};
  status.update("reading the data");
  setup.tokens = open_tokens(run.data.file, run.data.kind, scenario.path, shape, run.data.seed);
  require_packing(run.data.packing, *setup.tokens, scenario.path);
  require_own_tokenizer(scenario, *setup.tokens);
  if (scenario.rows == BatchKind::packed && setup.tokens->rows() != BatchKind::packed)
    throw InputError(
        fmt::format("{}: [workload] squared_lengths is of packed rows, but rows of {} are windows of one text; "
                    "leave it out",
                    scenario.path.string(), setup.tokens->describe()));
  setup.scenario.rows = setup.tokens->rows();
  setup.scenario.squared_lengths = setup.tokens->squared_lengths();
  if (run.eval.is_asked()) open_held_out(shape, setup);
  status.clear();
  const std::set<std::string> allowed = allowed_keys(options.allow_changed);
  if (!allowed.empty() && options.resume.empty() && !options.is_auto_resume)
    throw InputError(
        "--allow-changed: is about a checkpoint that is gone on with; give --resume FOLDER, or leave it out");
  std::unique_ptr<Checkpoint> checkpoint;
  if (!options.resume.empty()) {
    checkpoint = open_checkpoint(options.resume);
    plan_with_chunks_of(checkpoint->description(), allowed, setup.scenario);
  } else {
    setup.states = fresh_states(scenario);
  }
  limit_pinned(setup.scenario);
  setup.backend = open_backend(setup.scenario, options.backend, options.hbm_limit);
  limit_hbm(setup.scenario, *setup.backend);
  const MemoryLimits limits = read_memory_limits();
  setup.host_bytes = limits.usable_bytes();
  const std::int64_t drive_bytes = drive_room(scenario, written_beside(options, setup));
  setup.beside = beside_arenas(scenario.model, run_shape(options, setup, limits.cores, drive_bytes), setup.host_bytes);
  setup.room = arena_room(setup.scenario, *setup.backend, setup.beside.largest_arenas(setup.host_bytes), drive_bytes);
  plan_and_prove(options, limits, setup);
  set_up_evaluation(options, setup);
  if (!options.dump.empty())
    require_dumpable(options.dump, setup.schedule, setup.scenario.model, setup.scenario.run.steps);
  setup.timelines.know(setup.schedule);
  if (!setup.timelines.beside.empty()) check_run_outputs(options, scenario, setup.timelines);
  if (checkpoint) setup.steps_before = checkpoint->step();
  require_room_to_save(setup);
  setup.description = describe_run(setup.schedule, scenario.run, setup.tokens->checksum());
  if (checkpoint) {
    status.update("reading the checkpoint");
    resume(std::move(checkpoint), options.resume, allowed, setup);
  }
  setup.weights = setup.states->describe();
  setup.drive = open_drive(setup.schedule, scenario, states_text(setup), setup.resumed.has_value());
  setup.store = setup.drive.get();
  if (setup.drive) require_room_beside_drive(setup);
  begin_resident_peak();
  status.clear();
}

}  // namespace penstock::exec
