#include "sim/program/question.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <initializer_list>
#include <system_error>
#include <utility>
#include <variant>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/machine/card_and_host.h"
#include "shared/machine/machine.h"
#include "shared/machine/part_names.h"
#include "shared/model/config_json.h"
#include "shared/units.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostSequences = 1'000'000;
/// Tokens of a micro-batch where nobody plans it: enough for large matrices, little enough for small cards.
constexpr std::int64_t kUsualMicroBatchTokens = 16'384;
constexpr std::int64_t kLeastBytes = 1 << 20;

/// What nobody said, under the key that --set may still change.
struct Default {
  const char* key;
  std::string text;
};

class DocumentWriter {
 public:
  explicit DocumentWriter(TomlDocument& document) : document_(document) {}

  void put(const std::string& table, const std::string& key, const decltype(TomlValue::value)& value,
           const std::string& place) {
    TomlTable& found = document_.tables[table];
    if (found.place.empty()) found.place = place;
    found.values[key] = {value, place};
  }

 private:
  TomlDocument& document_;
};

/// The file as a scenario in `folder` names it: a name of the catalogue, or a path.
std::string named_from(const fs::path& folder, const fs::path& file, CatalogueKind kind) {
  std::error_code ignored;
  const fs::path name = file.stem();
  if (const auto own = in_catalogue(kind, file.filename()); own && fs::equivalent(*own, file, ignored))
    if (!fs::exists(folder / name, ignored)) return name.string();
  const fs::path whole = fs::absolute(file).lexically_normal();
  const fs::path relative = whole.lexically_relative(fs::absolute(folder / "x").lexically_normal().parent_path());
  return relative.empty() ? whole.string() : relative.string();
}

/// A size that makes sense of a tier; --ram "64" has lost its unit.
void require_size(const std::string& text, const char* option, bool may_be_zero) {
  const std::int64_t bytes = parse_bytes(text, option);
  if (bytes < kLeastBytes && !(may_be_zero && bytes == 0))
    throw InputError(fmt::format("{}: expected at least 1 MiB{}; found \"{}\"", option,
                                 may_be_zero ? ", or \"0 B\" for none" : "", text));
}

std::int64_t sequences_of(const Question& question, std::int64_t length, bool& chosen) {
  chosen = false;
  if (!question.tokens_per_step.empty()) {
    const std::int64_t tokens = parse_count(question.tokens_per_step, "--tokens-per-step");
    if (question.sequences > 0) throw InputError("--tokens-per-step stands beside --sequences; keep one of the two");
    if (tokens % length != 0 || tokens / length > kMostSequences) {
      const std::int64_t below = std::clamp<std::int64_t>(tokens / length, 1, kMostSequences) * length;
      throw InputError(
          fmt::format("--tokens-per-step {}: expected a multiple of the {} tokens of a sequence, of at most "
                      "{} sequences, such as {}",
                      question.tokens_per_step, length, kMostSequences, below));
    }
    return tokens / length;
  }
  if (question.sequences > 0) return question.sequences;
  chosen = true;
  return std::max<std::int64_t>(1, (kUsualTokensPerStep + length / 2) / length);
}

/// The largest divisor of `sequences` that makes a usual micro-batch.
std::int64_t micro_batch_of(std::int64_t sequences, std::int64_t length) {
  const std::int64_t most = std::clamp<std::int64_t>(kUsualMicroBatchTokens / length, 1, sequences);
  std::int64_t best = 1;
  for (std::int64_t i = 1; i <= most; ++i)
    if (sequences % i == 0) best = i;
  return best;
}

void put_workload(const Question& question, const fs::path& config, DocumentWriter& document,
                  std::vector<Default>& defaults) {
  std::int64_t length = question.sequence_length;
  if (length == 0) {
    length = usual_sequence_length(read_model_config(config));
    defaults.push_back({"workload.sequence_length", fmt::format("{} tokens per sequence (--sequence-length)", length)});
  }
  bool chosen = false;
  const std::int64_t sequences = sequences_of(question, length, chosen);
  if (chosen)
    defaults.push_back({"workload.sequences",
                        fmt::format("{} sequence{} per step (--sequences)", sequences, sequences == 1 ? "" : "s")});
  const std::int64_t micro_batch = micro_batch_of(sequences, length);
  defaults.push_back(
      {"workload.micro_batch", fmt::format("micro-batches of {} (--set workload.micro_batch)", micro_batch)});
  document.put("workload", "sequence_length", length, "--sequence-length");
  document.put("workload", "sequences", sequences,
               question.tokens_per_step.empty() ? "--sequences" : "--tokens-per-step");
  document.put("workload", "micro_batch", micro_batch, "the micro-batch");
}

/// "; --host workstation or server takes that", of the hosts that the card goes into.
std::string hosts_that_take(std::int64_t bytes, const fs::path& card) {
  std::vector<std::string> names;
  for (const std::string& name : catalogue_names(CatalogueKind::host)) {
    const fs::path host = find_host(name, {}, "--host");
    if (read_host_figures(host).most_dram_bytes < bytes) continue;
    try {
      read_card_and_host(card, host);
      names.push_back(name);
    } catch (const InputError&) {  // it finds no slot there
    }
  }
  return names.empty() ? "" : fmt::format("; --host {} takes that", fmt::join(names, " or "));
}

