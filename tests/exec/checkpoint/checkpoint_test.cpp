// Resuming gives the bits of a run that was never interrupted; saving is whole or not at all.
#include "exec/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "exec/checkpoint/safetensors.h"
#include "tests/exec/checkpoint/small_checkpoint.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

/// A model whose states are there, untrained.
SmallRun fresh_run(const PolicyInput& in = small::input(small::llama(), "penstock"), std::uint64_t seed = 3) {
  SmallRun run(in);
  run.training().load(*random_states(seed));
  return run;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Three steps, a checkpoint, two more in a new run with `in_after`.
RunBits interrupted(const PolicyInput& in, const PolicyInput& in_after, const std::filesystem::path& folder) {
  RunBits bits;
  {
    SmallRun run(in);
    run.training().load(*random_states(3));
    run.training().run(run.options(3));
    save(folder, run, run.training().steps_done());
    bits = run.bits();
  }
  const auto checkpoint = open_checkpoint(folder);
  EXPECT_EQ(checkpoint->step(), 3);
  EXPECT_EQ(checkpoint->description().find("seed")->value, "7");
  checkpoint->verify(in_after.model);
  SmallRun run(in_after);
  run.training().load(*checkpoint, checkpoint->step());
  run.training().run(run.options(2));
  bits.losses.insert(bits.losses.end(), run.bits().losses.begin(), run.bits().losses.end());
  bits.norms.insert(bits.norms.end(), run.bits().norms.begin(), run.bits().norms.end());
  bits.states = run.training().states().fingerprint();
  return bits;
}

TEST(Checkpoint, ResumingGivesTheBitsOfAnUninterruptedRun) {
  for (const Model& model : {small::llama(), small::qwen2_tied(), small::qwen3()}) {
    const TemporaryFolder folder;
    const PolicyInput in = small::input(model, "penstock");
    EXPECT_EQ(interrupted(in, in, folder.path() / "c"), run_bits(in, 5)) << model.config.name;
  }
}

TEST(Checkpoint, ResumesUnderAnotherSchedule) {
  const TemporaryFolder folder;
  const PolicyInput in = small::input(small::qwen2_tied(), "penstock");
  PolicyInput resident = small::input(small::qwen2_tied(), "resident");
  resident.parameters.numerics = in.parameters.numerics;
  EXPECT_EQ(interrupted(in, resident, folder.path() / "c"), run_bits(in, 5));
}

TEST(Checkpoint, ResumesEveryStateFormat) {
  for (const StateFormat format : {StateFormat::planes, StateFormat::master_and_copy, StateFormat::bf16})
    for (const ElementType moments : {ElementType::fp32, ElementType::bf16}) {
      const TemporaryFolder folder;
      PolicyInput in = small::input(small::llama(), "penstock");
      in.parameters.numerics.states = format;
      in.parameters.numerics.moments = moments;
      EXPECT_EQ(interrupted(in, in, folder.path() / "c"), run_bits(in, 5))
          << static_cast<int>(format) << static_cast<int>(moments);
    }
}

TEST(Checkpoint, WeightsAreReadableUnderTheirPublishedNames) {
  const TemporaryFolder folder;
  const PolicyInput in = small::input(small::llama(), "penstock");
  SmallRun run(in);
  run.training().load(*random_states(3));
  save(folder.path() / "c", run, 0);
  const auto published = published_states(folder.path() / "c", run.model());
  const ParameterTensor& tensor = run.model().layers[2].tensors.back();
  std::vector<float> saved(4), fresh(4);
  published->read(tensor, StatePart::master, 5, saved);
  random_states(3)->read(tensor, StatePart::master, 5, fresh);
  // bf16 has 8 bits of mantissa: within 2^-8 of the fp32 value, and not equal to all four.
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(saved[i], fresh[i], std::abs(fresh[i]) / 256);
  EXPECT_NE(saved, fresh);
}

TEST(Checkpoint, ANewOneReplacesTheOldOneAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "c";
  SmallRun run = fresh_run();
  save(place, run, 1);
  folder.write("c.partial/model.safetensors", "the rest of a crash");
  save(place, run, 2);
  EXPECT_EQ(open_checkpoint(place)->step(), 2);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(entries, 1);
}

TEST(Checkpoint, ALinkStaysOneAndLeadsToTheNewOne) {
  const TemporaryFolder folder;
  const auto link = folder.path() / "latest";
  SmallRun run = fresh_run();
  save(folder.path() / "c", run, 1);
  std::filesystem::create_directory_symlink("c", link);
  save(link, run, 2);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(open_checkpoint(folder.path() / "c")->step(), 2);
}

TEST(Checkpoint, RefusesAnotherModelAndAnotherFormat) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "c";
  SmallRun run = fresh_run();
  save(place, run, 1);
  EXPECT_NE(error_text([&] { open_checkpoint(place)->verify(small::qwen2_tied()); }), "");
  folder.write("c/run.json", R"({"format":"penstock-checkpoint/9"})");
  EXPECT_MENTIONS(error_text([&] { open_checkpoint(place); }), "penstock-checkpoint/9");
  EXPECT_MENTIONS(error_text([&] { open_checkpoint(folder.path() / "no"); }), "no/run.json");
}

