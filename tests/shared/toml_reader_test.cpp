#include "shared/toml_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

std::string parse_refusal(const std::string& text) {
  return error_text([&] { parse_toml(text, "x.toml"); });
}

TEST(TomlReader, FlattensTablesAndKeepsLines) {
  const TomlDocument document = parse_toml("name = \"x\"\n[a]\nb = 1\n[a.c]\n8 = 2.5\n\"4 KiB\" = true\n", "x.toml");
  TomlSection top(document, "");
  EXPECT_EQ(top.text("name"), "x");
  TomlSection a(document, "a");
  EXPECT_EQ(a.integer("b", 0, 10), 1);
  EXPECT_EQ(a.place("b"), "x.toml:3: [a] b");
  TomlSection c(document, "a.c");
  EXPECT_EQ(c.number("8", 0, 10), 2.5);
  EXPECT_TRUE(c.boolean("4 KiB"));
  EXPECT_EQ(c.place("4 KiB"), "x.toml:6: [a.c] 4 KiB");
  EXPECT_FALSE(TomlSection(document, "d").exists());
}

TEST(TomlReader, NoTextHoldsWhatATerminalObeys) {
  const TomlDocument document = parse_toml("red = \"\\u001b[31m\"\nplain = \"a\\tb\"\n", "x.toml");
  TomlSection top(document, "");
  EXPECT_EQ(top.text("plain"), "a\tb");
  EXPECT_NE(error_text([&] { top.text("red"); }).find("red: expected a text without control characters"),
            std::string::npos);
}

TEST(TomlReader, WrongTypesNameThePlaceAndTheValue) {
  const TomlDocument document = parse_toml("[a]\ni = 1\nf = 1.5\ns = \"text\"\nb = true\nn = nan\n", "x.toml");
  TomlSection a(document, "a");
  EXPECT_EQ(error_text([&] { a.text("i"); }), "x.toml:2: [a] i: expected a text in quotes, found 1");
  EXPECT_EQ(error_text([&] { a.integer("f", 0, 9); }),
            "x.toml:3: [a] f: expected a whole number from 0 to 9, found 1.5");
  EXPECT_EQ(error_text([&] { a.integer("i", 2, 9); }), "x.toml:2: [a] i: expected a whole number from 2 to 9, found 1");
  EXPECT_EQ(error_text([&] { a.boolean("s"); }), "x.toml:4: [a] s: expected true or false, found \"text\"");
  EXPECT_EQ(error_text([&] { a.number("b", 0, 1); }), "x.toml:5: [a] b: expected a number from 0 to 1, found true");
  EXPECT_NE(error_text([&] { a.number("n", 0, 1); }), "");
  EXPECT_EQ(error_text([&] { a.text("x"); }), "x.toml:1: [a] x: is missing; expected a text in quotes");
  EXPECT_EQ(error_text([&] { a.integer("x", 0, 9); }),
            "x.toml:1: [a] x: is missing; expected a whole number from 0 to 9");
  EXPECT_EQ(error_text([&] { a.bytes("x", 0); }), "x.toml:1: [a] x: is missing; expected a size, such as \"24 GiB\"");
  constexpr std::string_view names[] = {"one", "two"};
  EXPECT_EQ(error_text([&] { a.choice("s", names); }),
            "x.toml:4: [a] s: expected one of \"one\", \"two\", found \"text\"");
}

TEST(TomlReader, ABareNumberHasLostItsUnit) {
  const TomlDocument document = parse_toml("[a]\nhbm = 24\nzero = \"0 GB/s\"\n", "x.toml");
  TomlSection a(document, "a");
  EXPECT_NE(error_text([&] { a.bytes("hbm", 0); }).find("x.toml:2: [a] hbm: expected a size with its unit"),
            std::string::npos);
  EXPECT_EQ(error_text([&] { a.bandwidth("zero"); }), "x.toml:3: [a] zero: expected more than zero, found \"0 GB/s\"");
}