/// Whether `--set` says it itself, or the machine that it is of.
bool is_set(const std::string& key, const std::vector<std::string>& overrides) {
  const bool is_part = key == "machine.host" || key == "machine.dram";
  return std::any_of(overrides.begin(), overrides.end(), [&](const std::string& override) {
    const std::string set = override.substr(0, override.find('='));
    return set == key ||
           (is_part && (set == "machine.card" || set == "machine.hardware" || set == "machine.profile")) ||
           (key == "machine.dram" && set == "machine.host");
  });
}

/// A profile and a hardware file are whole machines, beside which nothing else names one.
void require_alone(const char* whole, const char* what, std::initializer_list<std::pair<bool, const char*>> others) {
  for (const auto& [given, option] : others)
    if (given)
      throw InputError(
          fmt::format("{} stands beside {}: {} is a whole machine; keep one of the two", whole, option, what));
}

/// What only a hardware file has would be called an unknown table of a card.
void require_card(const fs::path& file, const std::string& gpu) {
  const TomlDocument document = read_toml(file);
  for (const char* table : {"cpu", "dram"})
    if (document.tables.contains(table))
      throw InputError(fmt::format(
          "--gpu {}: is the hardware file of a whole machine, for it has a table [{}]; ask about it by --hardware {} "
          "(shop: --own {})",
          gpu, table, gpu, gpu));
}

void put_machine(const Question& question, bool profile, const fs::path& folder, DocumentWriter& document,
                 std::vector<Default>& defaults, std::vector<std::string>& notes) {
  std::int64_t most_dram = 0;
  fs::path card;
  if (profile) {
    require_alone("--profile", "a profile",
                  {{!question.gpu.empty(), "--gpu"},
                   {!question.host.empty(), "--host"},
                   {!question.hardware.empty(), "--hardware"}});
  } else if (!question.hardware.empty()) {
    require_alone("--hardware", "a hardware file",
                  {{!question.gpu.empty(), "--gpu"}, {!question.host.empty(), "--host"}});
    const fs::path file = named_file(CatalogueKind::hardware, question.hardware);
    if (!question.drive.empty() && read_hardware(file).nvme.read_bytes_per_second <= 0)
      throw InputError(
          fmt::format("--drive: nothing is known of a drive in {}; give it a table [nvme]", file.string()));
    document.put("machine", "hardware", named_from(folder, file, CatalogueKind::hardware), "--hardware");
  } else {
    if (question.gpu.empty())
      throw InputError(
          "--model without --gpu: give the card, such as --gpu \"RTX 4090\" (`penstock-sim list cards` has all), a "
          "machine's file by --hardware, or a measured machine by --profile");
    card = find_card(question.gpu, {}, "--gpu");
    require_card(card, question.gpu);
    const fs::path host = question.host.empty() ? fs::path() : find_host(question.host, {}, "--host");
    const Machine machine = read_card_and_host(card, host);
    document.put("machine", "card", named_from(folder, card, CatalogueKind::card), "--gpu");
    document.put("machine", "host", named_from(folder, machine.host, CatalogueKind::host), "--host");
    if (!question.drive.empty() && machine.nvme.read_bytes_per_second <= 0)
      throw InputError(
          fmt::format("--drive: nothing is known of a drive in {}; give it a table [nvme]", machine.host.string()));
    most_dram = read_host_figures(machine.host).most_dram_bytes;
    if (host.empty())
      defaults.push_back({"machine.host", fmt::format("host {} (--host)", machine.host.stem().string())});
    if (question.ram.empty())
      defaults.push_back(
          {"machine.dram", fmt::format("{} of memory (--ram)", format_bytes(static_cast<double>(machine.dram_bytes)))});
  }
  if (!question.ram.empty()) {
    require_size(question.ram, "--ram", false);
    if (most_dram > 0 && parse_bytes(question.ram, "--ram") > most_dram)
      notes.push_back(fmt::format("--ram {}: such a host takes at most {}{}", question.ram,
                                  format_bytes(static_cast<double>(most_dram)),
                                  hosts_that_take(parse_bytes(question.ram, "--ram"), card)));
    document.put("machine", "dram", question.ram, "--ram");
  }
  if (!question.drive.empty()) {
    require_size(question.drive, "--drive", true);
    document.put("machine", "nvme", question.drive, "--drive");
  } else {
    document.put("machine", "nvme", std::string("0 B"), "--drive");
    defaults.push_back({"machine.nvme", "no drive (--drive)"});
  }
}

}  // namespace

std::int64_t usual_sequence_length(const ModelConfig& config) {
  return config.max_positions > 0 ? std::min(kUsualSequenceLength, config.max_positions) : kUsualSequenceLength;
}

