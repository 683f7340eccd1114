#include "exec/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

#include "tests/exec/checkpoint/published_files.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

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
  const auto path = folder.write("x.safetensors", safetensors_text({{"a", {"BF16", {1}, "\xC0\x3F"}},
                                                                    {"b", {"F16", {1, 1}, {"\x00\xC0", 2}}},
                                                                    {"c", {"F32", {}, {"\x00\x00\x80\x3E", 4}}},
                                                                    {"d", zeros("I64", {3}, 8)}}));
  const SafetensorsFile file(path);
  float value = 0;
  file.read("a", 0, std::span(&value, 1));
  EXPECT_EQ(value, 1.5f);
  file.read("b", 0, std::span(&value, 1));
  EXPECT_EQ(value, -2.0f);
  file.read("c", 0, std::span(&value, 1));
  EXPECT_EQ(value, 0.25f);
  EXPECT_EQ(file.find("b")->shape, (Shape{1, 1}));
  EXPECT_EQ(file.find("c")->shape, Shape{});
  EXPECT_EQ(file.find("d")->dtype, "I64");
  EXPECT_MENTIONS(error_text([&] { file.read("d", 0, std::span(&value, 1)); }), "\"d\" of dtype F32, BF16 or F16");
  EXPECT_THROW(file.read("a", 1, std::span(&value, 1)), std::out_of_range);
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

TEST(Safetensors, RefusesHeadersThatLie) {
  const auto error = [](const std::string& header, const std::string& data) {
    return open_error(safetensors_text(header, data));
  };
  EXPECT_MENTIONS(open_error(std::string("\x01\x02\x03", 3)), "but binary (control characters)");
  EXPECT_MENTIONS(open_error(std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{}", 10)),
                  "header would have 9223372036854775807 bytes");
  EXPECT_MENTIONS(error("{", ""), "x.safetensors: is not JSON");
  EXPECT_MENTIONS(error(R"( {"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"),
                  "no safetensors file but");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"), "[2] need 8");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})", "123456781234"), "[2] need 8");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "1"),
                  "[3] of F4 fill no whole bytes");
  EXPECT_EQ(error(R"({"__metadata__":null,"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "1"), "");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", "1234"),
                  "a list of sizes");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", "1234"),
                  "a list of sizes");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[1000000000,1000000000],"data_offsets":[0,4]}})", "1234"),
                  "absurd");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "1234"), "no [begin, end]");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"), "no [begin, end]");
  EXPECT_MENTIONS(
      error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]}})", "1234"),
      "no [begin, end]");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0.0,4.0]}})", "1234"), "must be [begin");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"FP32","shape":[1],"data_offsets":[0,4]}})", "1234"), "no \"FP32\"");
  EXPECT_MENTIONS(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"stride":[1]}})", "1234"), "stride");
  EXPECT_MENTIONS(error(R"({"a":[1,2]})", ""), "expected an object");
  EXPECT_MENTIONS(error(R"({"__metadata__":{"step":3}})", ""), "__metadata__.step: must be a text");
  EXPECT_MENTIONS(error(R"({"__metadata__":[]})", ""), "must be an object");
}

TEST(Safetensors, RefusesANameThatStandsTwice) {
  EXPECT_MENTIONS(
      open_error(safetensors_text(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          "12345678")),
      "\"a\" stands twice");
}

/// Tensors a of 4 and b of 8 bytes at the given offsets in so many bytes of data.
std::string layout_error(int a, int b, std::size_t data) {
  return open_error(
      safetensors_text(fmt::format(R"({{"a":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}},)", a, a + 4) +
                           fmt::format(R"("b":{{"dtype":"BF16","shape":[2,2],"data_offsets":[{},{}]}}}})", b, b + 8),
                       std::string(data, 'x')));
}

// As in the format: each byte of the data belongs to one tensor, whatever their order.
TEST(Safetensors, TensorsNeitherOverlapNorLeaveHoles) {
  EXPECT_EQ(layout_error(0, 4, 12), "");
  EXPECT_EQ(layout_error(8, 0, 12), "");
  EXPECT_MENTIONS(layout_error(0, 0, 8), "a and b overlap");
  EXPECT_MENTIONS(layout_error(0, 2, 10), "a and b overlap");
  EXPECT_MENTIONS(layout_error(2, 0, 8), "b and a overlap");
  EXPECT_MENTIONS(layout_error(0, 6, 14), "bytes 4 to 6 of the data, before b, belong to no tensor");
  EXPECT_MENTIONS(layout_error(4, 8, 16), "bytes 0 to 4 of the data, before a, belong to no tensor");
  EXPECT_MENTIONS(layout_error(0, 4, 13), "1 bytes behind the last tensor");
  EXPECT_MENTIONS(layout_error(0, 4, 11), "it was cut off");
  EXPECT_MENTIONS(layout_error(0, 1000000000, 12), "it was cut off");
  EXPECT_MENTIONS(open_error(safetensors_text("{}", "1234")), "4 bytes behind the last tensor");
}