TEST(TomlReader, UnknownKeysAndTablesNameTheNearestKnownOne) {
  const TomlDocument document = parse_toml("[gpu]\nhbm_bandwith = 1\n[lnik]\na = 1\n", "x.toml");
  TomlSection gpu(document, "gpu");
  gpu.has("hbm");
  gpu.has("hbm_bandwidth");
  EXPECT_EQ(error_text([&] { gpu.finish(); }),
            "x.toml:2: [gpu] hbm_bandwith: is not a key of this table; did you mean hbm_bandwidth?");
  EXPECT_EQ(error_text([&] {
              check_tables(document, {"gpu", "link", "nvme"});
            }),
            "x.toml:3: [lnik] is not a table of this file; did you mean link?");
  EXPECT_EQ(error_text([&] { check_tables(document, {"gpu", "lnik"}); }), "");
}

TEST(TomlReader, AFloatIsShownAsOne) {
  const TomlDocument document = parse_toml("[a]\nf = 64.0\ng = 6.5\nh = 1e3\ni = -2.0\nj = inf\nk = 1e300\n", "x.toml");
  TomlSection a(document, "a");
  EXPECT_EQ(error_text([&] { a.integer("f", 1, 100); }),
            "x.toml:2: [a] f: expected a whole number from 1 to 100, such as 64, found 64.0");
  EXPECT_EQ(error_text([&] { a.integer("g", 1, 100); }),
            "x.toml:3: [a] g: expected a whole number from 1 to 100, found 6.5");
  // Out of bounds even without the point.
  EXPECT_EQ(error_text([&] { a.integer("h", 1, 100); }),
            "x.toml:4: [a] h: expected a whole number from 1 to 100, found 1000.0");
  EXPECT_EQ(error_text([&] { a.integer("i", 1, 100); }),
            "x.toml:5: [a] i: expected a whole number from 1 to 100, found -2.0");
  EXPECT_EQ(error_text([&] { a.integer("j", 1, INT64_MAX); }),
            "x.toml:6: [a] j: expected a whole number from 1 to 9223372036854775807, found inf");
  EXPECT_EQ(error_text([&] { a.integer("k", 1, INT64_MAX); }),
            "x.toml:7: [a] k: expected a whole number from 1 to 9223372036854775807, found 1e+300");
  EXPECT_NE(error_text([&] { a.bytes("f", 1); }).find("64.0"), std::string::npos);
}

TEST(TomlReader, AMissingKeyNamesTheOneThatIsThere) {
  const TomlDocument document = parse_toml(
      "[w]\nsequence-length = 64\nSequences = 4\nmicrobatch = 2\nh2d = 1\nd2h_ = 3\nname = \"x\"\n", "x.toml");
  TomlSection w(document, "w");
  EXPECT_EQ(error_text([&] { w.integer("sequence_length", 1, 99); }),
            "x.toml:1: [w] sequence_length: is missing; expected a whole number from 1 to 99; there is sequence-length "
            "(in line 2): did you mean sequence_length?");
  EXPECT_NE(error_text([&] { w.text("sequences"); }).find("there is Sequences (in line 3)"), std::string::npos);
  EXPECT_NE(error_text([&] { w.text("micro_batch"); }).find("there is microbatch (in line 4)"), std::string::npos);
  EXPECT_NE(error_text([&] { w.text("d2h"); }).find("there is d2h_ (in line 6)"), std::string::npos);
  // Another key is not a slip of this one, and one that was asked for is right where it is.
  EXPECT_EQ(error_text([&] { w.text("link"); }), "x.toml:1: [w] link: is missing; expected a text in quotes");
  w.has("name");
  EXPECT_EQ(error_text([&] { w.text("nam"); }), "x.toml:1: [w] nam: is missing; expected a text in quotes");
}

TEST(TomlReader, AWrongChoiceNamesTheNearest) {
  const TomlDocument document = parse_toml("[a]\nb = \"Next-Forward\"\nc = \"somewhere\"\n", "x.toml");
  TomlSection a(document, "a");
  constexpr std::string_view names[] = {"end", "backward", "next_forward"};
  EXPECT_EQ(error_text([&] { a.choice("b", names); }),
            "x.toml:2: [a] b: expected one of \"end\", \"backward\", \"next_forward\", found \"Next-Forward\"; did you "
            "mean \"next_forward\"?");
  EXPECT_EQ(error_text([&] { a.choice("c", names); }),
            "x.toml:3: [a] c: expected one of \"end\", \"backward\", \"next_forward\", found \"somewhere\"");
}

