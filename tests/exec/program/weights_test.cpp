// Weights that somebody downloaded: trained from as they are meant, or refused before anything is trained.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <functional>

#include "tests/exec/checkpoint/published_files.h"
#include "tests/exec/program/program_fixture.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

/// In the folder: a model of the name "tiny", its config.json and its weights, and a scenario of it.
class WeightsTest : public ProgramTest {
 protected:
  WeightsTest() {
    config_.vocabulary = 256;
    write_config("llama", false);
    std::string scenario = kScenario;
    scenario.replace(scenario.find("model.json"), 10, "tiny/config.json");
    scenario.replace(scenario.find("\"penstock\""), 10, "\"megatrain\"");
    folder_.write("w.toml", scenario + "[init]\nweights = \"tiny\"\n");
  }
  void write_config(const char* type, bool tied) const {
    const nlohmann::json config = {{"model_type", type},
                                   {"hidden_size", config_.hidden},
                                   {"intermediate_size", config_.intermediate},
                                   {"num_hidden_layers", config_.decoder_layers},
                                   {"num_attention_heads", config_.heads},
                                   {"num_key_value_heads", config_.kv_heads},
                                   {"vocab_size", config_.vocabulary},
                                   {"max_position_embeddings", config_.max_positions},
                                   {"tie_word_embeddings", tied}};
    folder_.write("tiny/config.json", config.dump());
  }
  PublishedTensors tensors() const { return published_tensors(make_model(config_)); }
  /// Trains from one file with these tensors.
  nlohmann::json trained(const PublishedTensors& all) const {
    folder_.write("one.safetensors", safetensors_text(all));
    return json("run w.toml --json --steps 2 --set init.weights=one.safetensors")["steps"];
  }
  /// Refused with 2, in one line, without having written or trained anything.
  void expect_refused(const std::function<void(PublishedTensors&)>& change, const std::string& says) const {
    PublishedTensors changed = tensors();
    change(changed);
    folder_.write("tiny/model.safetensors", safetensors_text(changed));
    const Outcome outcome = run("run w.toml --save saved");
    EXPECT_EQ(outcome.code, 2);
    EXPECT_MENTIONS(outcome.err, (folder_.path() / "tiny/model.safetensors").filename().string() + ": " + says);
    EXPECT_EQ(outcome.out.find("step     1"), std::string::npos) << outcome.out;
    EXPECT_FALSE(fs::exists(folder_.path() / "saved"));
  }

  ModelConfig config_ = published_config();
};

