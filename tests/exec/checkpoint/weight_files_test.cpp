// Folders and indexes as downloads leave them.
#include "exec/checkpoint/weight_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <span>
#include <string>

#include "tests/exec/checkpoint/published_files.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

std::string scalar_file(const std::map<std::string, float>& values) {
  PublishedTensors tensors;
  for (const auto& [name, value] : values) tensors[name] = f32_tensor({1}, {value});
  return safetensors_text(tensors);
}

std::string index_text(const std::map<std::string, std::string>& map) {
  return nlohmann::json{{"metadata", {{"total_size", 12}}}, {"weight_map", map}}.dump();
}

float value_of(const WeightFiles& files, const char* name) {
  float value = 0;
  files.read(name, 0, std::span(&value, 1));
  return value;
}

std::string open_error(const std::filesystem::path& path) {
  return error_text([&] { WeightFiles files(path); });
}

TEST(WeightFiles, FindsTensorsInTheFilesOfAnIndex) {
  const TemporaryFolder folder;
  folder.write("model-1.safetensors", scalar_file({{"a", 1}}));
  folder.write("model-2.safetensors", scalar_file({{"b", 2}}));
  const auto index = folder.write(kIndex, index_text({{"a", "model-1.safetensors"}, {"b", "model-2.safetensors"}}));
  for (const auto& path : {folder.path(), index}) {
    const WeightFiles files(path);
    EXPECT_EQ(value_of(files, "b"), 2);
    EXPECT_EQ(files.find("c"), nullptr);
    EXPECT_MENTIONS(files.describe(), "2 tensors from 2 files");
    EXPECT_EQ(files.describe().find(';'), std::string::npos);
    EXPECT_MENTIONS(error_text([&] { value_of(files, "c"); }), "\"c\"");
  }
}

TEST(WeightFiles, ATensorInTwoFilesIsReadFromTheOneThatTheIndexNames) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", scalar_file({{"x", 1}, {"y", 1}, {"z", 1}}));
  folder.write("b.safetensors", scalar_file({{"x", 2}, {"y", 2}}));
  folder.write(kIndex, index_text({{"x", "b.safetensors"}, {"y", "a.safetensors"}, {"z", "a.safetensors"}}));
  const WeightFiles one(folder.path());
  EXPECT_EQ(value_of(one, "x"), 2);
  EXPECT_EQ(value_of(one, "y"), 1);
  EXPECT_MENTIONS(one.describe(), "2 of them stand in more than one file and are read where the index says");
  // The other way round.
  folder.write(kIndex, index_text({{"x", "a.safetensors"}, {"y", "b.safetensors"}, {"z", "a.safetensors"}}));
  const WeightFiles other(folder.path());
  EXPECT_EQ(value_of(other, "x"), 1);
  EXPECT_EQ(value_of(other, "y"), 2);
}

TEST(WeightFiles, NamesWhatAnIndexAndItsFilesDoNotHave) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", scalar_file({{"x", 1}, {"extra", 1}}));
  folder.write(kIndex, index_text({{"x", "a.safetensors"},
                                   {"p", "b.safetensors"},
                                   {"q", "b.safetensors"},
                                   {"r", "b.safetensors"},
                                   {"s", "b.safetensors"},
                                   {"t", "c.safetensors"}}));
  EXPECT_MENTIONS(open_error(folder.path()),
                  "names files that are not there: b.safetensors (for p, q, r and 1 more), c.safetensors (for t)");
  folder.write(kIndex, index_text({{"x", "a.safetensors"}, {"y", "a.safetensors"}}));
  EXPECT_MENTIONS(open_error(folder.path()), "in files that do not have them: y in a.safetensors");
  const std::string longest(200, 'n');  // names are cut, what is said of them is not
  folder.write(kIndex, index_text({{longest, "b.safetensors"}, {"x", "a.safetensors"}, {"y", "c.safetensors"}}));
  EXPECT_MENTIONS(open_error(folder.path()), "nnn...), c.safetensors (for y); download them too");
  // In a file and not in the index: not read, and known for it.
  folder.write(kIndex, index_text({{"x", "a.safetensors"}}));
  const WeightFiles files(folder.path());
  EXPECT_EQ(files.find("extra"), nullptr);
  EXPECT_TRUE(files.unlisted().contains("extra"));
  EXPECT_FALSE(files.unlisted().contains("x"));
}