TEST(TomlReader, RefusesWhatNoFileOfOursNeeds) {
  EXPECT_EQ(parse_refusal("[a]\nb = [1, 2]\n"), "x.toml:2: [a] b: expected a single value, found a list");
  EXPECT_EQ(parse_refusal("[a]\nb = 2026-01-01\n"), "x.toml:2: [a] b: expected a single value, found a date or time");
  EXPECT_EQ(parse_refusal("[a.b.c]\nd = 1\n"), "x.toml:1: [a.b] c: expected a single value, found a table");
  EXPECT_EQ(parse_refusal("[[a]]\nb = 1\n"), "x.toml:1: a: expected a single value, found a list");
}

TEST(TomlReader, SyntaxErrorsNameLineAndColumn) {
  EXPECT_NE(parse_refusal("[a]\nb = \n").find("x.toml:2:"), std::string::npos) << parse_refusal("[a]\nb = \n");
  EXPECT_NE(parse_refusal("[a]\nb = 1\nb = 2\n").find("x.toml:3:"), std::string::npos);
  EXPECT_NE(parse_refusal("[a\n").find("is not TOML"), std::string::npos);
}

TEST(TomlReader, BottomlessNestingIsRefusedBeforeItIsParsed) {
  std::string keys = "a";
  for (int i = 0; i < 100'000; ++i) keys += ".a";
  EXPECT_NE(parse_refusal(keys + " = 1\n").find("x.toml:1: the line has 200005 characters"), std::string::npos);
  // As deep as lines allow: a header and a key of almost 500 names each.
  const std::string names = keys.substr(0, 989);
  std::string deep = "[";
  deep += names + "]\n" + names + " = 1\n";
  EXPECT_NE(parse_refusal(deep).find("expected a single value, found a table"), std::string::npos);
  EXPECT_NE(parse_refusal("a = " + std::string(900, '[') + "\n"), "");
}

TEST(TomlReader, AnOversizedFileIsRefused) {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() <= static_cast<std::size_t>(kMaxTomlBytes)) text += "# a line of comment\n";
  const auto file = folder.write("large.toml", text);
  EXPECT_NE(error_text([&] { read_toml(file); }).find("more than the 262144"), std::string::npos);
}

TEST(TomlReader, APipeIsRefusedAndDoesNotHang) {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path() / "pipe.toml").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_text([&] { read_toml(pipe); }), pipe + ": is not a regular file; name one");
}

TEST(TomlReader, QuotedTextsReadBack) {
  EXPECT_EQ(toml_quoted("C:\\\"x\"\n"), R"("C:\\\"x\"\u000a")");
  for (const std::string text : {"", "a b", "\\ \" ' #", "tab\there", "\x01\x1f\x7f", "\xc3\xa9"})
    EXPECT_EQ(std::get<std::string>(parse_toml_value(toml_quoted(text), "--set").value), text);
}

TEST(TomlReader, OverridesNeedNoQuotes) {
  const auto parsed = [](const std::string& text) { return parse_toml_value(text, "--set").value; };
  EXPECT_EQ(std::get<std::string>(parsed("megatrain")), "megatrain");
  EXPECT_EQ(std::get<std::string>(parsed("\"megatrain\"")), "megatrain");
  EXPECT_EQ(std::get<std::string>(parsed("4 MiB")), "4 MiB");
  EXPECT_EQ(std::get<std::string>(parsed("a/b.json")), "a/b.json");
  EXPECT_EQ(std::get<std::string>(parsed("")), "");
  EXPECT_EQ(std::get<std::int64_t>(parsed("4")), 4);
  EXPECT_EQ(std::get<double>(parsed("3e-4")), 3e-4);
  EXPECT_EQ(std::get<bool>(parsed("false")), false);
  EXPECT_EQ(std::get<std::string>(parsed("1\nother = 2")), "1\nother = 2");  // no second key slips in
}

}  // namespace
}  // namespace penstock