TEST_F(WeightsTest, AreTrainedFromAndSaid) {
  folder_.write("tiny/model.safetensors", safetensors_text(tensors()));
  folder_.write("tiny/pytorch_model.bin", "the same, pickled");
  const Outcome outcome = run("run w.toml --steps 1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_MENTIONS(outcome.out, ": tiny with ");
  EXPECT_MENTIONS(outcome.out, "tiny/model.safetensors; not read: pytorch_model.bin\n");
  const nlohmann::json result = json("run w.toml --steps 2 --json");
  EXPECT_TRUE(result["weights"].get<std::string>().ends_with("; not read: pytorch_model.bin"));
  EXPECT_EQ(result["steps"], trained(tensors()));
  EXPECT_FALSE(json("run s.toml --steps 1 --json").contains("weights"));
}

TEST_F(WeightsTest, AnIndexDecidesWhichOfTwoIsTrainedFrom) {
  const PublishedTensors one = tensors();
  PublishedTensors other = one, mixed = one;
  for (auto& [name, tensor] : other) {
    std::vector<float> values = some_values(name + " of the other", static_cast<std::int64_t>(tensor.data.size() / 4));
    tensor.data = bytes_of(values);
  }
  nlohmann::json map;
  for (const auto& [name, tensor] : one) {
    const bool from_other = name.find("embed_tokens") != std::string::npos || name == "lm_head.weight";
    map[name] = from_other ? "b.safetensors" : "a.safetensors";
    if (from_other) mixed[name] = other[name];
  }
  folder_.write("tiny/a.safetensors", safetensors_text(one));
  folder_.write("tiny/b.safetensors", safetensors_text(other));
  folder_.write("tiny/model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  const nlohmann::json result = json("run w.toml --steps 2 --json");
  EXPECT_EQ(result["steps"], trained(mixed));
  EXPECT_NE(result["steps"], trained(one));
  EXPECT_NE(result["steps"], trained(other));
  EXPECT_MENTIONS(result["weights"].get<std::string>(), "21 of them stand in more than one file");
}

TEST_F(WeightsTest, AreRefusedWhereTheyAreAnotherModels) {
  expect_refused(
      [](PublishedTensors& all) {
        for (auto& [name, tensor] : all)
          if (name.find(".mlp.") != std::string::npos) std::swap(tensor.shape[0], tensor.shape[1]);
      },
      "model.layers.0.mlp.gate_proj.weight has shape [16, 40], tiny needs [40, 16]");
  expect_refused(
      [](PublishedTensors& all) {
        for (int i = 0; i < 2; ++i)
          for (const auto& [part, size] : {std::pair{"q", 16}, std::pair{"k", 8}, std::pair{"v", 8}})
            all[fmt::format("model.layers.{}.self_attn.{}_proj.bias", i, part)] = zeros("F32", {size}, 4);
      },
      "of its 27 tensors tiny (llama) would not use 6: model.layers.0.self_attn.k_proj.bias, ");
  expect_refused(
      [](PublishedTensors& all) {
        for (auto& [name, tensor] : all) tensor = zeros("F64", tensor.shape, 8);
      },
      "model.embed_tokens.weight is stored as F64 (20 more in this or another that cannot be read); tiny needs F32, "
      "BF16 "
      "or F16");
  expect_refused(
      [](PublishedTensors& all) {
        std::vector<float> values = some_values("x", 16);
        values[3] = NAN;
        all["model.layers.1.post_attention_layernorm.weight"] = f32_tensor({16}, values);
      },
      "model.layers.1.post_attention_layernorm.weight[3] is nan, not a finite number");
  write_config("llama", true);
  expect_refused([](PublishedTensors&) {}, "lm_head.weight differs from model.embed_tokens.weight at [0, 0]");
}

TEST_F(WeightsTest, NothingHangsOnAPipe) {
  const fs::path pipe = folder_.path() / "tiny/model.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error("run w.toml", 2, "model.safetensors: is not a regular file");
  expect_error("run w.toml --set init.weights=tiny/model.safetensors", 2, "model.safetensors: is not a regular file");
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "run.json"}) {
    EXPECT_EQ(run("run s.toml --steps 1 --save c").code, 0);
    fs::remove(folder_.path() / "c" / file);
    ASSERT_EQ(::mkfifo((folder_.path() / "c" / file).c_str(), 0600), 0);
    expect_error("run s.toml --steps 1 --resume c", 2, std::string(file) + ": is not a regular file");
    fs::remove_all(folder_.path() / "c");
  }
}

/// What the header of `file` becomes under `change`, with the data as they are.
void rewrite_header(const fs::path& file, const std::function<void(nlohmann::json&)>& change) {
  const std::string text = file_text(file);
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  nlohmann::json header = nlohmann::json::parse(text.substr(8, length));
  header.erase("__metadata__");
  change(header);
  std::ofstream(file, std::ios::binary) << safetensors_text(header.dump(), text.substr(8 + length));
}

TEST_F(WeightsTest, OfASavedModelAreHeldToTheirShapesAndPlaces) {
  ASSERT_EQ(run("run w.toml --steps 1 --set init.weights=random.safetensors").code, 2);  // no such file
  folder_.write("tiny/model.safetensors", safetensors_text(tensors()));
  ASSERT_EQ(run("run w.toml --steps 1 --save c").code, 0);
  const fs::path saved = folder_.path() / "c/model.safetensors";
  EXPECT_EQ(run("run w.toml --steps 1 --set init.weights=c").code, 0);
  const fs::path kept = folder_.path() / "kept.safetensors";
  fs::copy_file(saved, kept);
  rewrite_header(saved, [](nlohmann::json& header) {
    nlohmann::json& shape = header["model.layers.0.mlp.gate_proj.weight"]["shape"];
    shape = {shape[1], shape[0]};
  });
  expect_error("run w.toml --set init.weights=c", 2, "gate_proj.weight has shape [16, 40], tiny needs [40, 16]");
  fs::copy_file(kept, saved, fs::copy_options::overwrite_existing);
  rewrite_header(saved, [](nlohmann::json& header) {
    for (auto& [name, tensor] : header.items())
      tensor["data_offsets"] = {0, tensor["data_offsets"][1].get<int>() - tensor["data_offsets"][0].get<int>()};
  });
  expect_error("run w.toml --set init.weights=c", 2, " overlap: ");
}

}  // namespace
}  // namespace penstock::exec
