// penstock-exec: parses options and calls the commands of exec/program. Exceptions end here.
#include "exec/program/commands.h"
#include "shared/command_line.h"

namespace {

using namespace penstock;
using namespace penstock::exec;

void add_backend(CLI::App* command, std::string& backend) {
  command->add_option("--backend", backend, "host, cuda or auto; as the scenario says if left out")
      ->check(one_of({"host", "cuda", "auto"}));
}

void add_run(CLI::App& program, RunCommandOptions& options, Chosen& chosen) {
  CLI::App* command =
      add_command(program, "run", "Train: execute the schedule of a scenario, step after step",
                  "Examples:\n"
                  "  penstock-exec run scenarios/quickstart.toml\n"
                  "  penstock-exec run scenarios/quickstart.toml --steps 100 --save checkpoint\n"
                  "  penstock-exec run scenarios/quickstart.toml --steps 100 --resume checkpoint --save checkpoint\n"
                  "  penstock-exec run scenarios/quickstart.toml --schedule schedule.json --timeline measured.json\n"
                  "  penstock-exec run scenarios/quickstart.toml --profile profile.json --compare compared\n"
                  "  penstock-exec run scenarios/qwen2.5-7b-h200.toml --hbm-limit 24GiB --set policy.group=4\n"
                  "Ctrl-C ends after the current step, applies what is outstanding, saves if --save was given; a "
                  "second one says\nwhat ending at once would lose, a third one ends.\n"
                  "Exits with 3 if it does not fit, before anything is started.\n",
                  options.json);
  add_scenario(command, options.scenario.scenario);
  add_profile(command, options.scenario.profile);
  add_overrides(command, options.scenario.overrides);
  command
      ->add_option("--schedule", options.schedule,
                   "a schedule as `penstock-sim plan` writes it, instead of the policy's own")
      ->type_name("FILE");
  command->add_option("--steps", options.steps, "optimizer steps of this run, instead of the scenario's")
      ->check(CLI::Range(1, 1'000'000'000));
  command
      ->add_option("--timeline", options.timeline,
                   "write when each op started and ended; without --schedule also the schedule beside it")
      ->type_name("FILE");
  command
      ->add_option("--record", options.record,
                   "write what was measured, small enough to keep, for `penstock-sim validate`; needs a profile")
      ->type_name("FILE");
  command
      ->add_option(
          "--compare", options.compare,
          "predict this run on its machine, compare, and leave predicted.json, measured.json, comparison.json, "
          "schedule.json and report.html in this folder")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--save", options.save,
          "write a checkpoint to this folder at the end; with [checkpoint] every also after so many steps, each to "
          "FOLDER/step-N")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--export", options.export_to,
          "write the trained model to this new folder at the end, as transformers takes it: weights, config.json and "
          "tokenizer")
      ->type_name("FOLDER");
  command
      ->add_option("--dump", options.dump,
                   "write tokens, losses and the last step's gradients to this folder, for scripts/h200/reference.py")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--resume", options.resume,
          "go on from this checkpoint; auto: from the newest whole one of the folder that is saved to, or from "
          "the start, to the scenario's last step")
      ->type_name("FOLDER");
  command
      ->add_option("--allow-changed", options.allow_changed,
                   "with --resume: what may differ from the checkpoint's run, as learning_rate; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
  add_backend(command, options.backend);
  command->add_option("--hbm-limit", options.hbm_limit, "use no more GPU memory than this, context and all, as 24GiB")
      ->type_name("SIZE");
  command
      ->add_option("--watchdog", options.watchdog_seconds,
                   "abort if nothing completes for so many seconds, 0 = never; by default "
                   "120, or 10 times what the longest op should take")
      ->check(CLI::Range(0.0, 1e9))
      ->check(refuse_nan);
  command->callback([&] { chosen = [&] { return run_command(options); }; });
}

void add_calibrate(CLI::App& program, CalibrateCommandOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(program, "calibrate", "Measure this machine into a profile, for a scenario's model",
                                  "Examples:\n"
                                  "  penstock-exec calibrate scenarios/quickstart.toml -o profile.json\n"
                                  "  penstock-sim simulate scenarios/quickstart.toml --profile profile.json\n"
                                  "  penstock-exec calibrate a.toml b.toml -o profile.json --backend cuda\n"
                                  "  penstock-exec calibrate a.toml -o profile.json --nvme /mnt/drive\n"
                                  "  penstock-exec calibrate --profile profile.json -o now.json --nvme /mnt/drive\n"
                                  "Microbenchmarks only: no training step is run.\n",
                                  options.json);
  command
      ->add_option(
          "SCENARIO", options.scenarios,
          "scenario files (TOML) or names of the catalogue: which shapes to measure; with --backend cuda several")
      ->transform(catalogue_file(CatalogueKind::scenario));
  command->add_option("-o,--output", options.output, "profile to write")->type_name("FILE")->required();
  command
      ->add_option("--nvme", options.nvme,
                   "also measure the drive with this folder, by a file of at most 32 GiB that leaves nothing behind")
      ->type_name("FOLDER");
  command
      ->add_option("--profile", options.profile,
                   "instead of a scenario: measure only the drive (--nvme) and keep all else of this profile")
      ->type_name("FILE");
  add_overrides(command, options.overrides);
  add_backend(command, options.backend);
  command->callback([&] { chosen = [&] { return calibrate_command(options); }; });
}

void add_export(CLI::App& program, ExportCommandOptions& options, Chosen& chosen) {
  CLI::App* command =
      add_command(program, "export", "Write a checkpoint as a folder that transformers takes",
                  "Examples:\n"
                  "  penstock-exec export checkpoint --to tuned --like Qwen2.5-7B-Instruct\n"
                  "  penstock-exec export checkpoint --to tuned --like Qwen2.5-7B-Instruct --type fp32 --shard 2GB\n"
                  "The folder must be new; nothing is written over.\n",
                  options.json);
  command
      ->add_option("CHECKPOINT", options.checkpoint,
                   "what `run --save` wrote; of a run that saves every so many steps also the folder of all, of which "
                   "the newest is taken")
      ->required();
  command->add_option("--to", options.to, "a new folder")->type_name("FOLDER")->required();
  command
      ->add_option(
          "--like", options.like,
          "the folder that the training started from: its config.json, tokenizer and chat templates are copied")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--type", options.type, "bf16 (rounded to nearest even) or fp32; bf16 if left out")
      ->check(one_of({"bf16", "fp32"}));
  command->add_option("--shard", options.shard, "most bytes of tensors in one file; 5 GB if left out")
      ->type_name("SIZE");
  command->callback([&] { chosen = [&] { return export_command(options); }; });
}

void add_devices(CLI::App& program, DevicesCommandOptions& options, Chosen& chosen) {
  CLI::App* command = add_command(program, "devices", "Say which backends can be used here, and what is missing",
                                  "Example:\n"
                                  "  penstock-exec devices\n",
                                  options.json);
  command->callback([&] { chosen = [&] { return devices_command(options); }; });
}

int run(int argc, char** argv) {
  CLI::App program{"Train language models larger than the GPU, by the schedule that penstock-sim predicts.",
                   "penstock-exec"};
  program.footer(
      "Start with:\n"
      "  penstock-exec devices\n"
      "  penstock-exec run scenarios/quickstart.toml\n"
      "`penstock-exec COMMAND --help` has more examples. Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 does "
      "not "
      "fit.\n");
  program.set_version_flag("--version", "penstock-exec " PENSTOCK_VERSION);
  RunCommandOptions run_options;
  CalibrateCommandOptions calibrate_options;
  ExportCommandOptions export_command_options;
  DevicesCommandOptions devices_options;
  Chosen chosen;
  add_run(program, run_options, chosen);
  add_calibrate(program, calibrate_options, chosen);
  add_export(program, export_command_options, chosen);
  add_devices(program, devices_options, chosen);
  return run_chosen(program, argc, argv, chosen);
}

}  // namespace

int main(int argc, char** argv) {
  return penstock::exit_code(argc, argv, "penstock-exec", [&] { return run(argc, argv); });
}
