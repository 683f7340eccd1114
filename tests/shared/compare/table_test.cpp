#include "shared/compare/table.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Table, AlignsAndHeadingsDoNotWiden) {
  EXPECT_EQ(table_text({{"", "a", "bb"}, {"a heading wider than any column"}, {"  x", "1.5", "2"}}),
            "       a  bb\n"
            "a heading wider than any column\n"
            "  x  1.5   2\n");
}

// The other columns take 2 + 4, so that the first has 20 of 26: cut behind commas, else at blanks.
TEST(Table, LongCellsOfTheFirstColumnGoOnBelow) {
  EXPECT_EQ(table_text({{"plan", "step"}, {"  groups of 2, inputs kept in HBM, all", "1 s"}, {"  short", "22 s"}}, 26),
            "plan                step\n"
            "  groups of 2,       1 s\n"
            "    inputs kept in\n"
            "    HBM, all\n"
            "  short             22 s\n");
  // A word that is longer than the column stays whole, and nothing is lost.
  EXPECT_EQ(table_text({{"a", "b"}, {"unbreakable, x", "1"}}, 8), "a             b\nunbreakable,  1\n  x\n");
}

TEST(Table, PercentIsSigned) {
  EXPECT_EQ(percent_text(0.0123), "+1.23 %");
  EXPECT_EQ(percent_text(-0.5), "-50.00 %");
  EXPECT_EQ(percent_text(-1e-9), "0.00 %");  // no sign where nothing is left to see
}

TEST(Table, NothingMeasuredIsNoShare) {
  EXPECT_EQ(bytes_error_text(1.5 * (1 << 20), 1 << 20), "+50.00 %");
  EXPECT_EQ(bytes_error_text(0, 1 << 20), "-100.00 %");
  EXPECT_EQ(bytes_error_text(20 << 20, 0), "20.00 MiB instead of none");
  EXPECT_EQ(bytes_error_text(0, 0), "0.00 %");
}

}  // namespace
}  // namespace penstock
