// Recordings, beside the model and the profile that the seed names: what is accepted also says which scenario ran, or
// refuses with a reason.
#include "shared/compare/recording.h"
#include "tests/fuzz/round_trip.h"
#include "tests/source_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  static const bool prepared = [] {
    const std::filesystem::path source = source_folder();
    std::filesystem::copy_file(source / "scenarios/models/tiny-llama.json", folder.path() / "model.json");
    std::filesystem::copy_file(source / "tests/fuzz/seeds/profile/small.json", folder.path() / "profile.json");
    return true;
  }();
  if (!prepared || !round_trips(folder, as_text(data, size), read_recording, write_recording)) return 0;
  try {
    const std::filesystem::path file = folder.path() / "first.json";
    const Scenario scenario = recorded_scenario(read_recording(file), file);
    if (!scenario.machine.measured || scenario.micro_batch <= 0) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
