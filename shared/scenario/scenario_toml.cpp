#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/harmless_text.h"
#include "shared/ir/memory.h"
#include "shared/machine/card_and_host.h"
#include "shared/machine/part_names.h"
#include "shared/model/config_json.h"
#include "shared/model/frozen_layers.h"
#include "shared/model/library_workspace.h"
#include "shared/model/sequence_limits.h"
#include "shared/pinned_ring.h"
#include "shared/scenario/moved_keys.h"
#include "shared/scenario/policy_toml.h"
#include "shared/scenario/scenario.h"
#include "shared/scenario/training_toml.h"
#include "shared/scenario/workload_data.h"
#include "shared/toml_reader.h"
#include "shared/units.h"

namespace penstock {
namespace {

constexpr std::string_view kBackends[] = {"auto", "host", "cuda"};
constexpr std::int64_t kMostSequences = 1'000'000;
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kLongestSequence = std::int64_t{1} << 24;
constexpr std::int64_t kMostElements = 1'000'000'000'000;
/// All activations of a step together; beyond it sums of bytes would leave 64 bits.
constexpr double kMostActivationBytes = 1e17;

constexpr std::string_view kOverridePlace = "--set ";

void set_value(const std::string& table_name, const std::string& key, const TomlValue& value, TomlDocument& document) {
  TomlTable& table = document.tables[table_name];
  if (table.place.empty()) table.place = value.place;
  table.values[key] = value;
  if (table_name != "machine") return;
  for (const char* other : {"hardware", "profile", "card"})
    if (const bool names_machine = key == "hardware" || key == "profile" || key == "card";
        names_machine && key != other)
      table.values.erase(other);
  if (key == "hardware" || key == "profile") table.values.erase("host");
}

/// "table.key=value" from the command line.
void apply_override(const std::string& text, TomlDocument& document) {
  const auto equals = text.find('=');
  const auto dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 || dot + 1 == equals)
    throw InputError(fmt::format("--set: expected table.key=value, such as policy.name=megatrain; found \"{}\"",
                                 text.substr(0, 60)));
  const TomlValue value =
      parse_toml_value(text.substr(equals + 1), fmt::format("{}{}", kOverridePlace, text.substr(0, 60)));
  std::vector<std::string> names = moved_names(text.substr(0, equals));
  if (names.empty())
    names.push_back(text.substr(0, equals));
  else
    document.notes.push_back(fmt::format("{}: that is {} now", value.place, fmt::join(names, " and ")));
  for (const std::string& name : names)
    set_value(name.substr(0, name.find('.')), name.substr(name.find('.') + 1), value, document);
}

/// What the catalogue may have of a key's.
std::optional<CatalogueKind> catalogue_kind(const std::string& key) {
  if (key == "model.config") return CatalogueKind::model;
  if (key == "machine.hardware") return CatalogueKind::hardware;
  if (key == "machine.card") return CatalogueKind::card;
  if (key == "machine.host") return CatalogueKind::host;
  if (key == "cost.prices") return CatalogueKind::prices;
  if (key == "machine.software") return CatalogueKind::software;
  return std::nullopt;
}

class ScenarioReader {
 public:
  ScenarioReader(const TomlDocument& document, const std::filesystem::path& path) : document_(document) {
    scenario_.path = path;
    scenario_.files = {path};
    scenario_.name = harmless(path.stem().string());
    scenario_.text = document.text;
  }

  Scenario read() {
    check_tables(document_, {"model", "machine", "workload", "policy", "run", "init", "data", "optimizer", "checkpoint",
                             "eval", "log", "cost", "software", "published"});
    TomlSection(document_, "").finish();
    read_model();
    read_machine();
    read_workload();
    scenario_.policy = read_policy(document_);
    scenario_.fixed = given_parameters(document_);
    if (TomlSection(document_, "workload").has("chunk_tokens")) scenario_.fixed.insert("chunk_tokens");
    read_run();
    scenario_.notes.insert(scenario_.notes.end(), document_.notes.begin(), document_.notes.end());
    read_prices();
    read_software();
    read_published();
    return std::move(scenario_);
  }

 private:
  std::filesystem::path path(TomlSection& section, const std::string& key) {
    if (section.text(key).empty()) section.fail(key, "expected a path, found an empty text");
    scenario_.files.push_back(scenario_path(section.name() + "." + key, section.value(key), scenario_.path));
    return scenario_.files.back();
  }

