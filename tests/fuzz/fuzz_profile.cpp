// Profile JSON.
#include "shared/machine/profile.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  round_trips(folder, as_text(data, size), read_profile_file, write_profile_file);
  return 0;
}
