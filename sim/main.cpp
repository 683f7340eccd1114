// penstock-sim: parses options and calls the commands of sim/program. Exceptions end here.
#include "shared/command_line.h"
#include "sim/program/commands.h"
#include "sim/program/question_options.h"

namespace {

using namespace penstock;
using namespace penstock::sim;

void add_html(CLI::App* command, std::filesystem::path& html) {
  command->add_option("--html", html, "write a report that opens in any browser, offline")->type_name("FILE");
}

void add_choice(CLI::App* command, ScenarioChoice& choice) {
  add_profile(command, choice.profile);
  add_overrides(command, choice.overrides);
}

/// SCENARIO, or a question instead.
void add_scenario_or_question(CLI::App* command, ScenarioChoice& choice, const char* what = "") {
  add_scenario(command, choice.scenario, what)->required(false);
  add_question(command, choice);
}

void add_fit(CLI::App& program, FitOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(program, "fit", "Say how many bytes each tier needs, phase by phase",
                                  "Examples:\n"
                                  "  penstock-sim fit scenarios/quickstart.toml\n"
                                  "  penstock-sim fit scenarios/quickstart.toml --set policy.name=zero2-offload\n"
                                  "  penstock-sim fit --max scenarios/qwen2.5-7b-h200.toml\n"
                                  "  penstock-sim fit --model qwen2.5-7b --gpu \"RTX 4090\" --ram 64GB\n"
                                  "Exits with 3 if it does not fit, and says by how much, in which tier and phase.\n",
                                  options.json);
  add_scenario_or_question(command, options.scenario);
  add_scenario_out(command, options.scenario);
  command->add_flag("--ours", options.ours,
                    "as penstock-exec would run it: without what the code of a preset's system adds");
  command->add_flag("--max", options.max, "how many layers, how long a context, how many tokens per step would fit");
  add_choice(command, options.scenario);
  command->callback([&] { chosen = [&] { return options.max ? fit_max(options) : fit(options); }; });
}

void add_simulate(CLI::App& program, SimulateCommandOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(
      program, "simulate", "Predict step time, throughput, stalls and memory",
      "Examples:\n"
      "  penstock-sim simulate scenarios/quickstart.toml\n"
      "  penstock-sim simulate scenarios/quickstart.toml --set workload.sequences=64 --json\n"
      "  penstock-sim simulate scenarios/quickstart.toml --profile profile.json --trace trace.json\n"
      "  penstock-sim simulate scenarios/quickstart.toml --schedule schedule.json --timeline predicted.json\n"
      "  penstock-sim simulate --model qwen2.5-7b --gpu \"RTX 4090\" --ram 128GB --tokens 1B --scenario-out my.toml\n",
      options.json);
  add_scenario_or_question(command, options.scenario);
  add_scenario_out(command, options.scenario);
  command->add_option("--schedule", options.schedule, "a schedule as `plan` writes it, instead of the policy's own")
      ->type_name("FILE");
  command
      ->add_option("--timeline", options.timeline,
                   "write the predicted timeline; without --schedule also the schedule beside it")
      ->type_name("FILE");
  command->add_option("--trace", options.trace, "write a Chrome trace, to be opened in Perfetto")->type_name("FILE");
  add_html(command, options.html);
  command->add_flag("--ignore-capacity", options.ignore_capacity, "simulate even what does not fit");
  add_choice(command, options.scenario);
  command->callback([&] { chosen = [&] { return simulate_command(options); }; });
}

void add_plan(CLI::App& program, PlanOptions& options, Chosen& chosen) {
  CLI::App* command =
      add_command(program, "plan", "Write the schedule of a scenario, proved, to a file",
                  "Example:\n"
                  "  penstock-sim plan scenarios/quickstart.toml -o schedule.json\n"
                  "`penstock-sim simulate --schedule` and `penstock-exec run --schedule` take the file.\n",
                  options.json);
  add_scenario(command, options.scenario.scenario);
  command->add_option("-o,--output", options.output, "schedule file to write")->type_name("FILE")->required();
  command->add_flag("--ignore-capacity", options.ignore_capacity, "write even what does not fit");
  add_choice(command, options.scenario);
  command->callback([&] { chosen = [&] { return plan(options); }; });
}

void add_search(CLI::App& program, SearchCommandOptions& options, Chosen& chosen) {
  CLI::App* command =
      add_command(program, "search", "Find the fastest schedule that the machine holds",
                  "Examples:\n"
                  "  penstock-sim search scenarios/qwen2.5-7b-h200.toml\n"
                  "  penstock-sim search scenarios/qwen2.5-7b-h200.toml -o schedule.json --scenario-out plan.toml\n"
                  "  penstock-sim search --model qwen2.5-7b --gpu \"RTX 4090\" --ram 128GB\n"
                  "Ctrl-C gives the best so far. The plan is the same on every machine and for any number of threads\n"
                  "unless Ctrl-C or --seconds ended it. Exits with 3 if nothing fits, and says by how much.\n",
                  options.json);
  add_scenario_or_question(command, options.scenario, "; its policy's numerics are kept");
  command->add_option("-o,--output", options.output, "write the schedule, proved")->type_name("FILE");
  command->add_option("--scenario-out", options.scenario_out, "write the scenario that reproduces it")
      ->type_name("FILE");
  add_html(command, options.html);
  command->add_option("--seconds", options.seconds, "end after so long")
      ->check(CLI::Range(0.1, 1e6))
      ->check(refuse_nan);
  command->add_option("--tolerance", options.tolerance, "plans this much faster may be missed, in percent")
      ->check(CLI::Range(0.0, 50.0))
      ->check(refuse_nan)
      ->capture_default_str();
  command->add_option("--threads", options.threads, "0 = all cores")->check(CLI::Range(0, 4096));
  command->add_flag("--no-front", options.no_front, "do not look for the best plans with less memory");
  add_choice(command, options.scenario);
  command->callback([&] { chosen = [&] { return search_command(options); }; });
}

void add_sweep(CLI::App& program, SweepOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(
      program, "sweep", "Predict every combination of some values",
      "Examples:\n"
      "  penstock-sim sweep scenarios/qwen2.5-7b-h200.toml --vary workload.sequences=40,80,160 --vary "
      "policy=penstock,megatrain\n"
      "  penstock-sim sweep scenarios/qwen2.5-7b-h200.toml --vary hardware=rtx4090,gh200 --search --format csv\n"
      "Keys are those of --set; hardware, model and policy are short for machine.hardware, model.config, "
      "policy.name.\n",
      options.json);
  add_scenario(command, options.scenario.scenario);
  command->add_option("--vary", options.vary, "a key and its values; several are combined")
      ->type_name("KEY=VALUE,...")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--format", options.format, "md, csv or json")
      ->check(one_of({"md", "csv", "json"}))
      ->capture_default_str()
      ->excludes("--json");
  add_html(command, options.html);
  command->add_flag("--search", options.search, "with the planner's schedule for each row");
  command->add_option("--threads", options.threads, "0 = all cores")->check(CLI::Range(0, 4096));
  add_choice(command, options.scenario);
  command->callback([&] { chosen = [&] { return sweep(options); }; });
}

void add_shop(CLI::App& program, ShopOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(
      program, "shop", "Say which machine to buy",
      "Examples:\n"
      "  penstock-sim shop --model scenarios/models/qwen2.5-7b.json --tokens-per-second 5000\n"
      "  penstock-sim shop --model scenarios/models/qwen2.5-7b.json --budget 6000 --catalogue my/machines.toml\n"
      "  penstock-sim shop --model qwen2.5-7b --gpu \"RTX 4090\" --ram 128GB\n"
      "  penstock-sim shop --own scenarios/qwen2.5-7b-rtx4090-128gb.toml\n"
      "Prices are those of the catalogue; edit it. Exits with 3 if no machine will do, and says what binds.\n",
      options.json);
  command->add_option("--model", options.model, "a folder with config.json, such a file, or a name of the catalogue")
      ->type_name("MODEL");
  CLI::Option* wish =
      command->add_option("--tokens-per-second", options.tokens_per_second, "the cheapest machine that gives so many");
  command->add_option("--budget", options.budget, "the fastest machine for so many euros");
  command
      ->add_option(
          "--own", options.own,
          "a scenario, or with --model a hardware file or profile: which upgrade of its machine gains most per "
          "euro, of those that --budget buys")
      ->type_name("FILE")
      ->excludes(wish);
  command
      ->add_option("--catalogue", options.catalogue,
                   "machines and prices, if not prices/machines.toml of the catalogue")
      ->type_name("FILE")
      ->transform(catalogue_file(CatalogueKind::prices));
  CLI::Option* length =
      command->add_option("--sequence-length", options.sequence_length, "tokens per sequence; else 1024")
          ->check(CLI::Range(1, 1 << 24));
  CLI::Option* sequences = command->add_option("--sequences", options.sequences, "per optimizer step")
                               ->check(CLI::Range(1, 1'000'000))
                               ->capture_default_str();
  add_html(command, options.html);
  command->add_option("--threads", options.threads, "0 = all cores")->check(CLI::Range(0, 4096));
  add_question_machine(command, options.machine);
  command->add_option("--scenario-out", options.scenario_out, "with --gpu: write the scenario of that machine")
      ->type_name("FILE");
  add_cost(command, options.cost, true);
  command->callback([&, length, sequences] {
    options.workload_given = length->count() + sequences->count() > 0;
    chosen = [&] { return shop(options); };
  });
}

void add_check(CLI::App& program, CheckOptions& options, Chosen& chosen) {
  CLI::App* command =
      add_command(program, "check", "Prove a schedule file: no deadlock, no race, within capacity, complete",
                  "Example:\n"
                  "  penstock-sim check schedule.json\n"
                  "Lists the faults and exits with 2, or with 3 if it exceeds a tier and nothing else.\n",
                  options.json);
  command->add_option("SCHEDULE", options.schedule, "schedule file (JSON)")->required();
  command->callback([&] { chosen = [&] { return check(options); }; });
}

void add_compare(CLI::App& program, CompareOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(
      program, "compare", "Lay a predicted timeline beside a measured one, or beside another prediction",
      "Examples:\n"
      "  penstock-sim compare predicted.json measured.json\n"
      "  penstock-sim compare predicted.json measured.json --html report.html --trace trace.json\n"
      "  penstock-sim compare this-machine/predicted.json that-machine/predicted.json --html both.html\n"
      "The schedule is the one beside them that `--timeline` wrote, or schedule.json beside PREDICTED, unless\n"
      "--schedule or --scenario says otherwise.\n",
      options.json);
  command->add_option("PREDICTED", options.predicted, "timeline of `penstock-sim simulate --timeline`")->required();
  command->add_option("MEASURED", options.measured, "timeline of `penstock-exec run --timeline`, or another prediction")
      ->required();
  command->add_option("--schedule", options.schedule, "the schedule that both ran")->type_name("FILE");
  command
      ->add_option("--scenario", options.scenario.scenario,
                   "the scenario, shown in the report; without --schedule its policy writes the schedule")
      ->type_name("FILE")
      ->transform(catalogue_file(CatalogueKind::scenario));
  command->add_option("--trace", options.trace, "write both as one Chrome trace, for Perfetto")->type_name("FILE");
  add_html(command, options.html);
  add_choice(command, options.scenario);
  command->callback([&] { chosen = [&] { return compare(options); }; });
}

void add_validate(CLI::App& program, ValidateOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(program, "validate", "Predict recorded runs anew and say how far off that is",
                                  "Examples:\n"
                                  "  penstock-sim validate scenarios/measured\n"
                                  "  penstock-sim validate scenarios/published\n"
                                  "Takes recordings (`penstock-exec run --record`) and scenarios with [published].\n",
                                  options.json);
  command->add_option("FOLDER", options.folder, "folder of recordings; those below it count too")
      ->transform(catalogue_subfolder())
      ->required();
  command
      ->add_option("--hardware", options.hardware,
                   "predict recordings from this hardware file instead of the profile that belongs to them")
      ->type_name("FILE")
      ->transform(catalogue_file(CatalogueKind::hardware));
  command->add_flag("--fits", options.fits, "say only which of the rows fit that were published as fitting")
      ->excludes("--hardware");
  command->add_flag("--all", options.all, "list every row of tables of published figures");
  command->callback([&] { chosen = [&] { return validate(options); }; });
}

void add_list(CLI::App& program, ListOptions& options, Chosen& chosen) {
  CLI::App* command =
      add_command(program, "list", "List presets, models, hardware, cards, hosts and scenarios",
                  "Examples:\n"
                  "  penstock-sim list presets\n"
                  "  penstock-sim list policy\n"
                  "  penstock-sim list hardware --from my/scenarios\n"
                  "The catalogue is ./scenarios, or what is installed with the program; its scenarios,\n"
                  "models and machines can be named from any folder: penstock-sim fit quickstart\n",
                  options.json);
  command
      ->add_option("WHAT", options.what,
                   "presets, models, hardware, cards, hosts or scenarios, all if left out; or policy: what [policy] "
                   "can say")
      ->check(one_of({"presets", "models", "hardware", "cards", "hosts", "scenarios", "policy"}));
  command->add_option("--from", options.folder, "folder of scenarios, with models/ and hardware/ in it")
      ->type_name("FOLDER");
  command->callback([&] { chosen = [&] { return list(options); }; });
}

int run(int argc, char** argv) {
  CLI::App program{"Predict how fast a language model trains on a machine, before buying or renting it.",
                   "penstock-sim"};
  program.footer(
      "Start with:\n"
      "  penstock-sim list scenarios\n"
      "  penstock-sim fit scenarios/quickstart.toml\n"
      "  penstock-sim simulate scenarios/quickstart.toml\n"
      "`penstock-sim COMMAND --help` has more examples. Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 does not "
      "fit.\n");
  program.set_version_flag("--version", "penstock-sim " PENSTOCK_VERSION);
  FitOptions fit_options;
  SimulateCommandOptions simulate_options;
  PlanOptions plan_options;
  SearchCommandOptions search_options;
  SweepOptions sweep_options;
  ShopOptions shop_options;
  CheckOptions check_options;
  CompareOptions compare_options;
  ValidateOptions validate_options;
  ListOptions list_options;
  Chosen chosen;
  add_fit(program, fit_options, chosen);
  add_simulate(program, simulate_options, chosen);
  add_plan(program, plan_options, chosen);
  add_search(program, search_options, chosen);
  add_sweep(program, sweep_options, chosen);
  add_shop(program, shop_options, chosen);
  add_check(program, check_options, chosen);
  add_compare(program, compare_options, chosen);
  add_validate(program, validate_options, chosen);
  add_list(program, list_options, chosen);
  return run_chosen(program, argc, argv, chosen);
}

}  // namespace

int main(int argc, char** argv) {
  return penstock::exit_code(argc, argv, "penstock-sim", [&] { return run(argc, argv); });
}
