// Scenario TOML, beside the model and the machine that the seeds name.
#include "shared/error.h"
#include "shared/scenario/scenario.h"
#include "tests/fuzz/input_file.h"
#include "tests/source_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  static const bool prepared = [] {
    const std::filesystem::path scenarios = source_folder() / "scenarios";
    std::filesystem::copy_file(scenarios / "models/tiny-llama.json", folder.path() / "model.json");
    std::filesystem::copy_file(scenarios / "hardware/this-cpu.toml", folder.path() / "hardware.toml");
    return true;
  }();
  if (!prepared) std::abort();
  try {
    const Scenario scenario = read_scenario(folder.write("scenario.toml", as_text(data, size)));
    const PolicyInput input = scenario.policy_input();
    if (input.micro_batch <= 0 || input.sequences % input.micro_batch != 0 || input.library_bytes < 0) std::abort();
    if (scenario.run.steps < 1 || scenario.run.warmup_steps >= scenario.run.steps) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
