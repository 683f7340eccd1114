#include "exec/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

/// A file of the given header and data bytes.
std::string file_text(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string open_error(const std::string& text) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.safetensors", text);
  return error_text([&] { SafetensorsFile file(path); });
}

TEST(Safetensors, WidensAllThreeTypes) {
  const TemporaryFolder folder;
  // bf16 1.5 = 0x3FC0; f16 -2 = 0xC000; f32 0.25 = 0x3E800000; little-endian.
  const auto path = folder.write(
      "x.safetensors",
      file_text(
          R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"F16","shape":[1,1],"data_offsets":[2,4]},"c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"d":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
          std::string("\xC0\x3F\x00\xC0\x00\x00\x80\x3E", 8)));
  const SafetensorsFile file(path);
  float value = 0;
  file.read("a", 1, 0, std::span(&value, 1));
  EXPECT_EQ(value, 1.5f);
  file.read("b", 1, 0, std::span(&value, 1));
  EXPECT_EQ(value, -2.0f);
  file.read("c", 1, 0, std::span(&value, 1));
  EXPECT_EQ(value, 0.25f);
  EXPECT_FALSE(file.has("d"));
  EXPECT_NE(error_text([&] { file.read("a", 2, 0, std::span(&value, 1)); }).find("has 1 elements, the model needs 2"),
            std::string::npos);
}

TEST(Safetensors, WidensEveryClassOfHalfPrecision) {
  EXPECT_EQ(widen_f16(0x3C00), 1.0f);
  EXPECT_EQ(widen_f16(0x7BFF), 65504.0f);                   // largest
  EXPECT_EQ(widen_f16(0x0001), std::ldexp(1.0f, -24));      // smallest denormal
  EXPECT_EQ(widen_f16(0x83FF), -std::ldexp(1023.0f, -24));  // largest denormal
  EXPECT_EQ(widen_f16(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(widen_f16(0x7E00)));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(widen_f16(0x8000)), 0x80000000u);
}

TEST(Safetensors, RefusesFilesThatLie) {
  EXPECT_NE(open_error("abc").find("only 3 bytes"), std::string::npos);
  EXPECT_NE(open_error(std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{}", 10)).find("header would have"),
            std::string::npos);
  EXPECT_NE(open_error(file_text("{", "")).find("x.safetensors"), std::string::npos);
  EXPECT_NE(open_error(file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", ""))
                .find("outside the 0 bytes"),
            std::string::npos);
  EXPECT_NE(open_error(file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"))
                .find("dtype and shape need 8"),
            std::string::npos);
  EXPECT_NE(
      open_error(file_text(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", "1234"))
          .find("shape"),
      std::string::npos);
  EXPECT_NE(
      open_error(file_text(R"({"a":{"dtype":"F32","shape":[1000000000,1000000000],"data_offsets":[0,4]}})", "1234"))
          .find("absurd"),
      std::string::npos);
  EXPECT_NE(open_error(file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "1234")).find("outside"),
            std::string::npos);
}

TEST(Safetensors, WritesWhatItReads) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  const std::vector<float> a{1, 2, 3, 4};
  const std::vector<std::uint16_t> b{0x3F80, 0x4000};
  SafetensorsWriter writer(path, {{"a", StoredType::f32, {2, 2}}, {"b", StoredType::bf16, {2}}});
  writer.append(std::as_bytes(std::span(a)));
  writer.append(std::as_bytes(std::span(b)));
  writer.close();
  const SafetensorsFile file(path);
  std::vector<float> out(2);
  file.read("a", 4, 1, out);
  EXPECT_EQ(out, (std::vector<float>{2, 3}));
  file.read("b", 2, 0, out);
  EXPECT_EQ(out, (std::vector<float>{1, 2}));
}

// CRC-32 as everyone computes it: of "123456789" it is cbf43926, in any pieces.
TEST(Safetensors, ChecksumsStandInTheMetadata) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  {
    SafetensorsWriter writer(path, {{"a", StoredType::bf16, {4}}, {"b", StoredType::bf16, {2, 1}}});
    const std::string bytes =
        "12345678"
        "abcd";
    const auto all = std::as_bytes(std::span(bytes));
    writer.append(all.first(3));
    writer.append(all.subspan(3, 7));  // across the end of a
    writer.append(all.subspan(10));
    writer.close();
  }
  const std::string text = file_bytes(path);
  EXPECT_NE(text.find(R"({"__metadata__":{"format":"pt","crc32.a":"9ae0daaf","crc32.b":"ed82cd11"},)"),
            std::string::npos)
      << text;
  EXPECT_NO_THROW(SafetensorsFile(path).verify());
}

TEST(Safetensors, DamageIsFoundAndNamed) {
  const TemporaryFolder folder;
  const std::string right =
      R"({"__metadata__":{"crc32.a":"9ae0daaf","crc32.b":"ed82cd11"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  const auto error = [&](const std::string& header, const std::string& data) {
    const auto path = folder.write("x.safetensors", file_text(header, data));
    return error_text([&] { SafetensorsFile(path).verify(); });
  };
  EXPECT_EQ(error(right, "12345678abcd"), "");
  const std::string damaged = error(right, "12345678abce");
  EXPECT_NE(damaged.find("x.safetensors: b: the bytes have checksum"), std::string::npos) << damaged;
  EXPECT_NE(damaged.find("the header says ed82cd11"), std::string::npos) << damaged;
  std::string header = right;
  EXPECT_NE(error(header.replace(header.find("ed82"), 4, "ED82"), "12345678abcd").find("8 hexadecimal digits"),
            std::string::npos);
  header = right;
  EXPECT_NE(error(header.replace(header.find("crc32.b"), 7, "crc32.c"), "12345678abcd").find("b: has no checksum"),
            std::string::npos);
  // Another program's file: nothing to hold it against.
  header = right;
  while (header.find("crc32") != std::string::npos) header.replace(header.find("crc32"), 5, "md5xx");
  EXPECT_EQ(error(header, "damaged?????"), "");
}

TEST(Safetensors, WriterRefusesTooFewAndTooManyBytes) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path() / "x.safetensors", {{"a", StoredType::f32, {1}}});
  EXPECT_THROW(writer.close(), std::logic_error);
  EXPECT_THROW(writer.append(std::vector<std::byte>(5)), std::logic_error);
}

TEST(SafetensorsSet, FindsTensorsInTheShardsOfAnIndex) {
  const TemporaryFolder folder;
  const std::string one =
      file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", std::string("\0\0\x80\x3F", 4));
  const std::string two =
      file_text(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", std::string("\0\0\0\x40", 4));
  folder.write("model-1.safetensors", one);
  folder.write("model-2.safetensors", two);
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  const SafetensorsSet set(folder.path());
  float value = 0;
  set.read("b", 1, 0, std::span(&value, 1));
  EXPECT_EQ(value, 2.0f);
  EXPECT_NE(error_text([&] { set.read("c", 1, 0, std::span(&value, 1)); }).find("\"c\""), std::string::npos);
}

TEST(SafetensorsSet, AnIndexMustNotLeaveItsFolder) {
  const TemporaryFolder folder;
  const auto index = folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"../secret.safetensors"}})");
  EXPECT_NE(error_text([&] { SafetensorsSet set(index); }).find("beside the index"), std::string::npos);
}

}  // namespace
}  // namespace penstock::exec