TEST(WeightFiles, RefusesIndexesThatLie) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", scalar_file({{"x", 1}}));
  const auto error = [&](const std::string& text) { return open_error(folder.write(kIndex, text)); };
  for (const char* file : {"../a.safetensors", "/etc/a.safetensors", "sub/a.safetensors", "..", "", "a", "a.json"})
    EXPECT_MENTIONS(error(index_text({{"x", file}})), "weight_map.x must name a .safetensors file beside the index");
  EXPECT_MENTIONS(error(R"({"weight_map":{"x":"a.safetensors\u0000.safetensors"}})"), "beside the index");
  EXPECT_MENTIONS(error(R"({"weight_map":{"x":["a.safetensors"]}})"), "found [\"a.safetensors\"]");
  EXPECT_MENTIONS(error(R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})"), "\"x\" stands twice");
  EXPECT_MENTIONS(error(R"({"weight_map":{}})"), "has no object \"weight_map\"");
  EXPECT_MENTIONS(error(R"({"weight_map":["a.safetensors"]})"), "has no object \"weight_map\"");
  EXPECT_MENTIONS(error(R"({"model_type":"llama"})"), "has no object \"weight_map\"");
  EXPECT_MENTIONS(error(R"({"weight_map":{"x":)"), "is not JSON");
  EXPECT_MENTIONS(error("version https://git-lfs.github.com/spec/v1\nsize 5\n"), "git lfs pull");
  EXPECT_MENTIONS(error("<!doctype html>"), "is a web page");
  EXPECT_MENTIONS(error(index_text({{"x", "pytorch_model-00001-of-00002.bin"}})), "which is no safetensors file");
  // What only people read.
  EXPECT_EQ(error(R"({"metadata":{"total_size":1},"weight_map":{"x":"a.safetensors"}})"), "");
  EXPECT_EQ(error("\xef\xbb\xbf{\"weight_map\":{\"x\":\"a.safetensors\"}}"), "");
}

TEST(WeightFiles, OneOfManyFilesThatIsWrongIsNamed) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", scalar_file({{"x", 1}}));
  folder.write(kIndex, index_text({{"x", "a.safetensors"}, {"y", "b.safetensors"}}));
  folder.write("b.safetensors", "version https://git-lfs.github.com/spec/v1\nsize 5\n");
  EXPECT_MENTIONS(open_error(folder.path()), "b.safetensors: is a Git LFS pointer");
  const std::string whole = scalar_file({{"y", 1}});
  folder.write("b.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_MENTIONS(open_error(folder.path()), "b.safetensors: has ");
  std::filesystem::remove(folder.path() / "b.safetensors");
  ASSERT_EQ(::mkfifo((folder.path() / "b.safetensors").c_str(), 0600), 0);
  EXPECT_MENTIONS(open_error(folder.path()), "b.safetensors: is not a regular file");
  std::filesystem::remove(folder.path() / "b.safetensors");
  std::filesystem::create_symlink("nowhere", folder.path() / "b.safetensors");
  EXPECT_MENTIONS(open_error(folder.path()),
                  "b.safetensors: cannot be opened: No such file or directory; it is a link "
                  "to nowhere, which is not there");
  std::filesystem::remove(folder.path() / kIndex);
  ASSERT_EQ(::mkfifo((folder.path() / kIndex).c_str(), 0600), 0);
  EXPECT_MENTIONS(open_error(folder.path()), "is not a regular file");
}