  /// An existing file, so that the error names the line that asks for it.
  std::filesystem::path existing(TomlSection& section, const std::string& key) {
    const std::filesystem::path found = path(section, key);
    std::error_code ignored;
    if (std::filesystem::exists(found, ignored)) return found;
    std::string why = why_not_read(found, ENOENT);
    if (const auto kind = catalogue_kind(section.name() + "." + key)) {
      const std::filesystem::path given = section.text(key);
      const std::string meant = nearest_in_catalogue(*kind, given);
      // A bare name is rather one of the catalogue than another file of the folder.
      if (!meant.empty() && (!given.has_parent_path() || !why.ends_with('?')))
        why = fmt::format("{}{}", std::strerror(ENOENT), meant);
    }
    section.fail(key, fmt::format("there is no file {}: {}", found.string(), why));
  }

  void read_model() {
    TomlSection section(document_, "model");
    scenario_.model_file = existing(section, "config");
    if (std::error_code ignored; std::filesystem::is_directory(scenario_.model_file, ignored)) {
      scenario_.model_file /= "config.json";
      if (!std::filesystem::exists(scenario_.model_file, ignored))
        section.fail("config",
                     fmt::format("there is no config.json in the folder {}; a model from Hugging Face has one "
                                 "beside its weights",
                                 section.text("config")));
      scenario_.files.back() = scenario_.model_file;
    }
    ModelConfig config = read_model_config(scenario_.model_file);
    if (section.has("layers")) {
      config = with_decoder_layers(std::move(config), section.integer("layers", 1, kMostLayers));
      if (const std::string why = too_many_experts(config); !why.empty()) section.fail("layers", why);
      config.name += fmt::format(", {} layers", config.decoder_layers);
    }
    freeze(config);
    scenario_.model = make_model(config);
    section.finish();
  }

  void freeze(ModelConfig& config) {
    TomlSection optimizer(document_, "optimizer");
    if (!optimizer.has("freeze")) return;
    try {
      config.frozen_layers = frozen_layers(optimizer.texts("freeze"), config);
    } catch (const InputError& error) {
      optimizer.fail("freeze", error.what());
    }
  }

  void read_machine() {
    TomlSection section(document_, "machine");
    Machine& machine = scenario_.machine;
    const bool hardware = section.has("hardware");
    const bool profile = section.has("profile");
    const bool card = section.has("card");
    if (hardware && profile) section.fail("profile", "stands beside hardware; keep one of the two");
    if (card && (hardware || profile))
      section.fail("card", fmt::format("stands beside {}; keep one of the two", hardware ? "hardware" : "profile"));
    if (section.has("host") && !card)
      section.fail("host", "stands without card: give both, or the machine by hardware or profile alone");
    if (!hardware && !profile && !card)
      section.fail("hardware",
                   "is missing, and so is profile: give hardware = \"hardware/….toml\", a card, or a profile from "
                   "`penstock-exec calibrate`");
    machine = profile    ? read_profile(existing(section, "profile"))
              : hardware ? read_hardware(existing(section, "hardware"))
                         : composed(section);
    for (const std::filesystem::path& part : {machine.card, machine.host})
      if (!part.empty()) scenario_.files.push_back(part);
    if (section.has("hbm")) machine.gpu.hbm_bytes = section.bytes("hbm", 1 << 20);
    if (section.has("dram")) machine.dram_bytes = section.bytes("dram", 1 << 20);
    if (section.has("reserve")) machine.reserve_bytes = section.bytes("reserve", 0);
    if (section.has("context")) machine.gpu.context_bytes = section.bytes("context", 0);
    if (section.has("pinned")) machine.pinned_bytes = section.bytes("pinned", kRingsBytes);
    require_room(section, "dram", "reserve", machine.dram_bytes, reserve_bytes(machine));
    require_room(section, "hbm", "context", machine.gpu.hbm_bytes, context_bytes(machine));
    if (section.has("nvme")) machine.nvme.bytes = section.bytes("nvme", 0);
    if (section.has("nvme_path"))
      for (const std::string& folder : section.texts("nvme_path")) {
        if (folder.empty()) section.fail("nvme_path", "expected a path, found an empty text");
        scenario_.nvme_paths.push_back(
            scenario_path("machine.nvme_path", {folder, section.value("nvme_path").place}, scenario_.path));
      }
    if (section.has("cores")) machine.cpu.cores = static_cast<int>(section.integer("cores", 1, 4096));
    if (section.has("software")) {
      scenario_.software = existing(section, "software");
      apply_software(scenario_.software, machine);
    }
    section.finish();
  }

