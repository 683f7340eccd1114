// Writes safetensors files as they come from elsewhere: right, or wrong in one way.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exec/checkpoint/state_source.h"
#include "exec/numerics/bf16.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// A file of the given header and data bytes.
inline std::string safetensors_text(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

struct PublishedTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};
using PublishedTensors = std::map<std::string, PublishedTensor>;

inline std::string safetensors_text(const PublishedTensors& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  return safetensors_text(header.dump(), data);
}

template <class Element>
std::string bytes_of(const std::vector<Element>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Element)};
}

inline PublishedTensor f32_tensor(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  return {"F32", std::move(shape), bytes_of(values)};
}

/// `values` in the upper halves of their patterns.
inline PublishedTensor bf16_tensor(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(round_to_bf16(value));
  return {"BF16", std::move(shape), bytes_of(halves)};
}

/// Zeros in any dtype.
inline PublishedTensor zeros(const std::string& dtype, std::vector<std::int64_t> shape, std::int64_t element_bytes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return {dtype, std::move(shape), std::string(static_cast<std::size_t>(elements * element_bytes), '\0')};
}

/// Small numbers, other ones in each tensor, exact in bf16.
inline std::vector<float> some_values(const std::string& name, std::int64_t count) {
  std::vector<float> values;
  const auto start = static_cast<std::int64_t>(name.size() * 7 + static_cast<unsigned char>(name[name.size() / 2]));
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((start + 5 * i) % 255 - 127) / 1024);
  return values;
}

/// All that the model needs, as F32.
inline PublishedTensors published_tensors(const Model& model) {
  PublishedTensors tensors;
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors)
      tensors[tensor.name] = f32_tensor(stored_shape(tensor), some_values(tensor.name, tensor.elements()));
  return tensors;
}

/// The same under names that `rename` gives.
template <class Rename>
PublishedTensors renamed(const PublishedTensors& tensors, const Rename& rename) {
  PublishedTensors result;
  for (const auto& [name, tensor] : tensors) result[rename(name)] = tensor;
  return result;
}

/// A model with another number in each place: 2 layers, 2 heads of 8 over 1, 16 wide, 40 in the MLP, 32 tokens.
inline ModelConfig published_config(const char* name = "my-model") {
  ModelConfig config;
  config.name = name;
  config.hidden = 16;
  config.intermediate = 40;
  config.decoder_layers = 2;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 8;
  config.vocabulary = 32;
  config.max_positions = 512;
  return config;
}

}  // namespace penstock::exec