TEST(WeightFiles, OneFileWinsOverAnIndexAsInTransformers) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", scalar_file({{"x", 1}}));
  folder.write(kIndex, index_text({{"x", "a.safetensors"}}));
  folder.write("model.safetensors", scalar_file({{"x", 2}}));
  folder.write("training_args.bin", "?");
  folder.write("tokenizer.json", "{}");
  const WeightFiles files(folder.path());
  EXPECT_EQ(value_of(files, "x"), 2);
  EXPECT_MENTIONS(files.describe(),
                  "/model.safetensors; not read: a.safetensors, model.safetensors.index.json, training_args.bin");
  EXPECT_EQ(files.describe().find("tokenizer"), std::string::npos);
  const WeightFiles by_index(folder.path() / kIndex);
  EXPECT_EQ(value_of(by_index, "x"), 1);
  EXPECT_MENTIONS(by_index.describe(), "; not read: model.safetensors, training_args.bin");
  // What is named itself is all that was meant.
  EXPECT_EQ(WeightFiles(folder.path() / "a.safetensors").describe(), (folder.path() / "a.safetensors").string());
}

TEST(WeightFiles, FilesBesideTheIndexAreSaid) {
  const TemporaryFolder folder;
  folder.write("model-1.safetensors", scalar_file({{"x", 1}}));
  folder.write("model-2.safetensors", scalar_file({{"y", 1}}));
  folder.write("consolidated.safetensors", scalar_file({{"y", 1}}));
  folder.write(kIndex, index_text({{"x", "model-1.safetensors"}}));
  EXPECT_MENTIONS(WeightFiles(folder.path()).describe(), "not read: consolidated.safetensors, model-2.safetensors");
}

TEST(WeightFiles, AFolderWithoutWeightsIsDescribed) {
  const struct {
    std::vector<std::string> files;
    const char* says;
  } cases[] = {
      {{"config.json"}, "and nothing like them; name the folder of a model that was downloaded whole"},
      {{"pytorch_model.bin"}, "only pytorch_model.bin, a pickle"},
      {{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"},
       "a pickle"},
      {{"consolidated.00.pth", "params.json"}, "only consolidated.00.pth, a pickle"},
      {{"consolidated.safetensors", "params.json"}, "the publisher's own names and order of rows"},
      {{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}, "but no model.safetensors.index.json"},
      {{"model.fp16.safetensors"}, "only model.fp16.safetensors; if that is meant, name this file"},
      {{"m.Q4_K_M.gguf"}, "only m.Q4_K_M.gguf; take the model's .safetensors files"},
      {{"tf_model.h5", "flax_model.msgpack"}, "only flax_model.msgpack, tf_model.h5"},
      {{"checkpoint-10/model.safetensors", "checkpoint-20/model.safetensors.index.json", "trainer_state.json"},
       "but its folders checkpoint-10, checkpoint-20; name one"},
      {{"adapter_config.json", "adapter_model.safetensors"},
       "holds an adapter (adapter_config.json, adapter_model.safetensors), as peft trains, and no whole model"},
      {{"adapter_model.bin"}, "holds an adapter (adapter_model.bin)"},
      {{"adapter_config.json", "adapter_model.safetensors", "model.safetensors"},
       "or name the file model.safetensors to start without it"},
  };
  for (const auto& [files, says] : cases) {
    const TemporaryFolder folder;
    for (const std::string& file : files) folder.write(file, "x");
    EXPECT_MENTIONS(open_error(folder.path()), says);
  }
  EXPECT_MENTIONS(open_error("no/such/folder"),
                  "no/such/folder: cannot be opened: No such file or directory; the folder no/such "
                  "does not exist; weights are read from this machine");
}

TEST(WeightFiles, WhatAFileIsCalledDoesNotMatter) {
  const TemporaryFolder folder;
  EXPECT_MENTIONS(open_error(folder.write("m.bin", std::string("PK\x03\x04\x14\x00", 6))), "is a zip archive");
  EXPECT_MENTIONS(open_error(folder.write("m.gguf", std::string("GGUF\x03\x00", 6))), "but weights (GGUF)");
  EXPECT_EQ(open_error(folder.write("m.weights", scalar_file({{"x", 1}}))), "");
}

}  // namespace
}  // namespace penstock::exec
