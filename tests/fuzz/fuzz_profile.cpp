// Profile JSON: what is accepted is written as it was read, and a step on it takes a time.
#include "shared/machine/profile.h"
#include "tests/fuzz/round_trip.h"
#include "tests/fuzz/step_on.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  if (round_trips(folder, as_text(data, size), read_profile_file, write_profile_file))
    check_step_on(read_profile(folder.path() / "first.json"));
  return 0;
}
