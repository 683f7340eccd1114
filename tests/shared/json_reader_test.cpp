#include "shared/json_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/shared/error_text.h"

namespace penstock {
namespace {

std::string refusal(const std::string& text) {
  return error_text([&] { parse_json(text, "x.json"); });
}

TEST(ParseJson, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "c": [{"d": 1}], "b": 2}})"),
            "x.json: the key \"b\" stands twice in one object; leave one of the two");
  // Once in each of several objects is as it should be.
  EXPECT_EQ(refusal(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]})"), "");
}

TEST(ParseJson, RefusesZeroBytes) {
  // The parser would end there and call the rest not there.
  EXPECT_EQ(
      refusal(std::string("{}\0{", 4)),
      "x.json: is not JSON: byte 2 is zero; the file is damaged or of another kind: take another copy, or the right "
      "file");
}

TEST(ParseJson, SaysWhetherTheFileIsDamagedOrAnother) {
  EXPECT_EQ(
      refusal("{\"a\": 1"),
      "x.json: is not JSON: parse error at line 1, column 8: syntax error while parsing object - unexpected end of "
      "input; expected '}'; mend it there, or have the file written anew");
  EXPECT_NE(refusal("# TOML").find("a JSON file begins with {: was another file meant?"), std::string::npos);
  EXPECT_NE(refusal("").find("was another file meant?"), std::string::npos);
}

TEST(JsonObject, NoTextHoldsWhatATerminalObeys) {
  const nlohmann::json json = {{"plain", "two\nlines\tof it"}, {"red", "\x1b[31m"}};
  JsonObject object(json, "x.json");
  EXPECT_EQ(object.text("plain"), "two\nlines\tof it");
  EXPECT_NE(error_text([&] { object.text("red"); }).find("x.json.red: expected a text without control characters"),
            std::string::npos);
}

TEST(JsonObject, SaysWhatAMissingKeyShouldHold) {
  const nlohmann::json empty = nlohmann::json::object();
  JsonObject object(empty, "x.json");
  constexpr std::string_view names[] = {"one", "two"};
  EXPECT_EQ(error_text([&] { object.integer("a", 1, 9); }),
            "x.json.a: is missing; expected a whole number from 1 to 9");
  EXPECT_EQ(error_text([&] { object.number("a", 0, 0.5); }), "x.json.a: is missing; expected a number from 0 to 0.5");
  EXPECT_EQ(error_text([&] { object.boolean("a"); }), "x.json.a: is missing; expected true or false");
  EXPECT_EQ(error_text([&] { object.text("a"); }), "x.json.a: is missing; expected a text");
  EXPECT_EQ(error_text([&] { object.choice("a", names); }), "x.json.a: is missing; expected one of one, two");
  EXPECT_EQ(error_text([&] { object.array("a"); }), "x.json.a: is missing; expected a list");
  EXPECT_EQ(error_text([&] { object.object("a"); }), "x.json.a: is missing; expected an object");
}

TEST(JsonObject, NamesTheKeyThatIsThereInstead) {
  const nlohmann::json json = {{"numHiddenLayers", 4}, {"vocab-size", 8}, {"head_dims", 2}, {"hidden_size", 1}};
  JsonObject object(json, "x.json");
  EXPECT_EQ(
      error_text([&] { object.integer("num_hidden_layers", 1, 9); }),
      "x.json.num_hidden_layers: is missing; expected a whole number from 1 to 9; there is numHiddenLayers: did you "
      "mean num_hidden_layers?");
  EXPECT_NE(error_text([&] { object.text("vocab_size"); }).find("there is vocab-size"), std::string::npos);
  EXPECT_NE(error_text([&] { object.text("head_dim"); }).find("there is head_dims"), std::string::npos);
  EXPECT_EQ(error_text([&] { object.text("intermediate_size"); }),
            "x.json.intermediate_size: is missing; expected a text");
}

TEST(JsonObject, AWrongChoiceNamesTheNearest) {
  const nlohmann::json json = {{"tier", "darm"}};
  JsonObject object(json, "x.json");
  constexpr std::string_view names[] = {"hbm", "dram", "nvme"};
  EXPECT_EQ(error_text([&] { object.choice("tier", names); }),
            "x.json.tier: expected one of hbm, dram, nvme, found \"darm\"; did you mean \"dram\"?");
}

TEST(ParseJson, TakesAByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(parse_json("\xef\xbb\xbf{\r\n\"a\": 1\r\n}\r\n", "x.json")["a"], 1);
}

}  // namespace
}  // namespace penstock
