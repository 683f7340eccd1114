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

TEST(Table, PercentIsSigned) {
  EXPECT_EQ(percent_text(0.0123), "+1.23 %");
  EXPECT_EQ(percent_text(-0.5), "-50.00 %");
  EXPECT_EQ(percent_text(-1e-9), "0.00 %");  // no sign where nothing is left to see
}

}  // namespace
}  // namespace penstock
