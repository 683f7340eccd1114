#include "shared/json_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/error.h"

namespace penstock {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "x.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ParseJson, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "c": [{"d": 1}], "b": 2}})"),
            "x.json: the key \"b\" stands twice in one object; leave one of the two");
  // Once in each of several objects is as it should be.
  EXPECT_EQ(refusal(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]})"), "");
}

TEST(ParseJson, RefusesZeroBytes) {
  // The parser would end there and call the rest not there.
  EXPECT_EQ(refusal(std::string("{}\0{", 4)),
            "x.json: is not JSON: byte 2 is zero; the file is damaged or of another kind");
}

TEST(ParseJson, TakesAByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(parse_json("\xef\xbb\xbf{\r\n\"a\": 1\r\n}\r\n", "x.json")["a"], 1);
}

}  // namespace
}  // namespace penstock
