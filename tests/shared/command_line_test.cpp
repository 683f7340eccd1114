#include "shared/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <vector>

#include "shared/error.h"

namespace penstock {
namespace {

/// What a program says whose work throws, and its exit code.
struct Ending {
  int code;
  std::string said;
};

template <typename Throw>
Ending ending(Throw work) {
  std::vector<std::string> words{"program", "fit", "s.toml"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStderr();
  const int code = exit_code(static_cast<int>(argv.size()), argv.data(), "program", [&]() -> int {
    work();
    return 0;
  });
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(ExitCode, IsThatOfTheKindOfError) {
  EXPECT_EQ(ending([] {}).code, kExitDone);
  const Ending input = ending([] { throw InputError("x.toml: no"); });
  EXPECT_EQ(input.code, kExitBadInput);
  EXPECT_EQ(input.said, "program: x.toml: no\n");
  EXPECT_EQ(ending([] { throw DoesNotFit("too large"); }).code, kExitDoesNotFit);
  EXPECT_EQ(ending([] { throw std::runtime_error("disk full"); }).code, kExitFailed);
}

TEST(ExitCode, NoNameCommandsTheTerminal) {
  EXPECT_EQ(ending([] { throw InputError("a\033[31m\x7f\rb\n\tc \xc3\xa4: no"); }).said,
            "program: a\\x1b[31m\\x7f\\x0db\n\tc \xc3\xa4: no\n");
}

TEST(ExitCode, NoMemoryIsASentenceWithPlaceAndCure) {
  for (const Ending& none : {ending([] { throw std::bad_alloc(); }), ending([] { throw std::length_error("vector"); }),
                             ending([] { throw std::bad_array_new_length(); })}) {
    EXPECT_EQ(none.code, kExitFailed);
    EXPECT_EQ(none.said.find("program: fit s.toml: the memory of this process is used up; give it more"), 0u)
        << none.said;
  }
}

TEST(ExitCode, WhatTheFileSystemRefusesIsASentence) {
  namespace fs = std::filesystem;
  const auto refusal = [](int reason, const fs::path& path) {
    return ending([&] { throw fs::filesystem_error("status", path, std::error_code(reason, std::system_category())); });
  };
  // A name is bad input, a drive that fails is not.
  EXPECT_EQ(refusal(ENAMETOOLONG, std::string(300, 'a')).code, kExitBadInput);
  EXPECT_EQ(refusal(ENAMETOOLONG, std::string(300, 'a')).said,
            "program: " + std::string(200, 'a') + "...: File name too long\n");
  EXPECT_EQ(refusal(EACCES, "d/x").said, "program: d/x: Permission denied; give yourself the right to read it\n");
  EXPECT_EQ(refusal(EIO, "d/x").code, kExitFailed);
  EXPECT_EQ(refusal(EIO, "d/x").said, "program: d/x: Input/output error\n");
  EXPECT_EQ(refusal(ENOENT, "").said,
            "program: the current folder: No such file or directory; change to one that is there and try again\n");
}

TEST(OneOf, NamesTheNearest) {
  const Check check = one_of({"md", "csv", "json"});
  EXPECT_EQ(check("csv"), "");
  EXPECT_EQ(check("JSON"), "expected md, csv or json, found \"JSON\"; did you mean json?");
  EXPECT_EQ(check("html"), "expected md, csv or json, found \"html\"");
  EXPECT_EQ(check(""), "expected md, csv or json, found \"\"");
}

}  // namespace
}  // namespace penstock
