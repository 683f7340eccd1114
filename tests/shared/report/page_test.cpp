#include "shared/report/page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/shared/report/packed.h"

namespace penstock {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

constexpr const char* kHostile = "</script><img src=x>\"'&<!--";
constexpr const char* kEscaped = "&lt;/script&gt;&lt;img src=x&gt;&quot;&#39;&amp;&lt;!--";

TEST(ReportPage, EscapesWhateverItIsGiven) {
  ReportPage page(kHostile, kHostile);
  const std::size_t own = count(page.html(), "</script>");
  page.tiles({{kHostile, kHostile}});
  page.section(kHostile, kHostile);
  page.paragraph(kHostile);
  page.warning(kHostile);
  page.sides({kHostile});
  page.preformatted(kHostile);
  page.table({kHostile, {{kHostile, Column::Kind::text}}, {{{{kHostile, {}, {}}}}}, true});
  page.charts(
      {{kHostile, {kHostile, kHostile}, {kHostile, kHostile}, {{kHostile, {{1, 2, kHostile}}}}, {{1, kHostile}}}});
  const std::string html = page.html();
  EXPECT_EQ(html.find(kHostile), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(count(html, "</script>"), own + 1);  // the chart's own data
  // title, h1, subtitle, two of a tile, section and note, paragraph, warning, side, preformatted, caption, its label,
  // head, cell
  EXPECT_EQ(count(html, kEscaped), 15u);
  EXPECT_EQ(data_of(html).at("series").at(0).at("points").at(0).at("label"), kHostile);
}

TEST(ReportPage, MayLoadNothing) {
  ReportPage page("title", "");
  page.charts({{"", {"x", "bytes"}, {"y", "seconds"}, {{"", {{1, 2, ""}}}}, {}}});
  const std::string html = page.html();
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url("})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(ReportPage, CellsHaveWhatTheyAreSortedBy) {
  ReportPage page("title", "");
  page.table(
      {"sizes",
       {{"size"}, {"", Column::Kind::meters}},
       {{{{"1.50 KiB", 1536.0, {}}, meters_cell({{0.25, 0}, {7, 1}})}}, {{{"no room", {}, {}}}}, {{{"odd", NAN, {}}}}},
       true});
  const std::string html = page.html();
  EXPECT_NE(html.find("<td data-v=1536>1.50 KiB</td>"), std::string::npos);
  EXPECT_NE(html.find("<td>no room</td><td></td>"), std::string::npos);  // every row has every column
  EXPECT_NE(html.find("<td>odd</td>"), std::string::npos);
  EXPECT_NE(html.find("<i class=side0 style=\"width:25.00%\">"), std::string::npos);
  EXPECT_NE(html.find("<i class=side1 style=\"width:100.00%\">"), std::string::npos);
  EXPECT_NE(html.find("<th scope=col><button type=button>size</button></th>"), std::string::npos);
}

TEST(ReportPage, ChartsWithoutPointsAreLeftOut) {
  ReportPage page("title", "");
  page.charts({{"empty", {"x", "bytes"}, {"y", "seconds"}, {{"none", {}}}, {}}});
  EXPECT_EQ(page.html().find("class=points"), std::string::npos);
}

}  // namespace
}  // namespace penstock
