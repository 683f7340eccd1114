#include "sim/program/question_options.h"

#include "shared/command_line.h"

namespace penstock::sim {
namespace {

constexpr const char* kQuestion = "Instead of a scenario file";
constexpr const char* kCost = "Hours and euros of a training";

void add_text(CLI::App* command, const char* option, std::string& value, const char* type, const char* help) {
  command->add_option(option, value, help)->type_name(type)->group(kQuestion);
}

}  // namespace

void add_question_machine(CLI::App* command, Question& question) {
  add_text(command, "--gpu", question.gpu, "CARD",
           "\"RTX 4090\", 4090, a100-80gb-sxm, or a file; `list cards` has all");
  add_text(command, "--host", question.host, "HOST",
           "desktop, workstation, server, ... (`list hosts`); else the card's usual one");
  add_text(command, "--ram", question.ram, "SIZE",
           "memory of the host, as 64GB or \"64 GiB\"; else what such a host usually has");
  add_text(command, "--drive", question.drive, "SIZE", "an NVMe drive, as 2TB; else none");
}

void add_question(CLI::App* command, ScenarioChoice& choice) {
  Question& question = choice.question;
  add_text(command, "--model", question.model, "MODEL",
           "a folder with config.json, such a file, or a name of the catalogue");
  add_question_machine(command, question);
  add_text(command, "--hardware", question.hardware, "FILE",
           "instead of --gpu and --host: a hardware file of a whole machine, or a name of `list hardware`");
  command->add_option("--sequence-length", question.sequence_length, "tokens per sequence; else 1024")
      ->check(CLI::Range(1, 1 << 24))
      ->group(kQuestion);
  command->add_option("--sequences", question.sequences, "per optimizer step; else about 160 x 1024 tokens")
      ->check(CLI::Range(1, 1'000'000))
      ->group(kQuestion);
  add_text(command, "--tokens-per-step", question.tokens_per_step, "COUNT",
           "instead of --sequences, as 131072 or 128k");
  add_cost(command, choice.cost);
}

void add_scenario_out(CLI::App* command, ScenarioChoice& choice) {
  command->add_option("--scenario-out", choice.scenario_out, "write the scenario that gives this answer")
      ->type_name("FILE");
}

void add_cost(CLI::App* command, CostOptions& cost, bool priced) {
  const auto text = [&](const char* option, std::string& value, const char* type, const char* help) {
    command->add_option(option, value, help)->type_name(type)->group(kCost);
  };
  text("--tokens", cost.tokens, "COUNT", "to be trained on, as 10B");
  text("--epochs", cost.epochs, "N", "instead of --tokens, with --data-tokens");
  text("--data-tokens", cost.data_tokens, "COUNT", "of one epoch");
  text("--rent", cost.rent, "EUR", "per hour; else that of the prices");
  if (!priced) text("--price", cost.price, "EUR", "of the machine; else that of its parts");
  text("--life", cost.life, "YEARS", "over which the price is spread; else that of the prices, 4");
  text("--electricity", cost.electricity, "EUR", "per kWh; else that of the prices, 0.2872");
  text("--watts", cost.watts, "POWER", "that the machine draws, as \"600 W\"; else what card and host are known for");
  command->add_option("--prices", cost.prices, "prices of parts and rents, if not prices/parts.toml of the catalogue")
      ->type_name("FILE")
      ->transform(catalogue_file(CatalogueKind::prices))
      ->group(kCost);
}

}  // namespace penstock::sim
