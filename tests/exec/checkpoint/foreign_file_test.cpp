#include "exec/checkpoint/foreign_file.h"

#include <gtest/gtest.h>

#include <string>

#include "exec/checkpoint/safetensors.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

using namespace std::string_literals;

TEST(ForeignFile, SaysWhatItIsAndWhatToDo) {
  const struct {
    std::string head;
    const char* what;
    const char* cure;
  } cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid "
       "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d1\n"
       "size 988097824\n",
       "is a Git LFS pointer, which stands for a file of 988097824 bytes", "git lfs pull"},
      {"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, which stands for a file;",
       "git lfs pull"},
      {"PK\x03\x04\x00\x00\x08\x08"
       "archive/data.pkl"s,
       "is a zip archive, as PyTorch writes", "save_pretrained"},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."s, "is a pickle", "save_pretrained"},
      {"\x80\x04\x95\x10"s, "is a pickle", "save_pretrained"},
      {"GGUF\x03\x00\x00\x00\x23\x01\x00\x00\x00\x00\x00\x00"s, "no safetensors file but weights (GGUF)",
       "take the model's .safetensors"},
      {"\x89HDF\r\n\x1a\n"s, "but an HDF5 file", "take the model's .safetensors"},
      {"\x93NUMPY\x01\x00v\x00{'descr': '<f4'"s, "but a NumPy array", "take the model's .safetensors"},
      {"\x1f\x8b\x08\x00"s, "but gzip-compressed", "unpacked"},
      {"\x28\xb5\x2f\xfd\x04\x58"s, "but zstd-compressed", "unpacked"},
      {"model/"s + std::string(251, '\0') + "ustar\0"s, "but a tar archive", "unpacked"},
      {"<!DOCTYPE html>\n<html lang=\"en\">", "is a web page", "get it again"},
      {"\n\n  <html><head>", "is a web page", "get it again"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "an error in XML", "get it again"},
      {"Entry not found", "is text that begins \"Entry not found\"", "get the file again"},
      {"Access to model m is restricted.\nLog in\x1b[2J",  // a terminal's command
       "begins \"Access to model m is restricted. Log in?[2J\"", "get the file again"},
      {"{\"error\":\"Repository not found\"}", "is text that begins \"{\"error\"", "get the file again"},
      {"\n \t\n", "is blank text", "get it again"},
      {std::string(512, '\0'), "begins with zeros", "get it again"},
      {"", "is empty", "get it again"},
      {"\x01\x02\x03\x04\xff\xfe\xfd\xfc", "but binary (control characters)", "take"},
  };
  for (const auto& [head, what, cure] : cases) {
    const std::string said = foreign_file(head);
    EXPECT_MENTIONS(said, what);
    EXPECT_MENTIONS(said, cure);
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

TEST(ForeignFile, IsSaidWithTheFilesName) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid x\nsize 7\n");
  const std::string error = error_text([&] { SafetensorsFile file(path); });
  EXPECT_EQ(error, path.string() +
                       ": is a Git LFS pointer, which stands for a file of 7 bytes; run `git lfs pull` in its folder");
}

}  // namespace
}  // namespace penstock::exec