  /// A card by its path, or by whatever name people call it; a host likewise.
  std::filesystem::path part(TomlSection& section, const char* key, decltype(find_card) find) {
    // `--set machine.card=4090` is a number to TOML.
    const bool is_number = std::holds_alternative<std::int64_t>(section.value(key).value);
    const std::string name = is_number ? shown(section.value(key)) : section.text(key);
    if (name.empty()) section.fail(key, "expected a name, found an empty text");
    const bool is_path = name.find('/') != std::string::npos || name.ends_with(".toml");
    return is_path ? existing(section, key) : find(name, {}, section.place(key));
  }

  Machine composed(TomlSection& section) {
    const std::filesystem::path card = part(section, "card", find_card);
    return read_card_and_host(card, section.has("host") ? part(section, "host", find_host) : "");
  }

  /// What is kept of a tier may come from the scenario or the machine's file.
  static void require_room(const TomlSection& section, const char* tier, const char* key, std::int64_t capacity,
                           std::int64_t kept) {
    if (kept >= capacity)
      section.fail(
          key, fmt::format("{} is kept of {} = {}, which leaves nothing; expected less",
                           format_bytes(static_cast<double>(kept)), tier, format_bytes(static_cast<double>(capacity))));
  }

  void read_workload() {
    TomlSection section(document_, "workload");
    scenario_.sequence_length = section.integer("sequence_length", 1, kLongestSequence);
    scenario_.sequences = static_cast<int>(section.integer("sequences", 1, kMostSequences));
    scenario_.micro_batch = static_cast<int>(section.integer("micro_batch", 1, kMostSequences));
    if (scenario_.sequences % scenario_.micro_batch != 0)
      section.fail("micro_batch", fmt::format("{} does not divide sequences = {}; every micro-batch has the same size",
                                              scenario_.micro_batch, scenario_.sequences));
    read_rows(section);
    read_chunks(section);
    if (section.has("expert_skew")) {
      const std::int64_t experts = scenario_.model.config.experts.count;
      if (experts == 0)
        section.fail("expert_skew", fmt::format("is of a mixture of experts, which {} is not; leave it out",
                                                scenario_.model.config.name));
      scenario_.expert_skew = section.number("expert_skew", 1, static_cast<double>(experts));
    }
    section.finish();
    const ModelConfig& config = scenario_.model.config;
    scenario_.notes = length_notes(config, scenario_.sequence_length, scenario_.rows);
    if (const std::string why = cut_not_computed(config); scenario_.chunk_tokens > 0 && !why.empty())
      scenario_.notes.push_back(fmt::format("chunk_tokens: {}; bytes and times do not depend on it", why));
    const double widths =
        static_cast<double>(2 * config.hidden + 2 * scenario_.model.qkv_columns() + 4 * scenario_.model.widest_mlp());
    const double tokens = static_cast<double>(scenario_.sequence_length) * scenario_.sequences;
    if (const double bytes = 4 * widths * tokens * scenario_.model.layer_count(); bytes > kMostActivationBytes)
      section.fail("sequences",
                   fmt::format("{} sequences of {} tokens make about {:.0e} bytes of activations: absurdly many",
                               scenario_.sequences, scenario_.sequence_length, bytes));
  }

  /// As long as the sequence, or longer: not cut.
  void read_chunks(TomlSection& section) {
    if (!section.has("chunk_tokens")) return;
    const std::int64_t tokens = section.integer("chunk_tokens", 0, kLongestSequence);
    if (tokens == 0 || tokens >= scenario_.sequence_length) return;
    if (scenario_.micro_batch > 1)
      section.fail("chunk_tokens", fmt::format("{} cuts sequences of {} tokens, and a micro-batch is one chunk then: "
                                               "set micro_batch = 1 (found {})",
                                               tokens, scenario_.sequence_length, scenario_.micro_batch));
    scenario_.chunk_tokens = tokens;
  }

