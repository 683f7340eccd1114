// Safetensors: whatever is accepted names tensors that can be read whole, inside the file.
#include <span>
#include <vector>

#include "exec/checkpoint/safetensors.h"
#include "shared/error.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  try {
    const exec::SafetensorsFile file(folder.write("weights.safetensors", as_text(data, size)));
    for (const std::string& name : file.names())
      for (const std::int64_t elements : {std::int64_t{2}, std::int64_t{6}}) {
        std::vector<float> values(static_cast<std::size_t>(elements));
        try {
          file.read(name, elements, 0, std::span(values));
        } catch (const InputError&) {
          // It has another number of elements.
        }
      }
  } catch (const InputError&) {
  }
  return 0;
}
