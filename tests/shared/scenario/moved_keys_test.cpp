// Keys that stood in [run] once.
#include "shared/scenario/moved_keys.h"

#include <gtest/gtest.h>

#include "tests/shared/error_text.h"

namespace penstock {
namespace {

TomlDocument moved(const std::string& text) {
  TomlDocument document = parse_toml(text, "s.toml");
  move_keys(document);
  return document;
}

TEST(MovedKeys, StandWhereTheyBelongWithTheirPlaceAndANote) {
  const TomlDocument document = moved("[run]\nsteps = 3\ndata = \"d\"\nlearning_rate_warmup_steps = 5\nseed = 7\n");
  const auto value = [&](const char* table, const char* key) { return document.tables.at(table).values.at(key); };
  EXPECT_EQ(std::get<std::string>(value("data", "file").value), "d");
  EXPECT_EQ(value("data", "file").place, "s.toml:3");
  EXPECT_EQ(std::get<std::int64_t>(value("optimizer", "warmup_steps").value), 5);
  EXPECT_EQ(std::get<std::int64_t>(value("init", "seed").value), 7);
  EXPECT_EQ(std::get<std::int64_t>(value("data", "seed").value), 7);
  EXPECT_EQ(document.tables.at("run").values.size(), 1u);  // steps
  ASSERT_EQ(document.notes.size(), 3u);                    // once for each key
  EXPECT_EQ(document.notes[0], "s.toml:5: [run] seed stands in init.seed and data.seed now");
  EXPECT_EQ(document.notes[1], "s.toml:3: [run] data stands in data.file now");
}

TEST(MovedKeys, NewKeysNeedNoNote) {
  EXPECT_TRUE(moved("[run]\nsteps = 3\n[data]\nfile = \"d\"\n").notes.empty());
  EXPECT_TRUE(moved("[model]\nconfig = \"d\"\n").notes.empty());
}

TEST(MovedKeys, BothAtOnceAreRefused) {
  EXPECT_EQ(error_text([] { moved("[run]\nbeta1 = 0.8\n[optimizer]\nbeta1 = 0.8\n"); }),
            "s.toml:2: [run] beta1: stands beside s.toml:4: [optimizer] beta1, which says the same; keep that");
  EXPECT_MENTIONS(error_text([] { moved("[run]\nseed = 1\n[data]\nseed = 1\n"); }), "[data] seed");
}

TEST(MovedKeys, NamesOfTheCommandLine) {
  EXPECT_EQ(moved_names("run.data"), std::vector<std::string>{"data.file"});
  EXPECT_EQ(moved_names("run.seed"), (std::vector<std::string>{"init.seed", "data.seed"}));
  EXPECT_TRUE(moved_names("run.steps").empty());
  EXPECT_TRUE(moved_names("data.file").empty());
}

}  // namespace
}  // namespace penstock
