#include "sim/validate/row_table.h"

#include <gtest/gtest.h>

#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::sim {
namespace {

class RowTableTest : public testing::Test {
 protected:
  std::vector<TableRow> read(const std::string& text) const { return read_row_table(folder_.write("rows.csv", text)); }
  std::string error(const std::string& text) const {
    return error_text([&] { read(text); });
  }
  TemporaryFolder folder_;
};

TEST_F(RowTableTest, CellsAreOverridesAndEmptyOnesAreNone) {
  const std::vector<TableRow> rows = read(
      "# a remark\nname,policy.keep_layers,published.step\r\nfirst,\"1-3 input hbm, 4 everything hbm\",9.5 s\n"
      "\nsecond,,\"1 \"\"s\"\"\"\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "first");
  EXPECT_EQ(rows[0].overrides,
            (std::vector<std::string>{"policy.keep_layers=1-3 input hbm, 4 everything hbm", "published.step=9.5 s"}));
  EXPECT_EQ(rows[1].overrides, (std::vector<std::string>{"published.step=1 \"s\""}));
}

TEST_F(RowTableTest, SaysWhichLineIsWrong) {
  EXPECT_MENTIONS(error("policy.keep,published.step\na,1 s\n"), "rows.csv:1: the first column must be \"name\"");
  EXPECT_MENTIONS(error("name,published.step\na,1 s,2 s\n"), "rows.csv:2: 3 cells, the header has 2");
  EXPECT_MENTIONS(error("name,published.step\na,1 s\na,2 s\n"), "rows.csv:3: a row of the name \"a\" stands there");
  EXPECT_MENTIONS(error("name,published.step\na,\"1 s\n"), "rows.csv:2: a quotation mark is not closed");
  EXPECT_MENTIONS(error("name,published.step\n"), "has no rows");
}

}  // namespace
}  // namespace penstock::sim