TEST(Safetensors, ReadsEmptyTensorsAndEveryDtypesSize) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.safetensors", safetensors_text({{"bool", zeros("BOOL", {3}, 1)},
                                                                    {"empty", zeros("F32", {0, 4}, 4)},
                                                                    {"f4", {"F4", {2, 3}, "abc"}},
                                                                    {"f6", {"F6_E2M3", {4}, "abc"}},
                                                                    {"f64", zeros("F64", {2}, 8)},
                                                                    {"f8", zeros("F8_E4M3", {5}, 1)},
                                                                    {"z", zeros("U16", {1}, 2)}}));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 7u);
  EXPECT_EQ(file.find("empty")->elements, 0);
  EXPECT_EQ(file.find("f4")->bytes, 3);
}

TEST(Safetensors, ADownloadThatWasCutOffIsCalledSo) {
  const std::string whole = safetensors_text({{"a", f32_tensor({2}, {1, 2})}, {"b", f32_tensor({2}, {1, 2})}});
  EXPECT_EQ(open_error(whole), "");
  for (const std::size_t size : {whole.size() - 1, whole.size() - 9, whole.size() - 40, std::size_t{20}})
    EXPECT_MENTIONS(open_error(whole.substr(0, size)), "it was cut off");
  EXPECT_MENTIONS(open_error(""), "is empty");
}

TEST(Safetensors, NeverHangsOnWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_MENTIONS(error_text([&] { SafetensorsFile file(pipe); }), "is not a regular file; name one");
  EXPECT_MENTIONS(error_text([&] { SafetensorsFile file(folder.path()); }), "but a folder");
  EXPECT_MENTIONS(error_text([&] { SafetensorsFile file("/dev/zero"); }), "is not a regular file");
  EXPECT_MENTIONS(error_text([&] { SafetensorsFile file(folder.path() / "no"); }), "cannot be opened");
}

TEST(Safetensors, DemandsExactlyWhatIsNeeded) {
  const TemporaryFolder folder;
  const SafetensorsFile file(folder.write(
      "x.safetensors",
      safetensors_text({{"a", f32_tensor({2, 3}, std::vector<float>(6))}, {"b", bf16_tensor({2}, {1, 2})}})));
  const auto error = [&](const std::vector<TensorEntry>& entries) {
    return error_text([&] { file.require_exactly(entries); });
  };
  const TensorEntry a{"a", StoredType::f32, {2, 3}}, b{"b", StoredType::bf16, {2}};
  EXPECT_EQ(error({a, b}), "");
  EXPECT_MENTIONS(error({a}), "b: is not used (BF16 [2]); 1 tensors are needed, 2 are there");
  EXPECT_MENTIONS(error({a, b, {"c", StoredType::f32, {1}}}), "c: is not there; F32 [1] is needed");
  EXPECT_MENTIONS(error({{"a", StoredType::f32, {3, 2}}, b}), "a: is F32 [2, 3]; F32 [3, 2] is needed");
  EXPECT_MENTIONS(error({{"a", StoredType::f32, {6}}, b}), "F32 [6] is needed");
  EXPECT_MENTIONS(error({{"a", StoredType::bf16, {2, 3}}, b}), "BF16 [2, 3] is needed");
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
  file.read("a", 1, out);
  EXPECT_EQ(out, (std::vector<float>{2, 3}));
  file.read("b", 0, out);
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
    const auto path = folder.write("x.safetensors", safetensors_text(header, data));
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
  EXPECT_NE(error(header.replace(header.find("crc32.b"), 7, "crc32.c"), "12345678abcd").find("has a checksum of c"),
            std::string::npos);
  header = right;
  EXPECT_NE(error(header.erase(header.find(R"(,"crc32.b")"), 21), "12345678abcd").find("b: has no checksum"),
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

}  // namespace
}  // namespace penstock::exec
