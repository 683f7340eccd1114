// An index of weights: where it is accepted, every tensor is read from the file that it names.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/checkpoint/state_source.h"
#include "exec/checkpoint/weight_files.h"
#include "shared/error.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/fuzz/input_file.h"

namespace {

using namespace penstock;

/// One more in each element.
exec::PublishedTensors raised(exec::PublishedTensors tensors) {
  for (auto& [name, tensor] : tensors) {
    std::vector<float> values(tensor.data.size() / 4);
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    for (float& value : values) value += 1;
    tensor.data = exec::bytes_of(values);
  }
  return tensors;
}

/// Every tensor of the model stands in both files that the seeds name, as other numbers.
struct Files {
  InputFolder folder;
  Model model = make_model(exec::published_config());
  Files() {
    const exec::PublishedTensors tensors = exec::published_tensors(model);
    folder.write("a.safetensors", exec::safetensors_text(tensors));
    folder.write("b.safetensors", exec::safetensors_text(raised(tensors)));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  const std::filesystem::path path = files.folder.write("model.safetensors.index.json", as_text(data, size));
  try {
    exec::WeightFiles(path).describe();
  } catch (const InputError&) {
  }
  try {
    const auto states = exec::published_states(path, files.model);
    const nlohmann::json map = nlohmann::json::parse(as_text(data, size))["weight_map"];
    for (const Layer& layer : files.model.layers)
      for (const ParameterTensor& tensor : layer.tensors) {
        float value = 0;
        states->read(tensor, exec::StatePart::master, 0, std::span(&value, 1));
        const float is_raised = map[tensor.name] == "b.safetensors" ? 1.0f : 0.0f;
        if (value != exec::some_values(tensor.name, 1)[0] + is_raised) std::abort();
      }
  } catch (const InputError&) {
  }
  return 0;
}
