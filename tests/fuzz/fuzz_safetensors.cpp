// Safetensors: what is accepted names tensors that lie one behind the other, fill the file and can be read whole; what
// is taken for a model's weights has its shapes.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "exec/checkpoint/safetensors.h"
#include "exec/checkpoint/state_source.h"
#include "shared/error.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/fuzz/input_file.h"

namespace {

using namespace penstock;

/// What the seed model.safetensors holds.
Model seed_model() {
  ModelConfig config;
  config.name = "seed";
  config.hidden = 2;
  config.intermediate = 3;
  config.decoder_layers = 1;
  config.heads = config.kv_heads = 1;
  config.head_dim = 2;
  config.vocabulary = 4;
  config.max_positions = 8;
  return make_model(config);
}

void check_layout(const exec::SafetensorsFile& file, std::size_t file_bytes) {
  std::int64_t last = 0, bytes = 0, first = static_cast<std::int64_t>(file_bytes);
  for (const auto& [name, tensor] : file.tensors()) {
    const auto elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    if (elements != tensor.elements) std::abort();
    first = std::min(first, tensor.offset);
    last = std::max(last, tensor.offset + tensor.bytes);
    bytes += tensor.bytes;
    if (!tensor.type) continue;
    if (tensor.bytes != elements * exec::stored_bytes(*tensor.type)) std::abort();
    std::vector<float> values(static_cast<std::size_t>(elements));
    file.read(name, 0, std::span(values));
  }
  if (!file.tensors().empty() && (last != static_cast<std::int64_t>(file_bytes) || bytes != last - first)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const InputFolder folder;
  static const Model model = seed_model();
  const std::filesystem::path path = folder.write("weights.safetensors", as_text(data, size));
  try {
    check_layout(exec::SafetensorsFile(path), size);
  } catch (const InputError&) {
  }
  try {
    const auto states = exec::published_states(path, model);
    const exec::SafetensorsFile file(path);
    std::vector<float> values;
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors) {
        if (file.find(tensor.name) != nullptr && file.find(tensor.name)->shape != exec::stored_shape(tensor))
          std::abort();
        values.resize(static_cast<std::size_t>(tensor.elements()));
        states->read(tensor, exec::StatePart::master, 0, values);
      }
  } catch (const InputError&) {
  }
  return 0;
}
