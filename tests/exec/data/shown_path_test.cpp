#include "exec/data/shown_path.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::exec {
namespace {

TEST(ShownPath, PlainNamesAreThemselves) {
  for (const std::string name : {"a", "data/x_1-2.txt", "./a+b@c%d:e,f=g", "grüße/日本語.txt", "/"})
    EXPECT_EQ(shown_path(name), name);
}

TEST(ShownPath, OthersAreAsAShellTakesThem) {
  EXPECT_EQ(shown_path("my file.txt"), "'my file.txt'");
  EXPECT_EQ(shown_path("a$b;c"), "'a$b;c'");
  EXPECT_EQ(shown_path("a\\b"), "'a\\b'");
  EXPECT_EQ(shown_path("it's"), "$'it\\'s'");
  EXPECT_EQ(shown_path("a\nb"), "$'a\\nb'");
  EXPECT_EQ(shown_path("a\\\tb"), "$'a\\\\\\tb'");
  EXPECT_EQ(shown_path(""), "''");
}

TEST(ShownPath, NothingThatMovesTheCursorOrIsNotUtf8IsPrinted) {
  EXPECT_EQ(shown_path("a\x1b[2Jb"), "$'a\\x1b[2Jb'");
  EXPECT_EQ(shown_path("a\x7f"), "$'a\\x7f'");
  EXPECT_EQ(shown_path("caf\xe9"), "$'caf\\xe9'");  // Latin-1
  EXPECT_EQ(shown_path("a\xc2\x9b"
                       "b"),
            "$'a\\xc2\\x9bb'");  // C1: another way to write escape [
  EXPECT_EQ(shown_path("a\xe2\x80\xae"
                       "txt"),
            "$'a\\xe2\\x80\\xaetxt'");                          // right to left
  EXPECT_EQ(shown_path("\xed\xa0\x80"), "$'\\xed\\xa0\\x80'");  // a surrogate
  EXPECT_EQ(shown_path("\xc0\xaf"), "$'\\xc0\\xaf'");           // overlong
  EXPECT_EQ(shown_path("x\xe6\x97"), "$'x\\xe6\\x97'");         // cut off
}

}  // namespace
}  // namespace penstock::exec
