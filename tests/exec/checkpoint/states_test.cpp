// What training cannot start from is found while states are loaded, in whatever they are kept.
#include "exec/checkpoint/states.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/exec/checkpoint/published_files.h"
#include "tests/exec/checkpoint/small_checkpoint.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Random states with one other value.
class OneValue : public StateSource {
 public:
  OneValue(std::string name, StatePart part, std::int64_t index, float value)
      : name_(std::move(name)), part_(part), index_(index), value_(value) {}
  void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const override {
    random_->read(tensor, part, first, out);
    const std::int64_t at = index_ - first;
    if (tensor.name == name_ && part == part_ && at >= 0 && at < static_cast<std::int64_t>(out.size()))
      out[static_cast<std::size_t>(at)] = value_;
  }

 private:
  std::string name_;
  StatePart part_;
  std::int64_t index_;
  float value_;
  std::unique_ptr<StateSource> random_ = random_states(3);
};

std::string load_error(const PolicyInput& in, const StateSource& source) {
  SmallRun run(in);
  return error_text([&] { run.training().load(source); });
}

PolicyInput with_states(StateFormat format, ElementType moments = ElementType::fp32) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.numerics.states = format;
  in.parameters.numerics.moments = moments;
  return in;
}

constexpr StateFormat kFormats[] = {StateFormat::planes, StateFormat::master_and_copy, StateFormat::bf16};

TEST(LoadStates, NamesTensorRowAndColumnOfWhatIsNotFinite) {
  const struct {
    const char* name;
    std::int64_t index;
    float value;
    const char* says;
  } cases[] = {{"model.embed_tokens.weight", 3 * 64 + 5, NAN, "model.embed_tokens.weight[3, 5] is nan, not a finite"},
               {"model.layers.1.self_attn.k_proj.weight", 0, kInfinity, "k_proj.weight[0, 0] is inf, not a finite"},
               {"model.layers.4.mlp.down_proj.weight", 64 * 128 - 1, -kInfinity, "down_proj.weight[63, 127] is -inf"},
               {"model.norm.weight", 63, NAN, "model.norm.weight[63] is nan"},
               {"lm_head.weight", 255 * 64, NAN, "lm_head.weight[255, 0] is nan"}};
  for (const StateFormat format : kFormats)
    for (const auto& [name, index, value, says] : cases)
      EXPECT_MENTIONS(load_error(with_states(format), OneValue(name, StatePart::master, index, value)), says);
}

// bf16's largest is 0x7F7F = 3.3895e38; from half a step above, 0x7F7F8000 = 3.3961e38, fp32 rounds to infinity.
TEST(LoadStates, RefusesWhatBf16CannotHold) {
  for (const StateFormat format : kFormats) {
    const auto error = [&](float value) {
      return load_error(with_states(format), OneValue("model.norm.weight", StatePart::master, 7, value));
    };
    EXPECT_MENTIONS(error(3.4e38f), "model.norm.weight[7] is 3.4e+38, more than bf16");
    EXPECT_MENTIONS(error(-3.4e38f), "model.norm.weight[7] is -3.4e+38, more than bf16");
    EXPECT_MENTIONS(error(std::bit_cast<float>(0x7F7F8000u)), "more than bf16");
    EXPECT_EQ(error(std::bit_cast<float>(0x7F7F7FFFu)), "");
    EXPECT_EQ(error(1e-45f), "");
  }
}

TEST(LoadStates, ChecksMomentsInTheirOwnType) {
  const auto error = [](ElementType type, float value) {
    return load_error(with_states(StateFormat::planes, type),
                      OneValue("model.norm.weight", StatePart::moment_v, 7, value));
  };
  EXPECT_MENTIONS(error(ElementType::fp32, NAN), "model.norm.weight[7] is nan");
  EXPECT_MENTIONS(error(ElementType::bf16, 3.4e38f), "more than bf16");
  EXPECT_EQ(error(ElementType::fp32, 3.4e38f), "");
}

TEST(LoadStates, PublishedValuesAreFoundInTheirFile) {
  const Model model = make_model(published_config());
  PolicyInput in = small::input(model, "penstock");
  const TemporaryFolder folder;
  const auto error = [&](const std::string& name, const PublishedTensor& tensor) {
    PublishedTensors tensors = published_tensors(model);
    tensors[name] = tensor;
    const auto path = folder.write("model.safetensors", safetensors_text(tensors));
    return load_error(in, *published_states(path, model));
  };
  const std::string path = (folder.path() / "model.safetensors").string();
  const std::string k = "model.layers.1.self_attn.k_proj.weight";
  std::vector<float> values = some_values(k, 8 * 16);
  EXPECT_EQ(error(k, f32_tensor({8, 16}, values)), "");
  values[2 * 16 + 9] = NAN;
  EXPECT_EQ(error(k, f32_tensor({8, 16}, values)).find(path + ": " + k + "[2, 9] is nan"), 0u);
  EXPECT_EQ(error(k, bf16_tensor({8, 16}, values)).find(path + ": " + k + "[2, 9] is nan"), 0u);
  std::vector<std::uint16_t> halves(8 * 16);
  halves[127] = 0xFC00;  // -infinity in fp16
  EXPECT_MENTIONS(error(k, {"F16", {8, 16}, bytes_of(halves)}), "k_proj.weight[7, 15] is -inf");
  values[2 * 16 + 9] = 3.4e38f;
  EXPECT_MENTIONS(error(k, f32_tensor({8, 16}, values)), "[2, 9] is 3.4e+38, more than bf16");
}

