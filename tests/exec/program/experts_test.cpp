// What a training of a mixture of experts leaves behind: a checkpoint that is gone on with, a folder that is read again.
#include "exec/checkpoint/safetensors.h"
#include "tests/exec/program/program_fixture.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

class ExpertsTest : public ProgramTest {
 protected:
  ExpertsTest() {
    model_ = nlohmann::json::parse(file_text(source_folder() / "scenarios/models/tiny-qwen3-moe.json"));
    model_["num_hidden_layers"] = 4;
    model_["output_router_logits"] = true;
    fs::create_directory(folder_.path() / "like");
    write_model();
    std::string scenario = kScenario;
    scenario.replace(scenario.find("model.json"), 10, "like/config.json");
    folder_.write("s.toml", scenario);
  }
  void write_model() const { folder_.write("like/config.json", model_.dump()); }

  nlohmann::json model_;
};

TEST_F(ExpertsTest, ATrainingGoesOnWithTheBitsOfOneThatWasNotInterrupted) {
  const std::string saves = "run s.toml --set checkpoint.every=2 --set optimizer.freeze=layers.1 --json --save ";
  const nlohmann::json whole = json(saves + "whole --steps 4");
  json(saves + "c --steps 2");
  const nlohmann::json rest = json(saves + "c --steps 4 --resume auto --set policy.keep=everything");
  ASSERT_EQ(rest["steps"].size(), 2u);
  EXPECT_EQ(rest["steps"][1], whole["steps"][3]);
  EXPECT_GT(rest["steps"][1]["balance_loss"].get<double>(), 0);
  EXPECT_MENTIONS(run("run s.toml --steps 1 --resume c/step-4").err, "optimizer.freeze is");
  model_["num_experts_per_tok"] = 3;
  write_model();
  const std::string resumed = "run s.toml --steps 1 --set optimizer.freeze=layers.1 --resume c/step-4";
  expect_error(resumed, 2, "num_experts_per_tok is 4 in the checkpoint, 3 now");
  EXPECT_EQ(run(resumed + " --allow-changed num_experts_per_tok").code, 0);
}

TEST_F(ExpertsTest, AnExportIsReadAgain) {
  json("run s.toml --steps 2 --save c --json");
  const Outcome outcome = run("export c --to exported --like like");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const SafetensorsFile file(folder_.path() / "exported/model.safetensors");
  ASSERT_NE(file.find("model.layers.2.mlp.experts.15.down_proj.weight"), nullptr);
  EXPECT_EQ(file.find("model.layers.3.mlp.gate.weight"), nullptr);  // a dense one
  EXPECT_EQ(run("run s.toml --steps 1 --set init.weights=exported").code, 0);
}

TEST_F(ExpertsTest, GradientsHaveTheShapesOfTheModelAndAreOfWhatTrains) {
  model_["num_experts"] = model_["num_experts_per_tok"] = 1;
  write_model();
  json("run s.toml --steps 1 --set policy.name=megatrain --set optimizer.freeze=layers.0 --dump d --json");
  const SafetensorsFile file(folder_.path() / "d/gradients.safetensors");
  EXPECT_EQ(file.find("model.layers.0.mlp.gate.weight"), nullptr);
  ASSERT_NE(file.find("model.layers.1.mlp.gate.weight"), nullptr);
  EXPECT_EQ(file.find("model.layers.1.mlp.gate.weight")->shape, (Shape{1, 128}));
  EXPECT_EQ(file.find("model.norm.weight")->shape, Shape{128});
}

}  // namespace
}  // namespace penstock::exec
