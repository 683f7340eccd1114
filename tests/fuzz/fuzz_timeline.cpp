// Timeline JSON: whatever is accepted can be written, and reads back as the same text.
#include "shared/error.h"
#include "shared/files.h"
#include "shared/timeline/timeline.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  Timeline timeline;
  try {
    timeline = read_timeline(folder.write("timeline.json", as_text(data, size)));
  } catch (const InputError&) {
    return 0;
  }
  constexpr std::int64_t kMaxBytes = 32 << 20;
  const auto first = folder.path() / "first.json", second = folder.path() / "second.json";
  write_timeline(timeline, first);
  write_timeline(read_timeline(first), second);
  if (read_text_file(first, kMaxBytes) != read_text_file(second, kMaxBytes)) std::abort();
  return 0;
}