  void read_rows(TomlSection& section) {
    const bool are_known = section.has("squared_lengths");
    if (section.has("data")) scenario_.data = are_known ? path(section, "data") : existing(section, "data");
    if (are_known) {
      const double whole =
          static_cast<double>(scenario_.sequence_length) * static_cast<double>(scenario_.sequence_length);
      scenario_.rows = BatchKind::packed;
      scenario_.squared_lengths = section.number("squared_lengths", 1, whole);
    } else if (!scenario_.data.empty()) {
      take_rows_of_data(scenario_);
    }
  }

  void read_run() {
    TomlSection section(document_, "run");
    read_duration(section);
    RunOptions& run = scenario_.run;
    for (const MovedKey& moved : kMovedKeys) section.has(std::string(moved.old_key));  // a slip of one is told so
    TomlSection init(document_, "init"), data(document_, "data"), eval(document_, "eval");
    if (init.has("weights")) run.init.weights = path(init, "weights");
    if (data.has("file")) run.data.file = path(data, "file");
    take_data_of_workload(data);
    if (eval.has("file")) run.eval.file = path(eval, "file");
    read_init(init, run);
    read_data(data, run);
    read_eval(eval, run);
    read_optimizer(document_, section.has("steps"), run);
    read_checkpoint(document_, scenario_.path, run);
    read_log(document_, scenario_.path, run);
    if (section.has("backend")) run.backend = kBackends[section.choice("backend", kBackends)];
    if (section.has("deterministic")) run.deterministic = section.boolean("deterministic");
    scenario_.machine.gpu.deterministic = run.deterministic;
    if (section.has("link_h2d")) run.link_h2d_bytes_per_second = section.bandwidth("link_h2d");
    if (section.has("link_d2h")) run.link_d2h_bytes_per_second = section.bandwidth("link_d2h");
    section.finish();
  }

  /// What the workload is made of is trained on.
  void take_data_of_workload(TomlSection& section) {
    std::filesystem::path& of_run = scenario_.run.data.file;
    if (of_run.empty()) of_run = scenario_.data;
    std::error_code ignored;
    if (!scenario_.data.empty() && of_run.lexically_normal() != scenario_.data.lexically_normal() &&
        !std::filesystem::equivalent(of_run, scenario_.data, ignored))
      section.fail("file", fmt::format("stands beside [workload] data = {}, and a run trains on one of them; leave the "
                                       "other out",
                                       scenario_.data.string()));
    take_rows_of_run(of_run, scenario_);
  }

