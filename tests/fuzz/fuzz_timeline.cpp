// Timeline JSON.
#include "shared/timeline/timeline.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  round_trips(folder, as_text(data, size), read_timeline, write_timeline);
  return 0;
}
