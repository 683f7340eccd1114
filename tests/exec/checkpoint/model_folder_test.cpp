// What other programs get: tensors under their names, in their type, in files that an index describes, with the files of
// the model that the training started from; whole or not at all.
#include "exec/checkpoint/model_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "exec/checkpoint/weight_files.h"
#include "shared/error.h"
#include "tests/exec/checkpoint/faulty_calls.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.insert(fs::relative(entry.path(), folder).string());
  return names;
}

/// 1 + index / 2^11 at the beginning of each tensor: one in 16 is a bf16 value, and one halfway between two.
class Ramp : public StateSource {
 public:
  void read(const ParameterTensor&, StatePart, std::int64_t first, std::span<float> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = bad == first + static_cast<std::int64_t>(i)
                   ? value
                   : std::bit_cast<float>(0x3F800000u + 0x1000u * static_cast<std::uint32_t>(first + i));
  }
  std::int64_t bad = -1;
  float value = NAN;
};

class ModelFolderTest : public testing::Test {
 protected:
  ModelFolderTest() {
    config_.vocabulary = 256;
    write_config("float16");
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "LICENSE",
                             "spiece.model", "additional_chat_templates/tools.jinja"})
      folder_.write(std::string("base/") + name, std::string("of ") + name);
    folder_.write("base/README.md", "a card");
    folder_.write("base/model.safetensors", "weights, which are not read here");
    folder_.write("base/.gitattributes", "hidden");
  }
  nlohmann::ordered_json config_json() const {
    return {{"model_type", "llama"},
            {"hidden_size", config_.hidden},
            {"intermediate_size", config_.intermediate},
            {"num_hidden_layers", config_.decoder_layers},
            {"num_attention_heads", config_.heads},
            {"num_key_value_heads", config_.kv_heads},
            {"vocab_size", config_.vocabulary},
            {"max_position_embeddings", config_.max_positions},
            {"tie_word_embeddings", config_.tied_embeddings},
            {"a_key_of_its_own", {1, 2}}};
  }
  void write_config(const char* dtype) {
    nlohmann::ordered_json config = config_json();
    config["torch_dtype"] = dtype;
    folder_.write("base/config.json", config.dump());
  }
  ModelFolderOptions options() const { return {place(), folder_.path() / "base"}; }
  void write(ModelFolderOptions options, FileCalls& calls = system_calls(), const Ramp& states = {}) {
    model_ = make_model(config_);
    ModelFolder(std::move(options), model_, calls).write(states);
  }
  std::string failure(const ModelFolderOptions& options, FileCalls& calls = system_calls(), const Ramp& states = {}) {
    try {
      write(options, calls, states);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  fs::path place() const { return folder_.path() / "out"; }

  ModelConfig config_ = published_config();
  Model model_;
  TemporaryFolder folder_;
};

TEST_F(ModelFolderTest, HasEveryTensorRoundedToNearestEvenAndTheFilesOfTheModel) {
  write(options());
  EXPECT_EQ(names_in(place()),
            (std::set<std::string>{"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json",
                                   "generation_config.json", "LICENSE", "spiece.model", "additional_chat_templates",
                                   "additional_chat_templates/tools.jinja"}));
  EXPECT_EQ(read_file(place() / "tokenizer.json"), "of tokenizer.json");
  EXPECT_EQ(read_file(place() / "additional_chat_templates/tools.jinja"), "of additional_chat_templates/tools.jinja");
  nlohmann::ordered_json config = config_json();
  config["torch_dtype"] = "bfloat16";
  EXPECT_EQ(nlohmann::ordered_json::parse(read_file(place() / "config.json")), config);
  const SafetensorsFile file(place() / "model.safetensors");
  EXPECT_EQ(file.tensors().size(), 21u);
  EXPECT_EQ(file.find("lm_head.weight")->dtype, "BF16");
  EXPECT_EQ(file.find("lm_head.weight")->shape, (Shape{256, 16}));
  EXPECT_EQ(file.find("model.norm.weight")->shape, (Shape{16}));
  // A bf16 number between 1 and 2 is a multiple of 16 elements here: 8 lies halfway and goes to 0, whose pattern is
  // even, 24 to 32 and 40 to 32; 9 goes up.
  std::vector<float> values(64);
  file.read("model.layers.1.mlp.down_proj.weight", 0, values);
  const std::map<std::size_t, float> expected{{0, 0}, {7, 0}, {8, 0}, {9, 16}, {16, 16}, {24, 32}, {25, 32}, {40, 32}};
  for (const auto& [i, rounded] : expected) EXPECT_EQ((values[i] - 1.0f) * 2048.0f, rounded) << i;
}

TEST_F(ModelFolderTest, HasTheMasterItselfInFp32AndTheConfigAsItIs) {
  write_config("float32");
  ModelFolderOptions fp32 = options();
  fp32.type = StoredType::f32;
  write(fp32);
  EXPECT_EQ(read_file(place() / "config.json"), read_file(folder_.path() / "base/config.json"));
  std::vector<float> values(100), expected(100);
  SafetensorsFile(place() / "model.safetensors").read("model.embed_tokens.weight", 7, values);
  Ramp().read({}, StatePart::master, 7, expected);
  EXPECT_EQ(values, expected);
}

TEST_F(ModelFolderTest, IsCutIntoShardsThatTheIndexDescribes) {
  ModelFolderOptions sharded = options();
  sharded.shard_bytes = 4096;  // less than the embedding, 256 x 16 in bf16
  write(sharded);
  const auto index = nlohmann::json::parse(read_file(place() / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 2 * model_.parameters);
  EXPECT_EQ(index["weight_map"].size(), 21u);
  EXPECT_EQ(index["weight_map"]["model.embed_tokens.weight"], "model-00001-of-00006.safetensors");
  EXPECT_EQ(index["weight_map"]["lm_head.weight"], "model-00006-of-00006.safetensors");
  EXPECT_FALSE(fs::exists(place() / "model.safetensors"));
  for (int i = 2; i <= 5; ++i) {
    std::int64_t bytes = 0;
    const SafetensorsFile shard(place() / ("model-0000" + std::to_string(i) + "-of-00006.safetensors"));
    for (const auto& [name, tensor] : shard.tensors()) bytes += tensor.bytes;
    EXPECT_LE(bytes, 4096);
  }
  // What was written is read as any published model, to the value.
  const auto states = published_states(place(), model_);
  std::vector<float> values(16);
  states->read(model_.layers[1].tensors[0], StatePart::master, 0, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(WeightFiles(place()).tensors().size(), 21u);
}

TEST_F(ModelFolderTest, LeavesOutATiedHead) {
  config_.tied_embeddings = true;
  write_config("bfloat16");
  write(options());
  const SafetensorsFile file(place() / "model.safetensors");
  EXPECT_EQ(file.find("lm_head.weight"), nullptr);
  EXPECT_EQ(file.tensors().size(), 20u);
}

TEST_F(ModelFolderTest, IsRefusedWhereItWouldBeOfAnotherModelOrWriteOverSomething) {
  model_ = make_model(config_);
  nlohmann::ordered_json other = config_json();
  other["num_key_value_heads"] = 2;
  folder_.write("other/config.json", other.dump());
  EXPECT_MENTIONS(failure({place(), folder_.path() / "other"}),
                  "other/config.json: num_key_value_heads is 2, but of what was trained it is 1");
  EXPECT_MENTIONS(failure({place(), folder_.path() / "none"}), "none: cannot be opened: ");
  folder_.write("empty/x", "");
  EXPECT_MENTIONS(failure({place(), folder_.path() / "empty"}), "config.json");
  EXPECT_MENTIONS(failure({folder_.path() / "none/out", folder_.path() / "base"}), "does not exist");
  EXPECT_MENTIONS(failure({folder_.path() / "base", folder_.path() / "base"}), "is there already");
  ASSERT_EQ(::mkfifo((folder_.path() / "base/vocab.json").c_str(), 0600), 0);
  EXPECT_MENTIONS(failure(options()), "vocab.json: ");
  fs::remove(folder_.path() / "base/vocab.json");
  folder_.write("out.partial/mine", "");
  EXPECT_MENTIONS(failure(options()), "out.partial is in the way");
  EXPECT_TRUE(fs::exists(folder_.path() / "out.partial/mine"));
  fs::remove_all(folder_.path() / "out.partial");
  fs::create_directory(place());
  EXPECT_EQ(failure(options()), "");  // an empty folder is none
  EXPECT_MENTIONS(failure(options()), "out: cannot be exported to: it is there already");
}

TEST_F(ModelFolderTest, LeavesNothingWhereAValueCannotBeHeld) {
  Ramp states;
  states.bad = 5;
  EXPECT_MENTIONS(failure(options(), system_calls(), states), "[0, 5] is nan, not a finite number");
  states.value = std::bit_cast<float>(0x7F7FFFFFu);
  EXPECT_MENTIONS(failure(options(), system_calls(), states), "more than bf16 can hold");
  EXPECT_EQ(names_in(folder_.path()).count("out.partial"), 0u);
  EXPECT_FALSE(fs::exists(place()));
}

TEST_F(ModelFolderTest, NeedsRoom) {
  model_ = make_model(config_);
  FaultyCalls calls;
  ModelFolder folder(options(), model_, calls);
  EXPECT_NO_THROW(folder.require_room());
  calls.free = 2 * model_.parameters;
  EXPECT_THROW(folder.require_room(), DoesNotFit);
  calls.free = -1;
  calls.allocation = EDQUOT;
  EXPECT_THROW(folder.require_room(), DoesNotFit);
  EXPECT_EQ(names_in(folder_.path()).count("out.partial"), 0u);
}

TEST_F(ModelFolderTest, IsThereWholeOrNotAtAllWhicheverCallFails) {
  ModelFolderOptions sharded = options();
  sharded.shard_bytes = 16384;
  int failed = 0;
  for (int at = 0;; ++at) {
    FaultyCalls calls;
    calls.fail_at = at;
    calls.error = ENOSPC;
    const std::string text = failure(sharded, calls);
    const bool is_there = fs::exists(place());
    EXPECT_TRUE(!is_there || names_in(place()).size() == 11u) << at;
    if (calls.calls <= at) {
      EXPECT_EQ(text, "");
      break;
    }
    failed += text.empty() ? 0 : 1;
    for (const char* rest : {"out", "out.partial", "out.lock"}) fs::remove_all(folder_.path() / rest);
  }
  EXPECT_GT(failed, 40);
}

TEST_F(ModelFolderTest, WhatAKilledOneLeftIsTakenAway) {
  int kills = 0;
  for (int at = 0;; at += 7) {
    const ::pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FaultyCalls calls;
      calls.kill_at = at;
      failure(options(), calls);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (fs::exists(place())) {
      EXPECT_EQ(names_in(place()).size(), 9u) << at;
    } else {
      EXPECT_EQ(failure(options()), "") << at;
      EXPECT_EQ(names_in(place()).size(), 9u) << at;
    }
    EXPECT_FALSE(fs::exists(folder_.path() / "out.partial"));
    fs::remove_all(place());
    if (WIFEXITED(status)) break;
    ++kills;
  }
  EXPECT_GT(kills, 5);
}

}  // namespace
}  // namespace penstock::exec
