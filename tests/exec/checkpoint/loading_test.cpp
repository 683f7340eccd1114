// Published weights into the states: every value as it stands in its file, and never a second copy of all.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "exec/checkpoint/safetensors.h"
#include "exec/checkpoint/states.h"
#include "shared/random.h"
#include "tests/allocated_bytes.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/exec/runtime/small_run.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

/// Finite numbers of any size, subnormal ones too, no two of whose tensors are alike.
std::vector<float> any_values(const std::string& name, std::int64_t count) {
  std::vector<float> values;
  std::uint64_t state = name.size() + 31 * static_cast<unsigned char>(name[name.size() / 2]);
  while (static_cast<std::int64_t>(values.size()) < count) {
    state = mix64(state + 1);
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(state));
    if (std::isfinite(value) && std::abs(value) < 3e38f) values.push_back(value);
  }
  return values;
}

PublishedTensor f16_tensor(const std::vector<std::int64_t>& shape, const std::vector<float>& values,
                           std::vector<float>& widened) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) {
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 3 & 0xFBFF);  // finite
    halves.push_back(bits);
    widened.push_back(widen_f16(bits));
  }
  return {"F16", shape, bytes_of(halves)};
}

/// Tensors dealt to `count` files in turn, with an index.
void write_shards(const TemporaryFolder& folder, const PublishedTensors& tensors, int count) {
  std::vector<PublishedTensors> shards(static_cast<std::size_t>(count));
  nlohmann::json map;
  std::size_t next = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t shard = next++ % shards.size();
    shards[shard][name] = tensor;
    map[name] = "shard-" + std::to_string(shard) + ".safetensors";
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    folder.write("shard-" + std::to_string(i) + ".safetensors", safetensors_text(shards[i]));
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
}

TEST(LoadPublished, KeepsEveryValueOfFp32Fp16AndBf16InTheMaster) {
  SmallRun run(small::input(make_model(published_config()), "penstock"));
  const TemporaryFolder folder;
  PublishedTensors tensors;
  std::map<std::string, std::vector<float>> expected;
  int number = 0;
  for (const Layer& layer : run.model().layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      std::vector<float> values = any_values(tensor.name, tensor.elements());
      switch (number++ % 3) {
        case 0: tensors[tensor.name] = f32_tensor(stored_shape(tensor), values); break;
        case 1: {
          std::vector<float> widened;
          tensors[tensor.name] = f16_tensor(stored_shape(tensor), values, widened);
          values = widened;
          break;
        }
        default:
          tensors[tensor.name] = bf16_tensor(stored_shape(tensor), values);
          for (float& value : values) value = widen_bf16(round_to_bf16(value));
      }
      expected[tensor.name] = values;
    }
  write_shards(folder, tensors, 3);
  run.training().load(*published_states(folder.path(), run.model()));
  const StateReader states = run.training().states();
  for (const Layer& layer : run.model().layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      std::vector<float> master(static_cast<std::size_t>(tensor.elements())), moment(master.size(), 1.0f);
      states.read(tensor, StatePart::master, 0, master);
      const std::vector<float>& values = expected[tensor.name];
      for (std::size_t i = 0; i < master.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(master[i]), std::bit_cast<std::uint32_t>(values[i]))
            << tensor.name << " " << i;
      states.read(tensor, StatePart::moment_v, 0, moment);
      EXPECT_EQ(moment, std::vector<float>(moment.size(), 0.0f));
    }
}

TEST(LoadPublished, TakesPiecesBesideTheStatesAndNoCopyOfAFile) {
  ModelConfig config = published_config();
  config.vocabulary = 500'000;
  SmallRun run(small::input(make_model(config), "penstock"));
  const TemporaryFolder folder;
  write_shards(folder, published_tensors(run.model()), 2);
  const std::int64_t file_bytes = 4 * run.model().parameters / 2;
  ASSERT_GT(file_bytes, 30'000'000);
  const AllocatedBytes allocated;
  run.training().load(*published_states(folder.path(), run.model()));
  // 2^20 elements at a time on each core: as the file has them, in fp32, in halves.
  const std::int64_t pieces = std::max(1u, std::thread::hardware_concurrency()) * (std::int64_t{10} << 20);
  EXPECT_LT(allocated.peak(), pieces + (4 << 20));
}

}  // namespace
}  // namespace penstock::exec
