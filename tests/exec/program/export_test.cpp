// The way out of a training: a folder that other programs load, at the end of a run or of a checkpoint.
#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/safetensors.h"
#include "shared/model/config_json.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/exec/program/program_fixture.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

/// In the folder: "base", a published model with a tokenizer, and a scenario that starts from it.
class ExportTest : public ProgramTest {
 protected:
  ExportTest() {
    fs::create_directories(folder_.path() / "base");
    fs::copy_file(folder_.path() / "model.json", folder_.path() / "base/config.json");
    folder_.write("base/tokenizer.json", "a tokenizer");
    std::string scenario = kScenario;
    scenario.replace(scenario.find("model.json"), 10, "base/config.json");
    folder_.write("w.toml", scenario + "[init]\nweights = \"base\"\n");
    model_ = make_model(read_model_config(folder_.path() / "base/config.json"));
    folder_.write("base/model.safetensors", safetensors_text(published_tensors(model_)));
  }
  std::vector<float> exported(const fs::path& folder, const std::string& tensor, std::size_t count) const {
    std::vector<float> values(count);
    SafetensorsFile(folder_.path() / folder / "model.safetensors").read(tensor, 0, values);
    return values;
  }

  Model model_;
};

TEST_F(ExportTest, OfARunIsThatOfItsCheckpoint) {
  const Outcome run_outcome = run("run w.toml --steps 2 --save c --export tuned");
  EXPECT_EQ(run_outcome.code, 0) << run_outcome.err;
  EXPECT_MENTIONS(run_outcome.out, "exported to tuned: 1 file of weights in bf16, ");
  EXPECT_MENTIONS(run_outcome.out, "; as in base: config.json, tokenizer.json\n");
  EXPECT_EQ(file_text(folder_.path() / "tuned/tokenizer.json"), "a tokenizer");
  const Outcome outcome = run("export c --to later --like base");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(file_text(folder_.path() / "tuned/model.safetensors"),
            file_text(folder_.path() / "later/model.safetensors"));
  EXPECT_EQ(json("export c --to fp32 --like base --type fp32 --shard 20kB --json")["weights"].size(), 30u);
  EXPECT_EQ(json("export c --to whole --like base --type fp32 --json")["weights"][0]["tensors"], 36);
  std::vector<float> master(8);
  Checkpoint(folder_.path() / "c").read(model_.layers[0].tensors[0], StatePart::master, 0, master);
  EXPECT_EQ(exported("whole", "model.embed_tokens.weight", 8), master);
  EXPECT_NE(exported("tuned", "model.embed_tokens.weight", 8), master);
  EXPECT_EQ(run("run w.toml --steps 1 --set init.weights=tuned").code, 0);
}

TEST_F(ExportTest, IsRefusedBeforeTraining) {
  expect_error("run w.toml --steps 1 --export base", 2, "--export base: would replace what this command reads");
  expect_error("run w.toml --steps 1 --export base/tuned", 2, "lies in the folder");
  expect_error("run w.toml --steps 1 --save c --export c", 2, "would be written twice");
  folder_.write("there/file", "");
  expect_error("run w.toml --steps 1 --export there", 2, "it is there already");
  expect_error("run s.toml --steps 1 --export tuned", 2, "give export_like = FOLDER");
  expect_error("run w.toml --steps 1 --set checkpoint.export_shard=5 --export tuned", 2, "export_shard");
  EXPECT_FALSE(fs::exists(folder_.path() / "tuned"));
  EXPECT_EQ(run("run s.toml --steps 1 --export tuned --set checkpoint.export_like=base").code, 0);
  expect_error("export nothing --to x --like base", 2, "nothing");
  EXPECT_EQ(run("run s.toml --steps 1 --save c").code, 0);
  expect_error("export c --to c/x --like base", 2, "lies in the folder");
  expect_error("export c --to x --like there", 2, "config.json");
  expect_error("export c --to x --like base --type int8", 2, "int8");
  nlohmann::json other = nlohmann::json::parse(file_text(folder_.path() / "model.json"));
  other["rope_theta"] = 12345;
  folder_.write("other/config.json", other.dump());
  expect_error("export c --to x --like other", 2, "c: rope_theta of what was trained is ");
  EXPECT_FALSE(fs::exists(folder_.path() / "x"));
}

TEST_F(ExportTest, OfASeriesIsTheNewestAndAFinishedRunOwesIt) {
  const std::string saves = "run w.toml --steps 3 --save all --set checkpoint.every=2";
  ASSERT_EQ(run(saves).code, 0);
  const Outcome outcome = run("export all --to newest --like base");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_MENTIONS(outcome.out, "took all/step-3\n");
  // All steps are done, and there is no export yet: as if the run had been killed behind its last save.
  EXPECT_MENTIONS(run(saves + " --resume auto --export owed").out, "exported to owed: ");
  EXPECT_EQ(file_text(folder_.path() / "owed/model.safetensors"),
            file_text(folder_.path() / "newest/model.safetensors"));
  EXPECT_EQ(run(saves + " --resume auto --export owed").code, 0);
}

TEST_F(ExportTest, HasFrozenLayersAsTheyWere) {
  const std::string frozen = "run w.toml --steps 2 --save c --export tuned --set 'optimizer.freeze=[\"embed_tokens\"]'";
  const Outcome outcome = run(frozen);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(run("export c --to later --like base").code, 0);
  EXPECT_EQ(file_text(folder_.path() / "tuned/model.safetensors"),
            file_text(folder_.path() / "later/model.safetensors"));
  const auto base = [&](const char* tensor) { return exported("base", tensor, 64); };
  EXPECT_EQ(exported("later", "model.embed_tokens.weight", 64), base("model.embed_tokens.weight"));
  EXPECT_NE(exported("later", "lm_head.weight", 64), base("lm_head.weight"));
}

}  // namespace
}  // namespace penstock::exec