std::vector<std::string> Question::given() const {
  std::vector<std::string> options;
  const auto note = [&](bool is_given, const char* option) {
    if (is_given) options.emplace_back(option);
  };
  note(!model.empty(), "--model");
  note(!gpu.empty(), "--gpu");
  note(!host.empty(), "--host");
  note(!hardware.empty(), "--hardware");
  note(!ram.empty(), "--ram");
  note(!drive.empty(), "--drive");
  note(sequence_length > 0, "--sequence-length");
  note(sequences > 0, "--sequences");
  note(!tokens_per_step.empty(), "--tokens-per-step");
  return options;
}

fs::path model_config_file(const std::string& model, const std::string& place) {
  std::error_code ignored;
  const fs::path given = model;
  if (fs::is_directory(given, ignored)) {
    if (fs::exists(given / "config.json", ignored)) return given / "config.json";
    if (const auto own = in_catalogue(CatalogueKind::model, given)) return *own;
    throw InputError(
        fmt::format("{}: the folder {} has no config.json; a model from Hugging Face has one beside its "
                    "weights",
                    place, model.substr(0, 200)));
  }
  if (fs::exists(given, ignored)) return given;
  if (const auto own = in_catalogue(CatalogueKind::model, given)) return *own;
  // "Qwen2.5 7B", "QWEN2.5-7b"
  const std::vector<std::string> names = catalogue_names(CatalogueKind::model);
  const auto letters = [](const std::string& name) {
    std::string result;
    for (const char c : name)
      if (std::isalnum(static_cast<unsigned char>(c)))
        result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
  };
  for (const std::string& name : names)
    if (letters(name) == letters(model)) return *in_catalogue(CatalogueKind::model, name);
  std::string why = why_not_read(given, ENOENT);
  if (!why.ends_with('?'))
    why = fmt::format("it is none of the catalogue either{}", nearest_in_catalogue(CatalogueKind::model, given));
  throw InputError(fmt::format("{}: there is no file or folder {}: {}{} `penstock-sim list models` has the catalogue's",
                               place, model.substr(0, 200), why, why.ends_with('?') ? "" : ";"));
}

TomlDocument question_document(const Question& question, bool profile, const fs::path& folder,
                               const std::vector<std::string>& overrides, std::vector<std::string>& notes) {
  TomlDocument document;
  document.place = "the question";
  document.tables[""];
  DocumentWriter writer(document);
  if (question.model.empty())
    throw InputError(
        fmt::format("{} without --model: give a folder with a config.json, such a file, or a name of "
                    "`penstock-sim list models`",
                    question.given().front()));
  const fs::path config = model_config_file(question.model, "--model");
  std::vector<Default> defaults;
  writer.put("model", "config", named_from(folder, config, CatalogueKind::model), "--model");
  put_machine(question, profile, folder, writer, defaults, notes);
  put_workload(question, config, writer, defaults);
  writer.put("policy", "name", std::string("penstock"), "the policy");
  std::vector<std::string> chosen;
  for (const Default& each : defaults)
    if (!is_set(each.key, overrides)) chosen.push_back(each.text);
  if (!chosen.empty()) notes.insert(notes.begin(), fmt::format("by default: {}", fmt::join(chosen, ", ")));
  return document;
}

void put_cost(const CostOptions& cost, TomlDocument& document) {
  const auto refuse_set = [](const TomlTable& table, const char* key, const char* option) {
    const auto found = table.values.find(key);
    if (found != table.values.end() && found->second.place.starts_with("--set"))
      throw InputError(fmt::format("{} stands beside --set cost.{}; keep one of the two", option, key));
  };
  const auto erase = [&](std::initializer_list<const char*> keys, const char* option) {
    if (const auto table = document.tables.find("cost"); table != document.tables.end())
      for (const char* key : keys) {
        refuse_set(table->second, key, option);
        table->second.values.erase(key);
      }
  };
  if (!cost.tokens.empty()) erase({"epochs", "data_tokens"}, "--tokens");
  if (!cost.epochs.empty() || !cost.data_tokens.empty())
    erase({"tokens"}, cost.epochs.empty() ? "--data-tokens" : "--epochs");
  const auto put = [&](const char* key, const std::string& text, const char* option) {
    if (text.empty()) return;
    TomlTable& table = document.tables["cost"];
    if (table.place.empty()) table.place = option;
    refuse_set(table, key, option);
    table.values[key] = parse_toml_value(text, option);
  };
  put("tokens", cost.tokens, "--tokens");
  put("epochs", cost.epochs, "--epochs");
  put("data_tokens", cost.data_tokens, "--data-tokens");
  put("rent", cost.rent, "--rent");
  put("price", cost.price, "--price");
  put("life", cost.life, "--life");
  put("electricity", cost.electricity, "--electricity");
  put("watts", cost.watts, "--watts");
  if (!cost.prices.empty()) {
    TomlTable& table = document.tables["cost"];
    if (table.place.empty()) table.place = "--prices";
    refuse_set(table, "prices", "--prices");
    table.values["prices"] = {std::filesystem::absolute(cost.prices).string(), "--prices"};
  }
}

CostKeys cost_keys(const CostOptions& cost) {
  TomlDocument document;
  document.place = "the command line";
  document.tables[""];
  put_cost(cost, document);
  CostKeys keys = read_cost(document);
  keys.prices = cost.prices;
  return keys;
}

}  // namespace penstock::sim
