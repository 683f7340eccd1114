// For files that we write as well: whatever is accepted can be written, and reads back as the same text.
#pragma once

#include "shared/error.h"
#include "shared/files.h"
#include "tests/fuzz/input_file.h"

namespace penstock {

/// `read(path)` gives what `write(value, path)` takes. False if the text is refused; aborts if it comes back another.
template <class Read, class Write>
bool round_trips(const InputFolder& folder, std::string_view text, const Read& read, const Write& write) {
  constexpr std::int64_t kMaxBytes = 32 << 20;
  const auto first = folder.path() / "first.json", second = folder.path() / "second.json";
  try {
    write(read(folder.write("input.json", text)), first);
  } catch (const InputError&) {
    return false;
  }
  write(read(first), second);
  if (read_text_file(first, kMaxBytes) != read_text_file(second, kMaxBytes)) std::abort();
  return true;
}

}  // namespace penstock