TEST(Checkpoint, FilesOfTwoCheckpointsAreRefusedByName) {
  const TemporaryFolder folder;
  SmallRun run = fresh_run(), other = fresh_run(small::input(small::llama(), "penstock"), 4);
  run.training().run(run.options(1));
  save(folder.path() / "step1", run, 1);
  run.training().run(run.options(1));
  save(folder.path() / "step2", run, 2);
  save(folder.path() / "seed", other, 2, 8);
  for (const char* from : {"step1", "seed"})
    for (const char* name : {kWeightsFile, kStatesFile, kRecordFile}) {
      const auto mixed = folder.path() / "mixed";
      std::filesystem::remove_all(mixed);
      std::filesystem::copy(folder.path() / "step2", mixed);
      std::filesystem::copy_file(folder.path() / from / name, mixed / name,
                                 std::filesystem::copy_options::overwrite_existing);
      const std::string error = error_text([&] { open_checkpoint(mixed); });
      // A run.json from elsewhere makes the first of the other two a stranger.
      EXPECT_MENTIONS(error,
                      std::string(name == kRecordFile ? kWeightsFile : name) + ": is not the file that run.json");
    }
}

TEST(Checkpoint, AFlippedBitInAHeaderIsFoundWithoutReadingTheTensors) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "c";
  SmallRun run = fresh_run();
  save(place, run, 1);
  for (const char* name : {kWeightsFile, kStatesFile}) {
    const std::string whole = read_file(place / name);
    const std::size_t header = 8 + static_cast<unsigned char>(whole[0]) + 256u * static_cast<unsigned char>(whole[1]);
    std::fstream file(place / name, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](std::size_t at, char byte) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
      file.flush();
    };
    // Every bit of the length, then a few hundred of the header, not always the same of a byte.
    for (std::size_t bit = 0; bit < 8 * header; bit += bit < 64 ? 1 : header / 25 | 1) {
      put(bit / 8, static_cast<char>(whole[bit / 8] ^ (1 << bit % 8)));
      EXPECT_MENTIONS(error_text([&] { open_checkpoint(place); }), name);
      put(bit / 8, whole[bit / 8]);
    }
    folder.write(std::string("c/") + name, whole + "x");
    EXPECT_MENTIONS(error_text([&] { open_checkpoint(place); }), name);
    folder.write(std::string("c/") + name, whole);
  }
  EXPECT_EQ(error_text([&] { open_checkpoint(place)->verify(run.model()); }), "");
}

TEST(Checkpoint, RefusesOneThatWasDamagedOnDisk) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "c";
  SmallRun run = fresh_run();
  save(place, run, 1);
  for (const char* name : {"optimizer.safetensors", "model.safetensors"}) {
    // The last byte is the last tensor's, the final norm's.
    std::fstream file(place / name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(-1, std::ios::end);
    const int last = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
    file.close();
    const std::string error = error_text([&] { open_checkpoint(place)->verify(run.model()); });
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find(": the bytes have checksum"), std::string::npos) << error;
  }
  // Weights alone are verified too.
  EXPECT_NE(error_text([&] { published_states(place, run.model()); }).find("the bytes have checksum"),
            std::string::npos);
}

TEST(States, PaddingIsZero) {
  ModelConfig config = small::base("padded");
  config.family = ModelFamily::qwen2;
  config.qkv_bias = true;
  config.head_dim = 18;  // biases of (4 + 2 x 2) x 18 = 144 elements: 48 of padding to the next multiple of 64
  const Model model = make_model(config);
  const Layer& layer = model.layers[1];
  std::vector<float> flat(static_cast<std::size_t>(layer.state_elements), 7.0f);
  read_flat(*random_states(3), layer, StatePart::master, 0, flat);
  const auto bias = static_cast<std::size_t>(model.decoder.qkv_bias);
  for (std::size_t i = 0; i < 192; ++i) EXPECT_EQ(flat[bias + i], 0.0f) << i;  // biases start at 0 as well
  EXPECT_EQ(flat[static_cast<std::size_t>(model.decoder.input_norm)], 1.0f);
}

TEST(States, PiecesGiveWhatTheWholeGives) {
  const Model model = small::llama();
  const Layer& layer = model.layers[1];
  std::vector<float> whole(1000), piece(100);
  read_flat(*random_states(3), layer, StatePart::master, 0, whole);
  read_flat(*random_states(3), layer, StatePart::master, 900, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + 900));
}

}  // namespace
}  // namespace penstock::exec
