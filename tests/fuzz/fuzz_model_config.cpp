// config.json: whatever is accepted can be laid out, and the counts add up.
#include "shared/error.h"
#include "shared/model/config_json.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  try {
    const Model model = make_model(read_model_config(folder.write("config.json", as_text(data, size))));
    std::int64_t parameters = 0;
    for (const Layer& layer : model.layers) {
      parameters += layer.parameters;
      if (layer.parameters <= 0 || layer.state_elements < layer.parameters) std::abort();
      if (layer.gradient_elements < layer.state_elements) std::abort();
    }
    if (parameters != model.parameters) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