// Embedding and head have 2.5 Mi elements, loaded in pieces of 1 Mi.
TEST(LoadStates, CountsRowsAcrossPieces) {
  ModelConfig config = small::base("tall");
  config.vocabulary = 40960;
  const PolicyInput in = small::input(make_model(config), "penstock");
  const auto error = [&](const char* name, std::int64_t row, std::int64_t column) {
    return load_error(in, OneValue(name, StatePart::master, row * 64 + column, NAN));
  };
  EXPECT_MENTIONS(error("model.embed_tokens.weight", 16384, 0), "model.embed_tokens.weight[16384, 0] is nan");
  EXPECT_MENTIONS(error("model.embed_tokens.weight", 40959, 63), "model.embed_tokens.weight[40959, 63] is nan");
  EXPECT_MENTIONS(error("lm_head.weight", 20000, 7), "lm_head.weight[20000, 7] is nan");
}

TEST(LoadStates, TheSameValueIsNamedEveryTime) {
  class ManyValues : public StateSource {
   public:
    void read(const ParameterTensor&, StatePart, std::int64_t, std::span<float> out) const override {
      std::fill(out.begin(), out.end(), NAN);
    }
  };
  const std::string first = load_error(with_states(StateFormat::planes), ManyValues());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(load_error(with_states(StateFormat::planes), ManyValues()), first);
}

TEST(LoadStates, ACheckpointsValuesAreFoundInItsFile) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "c";
  SmallRun run(with_states(StateFormat::planes));
  run.training().load(*random_states(3));
  save(place, run, 1);
  // Another program's file without checksums, with one moment that is lost.
  PublishedTensors tensors;
  for (const Layer& layer : run.model().layers)
    for (const ParameterTensor& tensor : layer.tensors)
      for (const char* part : {"master.", "moment_m.", "moment_v."})
        tensors[part + tensor.name] = zeros("F32", stored_shape(tensor), 4);
  std::vector<float> values(64);
  values[1] = NAN;
  tensors["moment_v.model.norm.weight"] = f32_tensor({64}, values);
  folder.write("c/optimizer.safetensors", safetensors_text(tensors));
  bind_files(place);
  const auto checkpoint = open_checkpoint(place);
  EXPECT_MENTIONS(load_error(with_states(StateFormat::planes), *checkpoint),
                  "optimizer.safetensors: moment_v.model.norm.weight[1] is nan");
}

TEST(Checkpoint, ShapesOfItsTensorsAreChecked) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "c";
  SmallRun run(with_states(StateFormat::planes));
  run.training().load(*random_states(3));
  save(place, run, 1);
  const auto error = [&](const std::string& name, const PublishedTensor& changed) {
    PublishedTensors tensors;
    for (const Layer& layer : run.model().layers)
      for (const ParameterTensor& tensor : layer.tensors)
        for (const char* part : {"master.", "moment_m.", "moment_v."})
          tensors[part + tensor.name] = zeros("F32", stored_shape(tensor), 4);
    tensors[name] = changed;
    folder.write("c/optimizer.safetensors", safetensors_text(tensors));
    bind_files(place);
    return error_text([&] { open_checkpoint(place)->verify(run.model()); });
  };
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  EXPECT_MENTIONS(error("master." + up, zeros("F32", {64, 128}, 4)), "is F32 [64, 128]; F32 [128, 64] is needed");
  EXPECT_MENTIONS(error("moment_v." + up, zeros("F32", {8192}, 4)), "is F32 [8192]; F32 [128, 64] is needed");
  EXPECT_MENTIONS(error("moment_m." + up, zeros("BF16", {128, 64}, 2)), "is BF16 [128, 64]; F32 [128, 64] is needed");
  EXPECT_MENTIONS(error("master." + up, zeros("F16", {128, 64}, 2)), "is F16 [128, 64]; F32 [128, 64] is needed");
  EXPECT_MENTIONS(error("master.model.layers.5.mlp.up_proj.weight", zeros("F32", {1}, 4)),
                  "layers.5.mlp.up_proj.weight: is not used");
}

}  // namespace
}  // namespace penstock::exec