  void read_duration(TomlSection& section) {
    RunOptions& run = scenario_.run;
    if (section.has("steps")) run.steps = static_cast<int>(section.integer("steps", 1, 1'000'000'000));
    if (section.has("warmup_steps")) {
      run.warmup_steps = static_cast<int>(section.integer("warmup_steps", 0, 1'000'000'000));
      if (run.warmup_steps >= run.steps)
        section.fail("warmup_steps",
                     fmt::format("{} leaves none of the {} steps to measure", run.warmup_steps, run.steps));
    }
    run.warmup_steps = std::min(run.warmup_steps, run.steps - 1);
  }

  void read_prices() {
    scenario_.cost = read_cost(document_);
    TomlSection section(document_, "cost");
    if (section.has("prices")) scenario_.cost.prices = existing(section, "prices");
  }

  /// Which settings there are, the software's file says; whoever reads it refuses the others.
  void read_software() {
    TomlSection section(document_, "software");
    for (const std::string& key : section.keys()) {
      const bool is_flag = std::holds_alternative<bool>(section.value(key).value);
      const std::int64_t value = is_flag ? section.boolean(key) : section.integer(key, 0, kMostElements);
      scenario_.software_settings[key] = {{value, is_flag}, section.place(key)};
    }
  }

  void read_where_it_ended(TomlSection& section, Published& published) {
    constexpr std::string_view kTiers[] = {"hbm", "dram", "nvme"};
    if (section.has("ran_out")) published.ran_out = kTiers[section.choice("ran_out", kTiers)];
    if (!section.has("phase")) return;
    std::vector<std::string_view> phases;
    for (int phase = 0; phase < kMemoryPhases; ++phase)
      phases.emplace_back(memory_phase_name(static_cast<MemoryPhase>(phase)));
    published.phase = phases[static_cast<std::size_t>(section.choice("phase", phases))];
  }

  void read_published() {
    TomlSection section(document_, "published");
    if (!section.exists()) return;
    Published published;
    published.source = section.text("source");
    if (section.has("assumed")) published.assumed = section.text("assumed");
    if (section.has("system")) published.system = section.text("system");
    if (section.has("calibrates")) published.calibrates = section.boolean("calibrates");
    if (section.has("rows")) published.rows = existing(section, "rows");
    const bool step = section.has("step"), flops = section.has("flops");
    if (step && flops) section.fail("flops", "stands beside step; keep the one that was published");
    if (step && (published.step_seconds = section.seconds("step")) <= 0) section.fail("step", "must be more than 0 s");
    if (flops) {
      const double tokens = static_cast<double>(scenario_.sequence_length) * scenario_.sequences;
      published.step_seconds = 6 * static_cast<double>(scenario_.model.parameters) * tokens / section.flops("flops");
    }
    if (section.has("hbm")) published.hbm_bytes = section.bytes("hbm", 1 << 20);
    if (section.has("fits")) published.fits = section.boolean("fits");
    read_where_it_ended(section, published);
    section.finish();
    scenario_.published = published;
  }

  const TomlDocument& document_;
  Scenario scenario_;
};

}  // namespace

BatchShape Scenario::shape(std::int64_t of_sequences) const {
  // Rows may have been made shorter since.
  const double whole = static_cast<double>(sequence_length) * static_cast<double>(sequence_length);
  BatchShape shape{of_sequences, sequence_length, rows, std::min(squared_lengths, whole),
                   chunk_tokens < sequence_length ? chunk_tokens : 0};
  shape.expert_skew = expert_skew;
  return shape;
}

PolicyInput Scenario::policy_input() const {
  PolicyInput input;
  input.model = model;
  input.sequence_length = sequence_length;
  input.sequences = sequences;
  input.micro_batch = micro_batch;
  input.chunk_tokens = chunk_tokens;
  input.rows = rows;
  input.squared_lengths = shape(1).squared_lengths;
  input.expert_skew = expert_skew;
  const TierCapacities usable = usable_memory(machine);
  input.hbm_bytes = usable.hbm;
  input.dram_bytes = usable.dram;
  input.nvme_bytes = usable.nvme;
  // The host backend's kernels need no scratch but what the layout names.
  if (!machine.gpu.is_host) input.library_bytes = library_workspace_bytes(model, shape(micro_batch), run.deterministic);
  input.host_threads = machine.cpu.cores;
  input.parameters = policy;
  return input;
}

std::filesystem::path scenario_path(const std::string& key, const TomlValue& value,
                                    const std::filesystem::path& scenario) {
  const std::filesystem::path given = std::get<std::string>(value.value);
  std::error_code ignored;
  if (given.is_absolute()) return given;
  // Which need not be there yet.
  const bool is_output = key == "checkpoint.folder" || key == "checkpoint.export" || key == "log.metrics";
  if (value.place.starts_with(kOverridePlace) && (is_output || std::filesystem::exists(given, ignored))) return given;
  const auto kind = catalogue_kind(key);
  return kind ? file_beside(*kind, scenario.parent_path(), given) : scenario.parent_path() / given;
}

void apply_overrides(const std::vector<std::string>& overrides, TomlDocument& document) {
  for (const std::string& text : overrides) apply_override(text, document);
}

TomlDocument read_scenario_document(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  TomlDocument document = read_toml(path);
  move_keys(document);
  apply_overrides(overrides, document);
  return document;
}

Scenario make_scenario(const TomlDocument& document, const std::filesystem::path& path) {
  return ScenarioReader(document, path).read();
}

Scenario read_scenario(const std::filesystem::path& path) { return read_scenario(path, {}); }

Scenario read_scenario(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return make_scenario(read_scenario_document(path, overrides), path);
}

Scenario parse_scenario(const std::string& text, const std::string& place, const std::filesystem::path& folder,
                        const std::vector<std::string>& overrides) {
  TomlDocument document = parse_toml(text, place);
  move_keys(document);
  apply_overrides(overrides, document);
  return make_scenario(document, folder / "scenario.toml");
}

}  // namespace penstock
