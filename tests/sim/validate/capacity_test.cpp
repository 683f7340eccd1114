#include "sim/validate/capacity.h"

#include <gtest/gtest.h>

#include <fstream>

#include "sim/validate/row_table.h"
#include "sim/validate/validation.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

const fs::path kPublished = source_folder() / "scenarios/published";
constexpr std::int64_t kNeedsCuts = 262'144;  // sequences from here on fit as a preset's single piece only by chance

// Every ninth row of ml_dataflow, of which all ran.
TEST(Fits, WhatRanFitsUnderThePlannerAndMostOfItUnderThePreset) {
  const fs::path base = kPublished / "ml-dataflow.toml", csv = kPublished / "ml-dataflow.csv";
  const std::vector<TableRow> table = read_row_table(csv);
  int rows = 0, as_published = 0, planned = 0;
  for (std::size_t i = 0; i < table.size(); i += 9) {
    const Scenario scenario = read_table_row(base, csv, table[i]);
    if (scenario.sequence_length >= kNeedsCuts) continue;
    ++rows;
    as_published += published_excess(scenario, schedule_memory(make_schedule(scenario.policy_input()))).empty();
    planned += plan_fits(planned_alike(scenario));
  }
  ASSERT_GE(rows, 80);
  EXPECT_GE(planned, 0.98 * rows);
  EXPECT_GE(as_published, 0.90 * rows);
}

// Of 262,144 and 1,048,576 tokens; and 524,288 under the limits of each.
TEST(Fits, EverySequenceThatNeedsCutsFitsUnderThePlanner) {
  const fs::path base = kPublished / "ml-dataflow.toml", csv = kPublished / "ml-dataflow.csv";
  int rows = 0;
  for (const TableRow& row : read_row_table(csv)) {
    Scenario scenario = planned_alike(read_table_row(base, csv, row));
    if (scenario.sequence_length < kNeedsCuts) continue;
    ++rows;
    EXPECT_TRUE(plan_fits(scenario)) << row.name;
    scenario.sequence_length = 524'288;
    EXPECT_TRUE(plan_fits(scenario)) << row.name << " with 524,288 tokens";
  }
  EXPECT_EQ(rows, 51);
}

TEST(Fits, UnderThePlannerNumericsStayAndADriveIsNotUsed) {
  const Scenario scenario = read_scenario(kPublished / "ml-dataflow.toml");
  const Scenario planned = planned_alike(scenario);
  EXPECT_EQ(planned.policy.name, "penstock");
  EXPECT_EQ(planned.policy.numerics.states, StateFormat::bf16);
  EXPECT_FALSE(planned.policy.numerics.clip);
  EXPECT_EQ(planned.machine.nvme.bytes, 0);
  EXPECT_FALSE(planned.policy.resident_edges);
}

TEST(Fits, OnlyRowsThatArePublishedAsFittingAreAsked) {
  const TemporaryFolder folder;
  fs::copy(source_folder() / "tests/sim/program/golden/data", folder.path(), fs::copy_options::recursive);
  const auto write = [&](const char* name, const char* hbm, const char* fits) {
    folder.write(
        fs::path("published") / name,
        std::string("[model]\nconfig = \"../models/tiny.json\"\n[machine]\nhardware = \"../hardware/desk.toml\"\n") +
            "hbm = \"" + hbm + "\"\n[workload]\nsequence_length = 64\nsequences = 4\nmicro_batch = 2\n" +
            "[policy]\nname = \"megatrain\"\n[published]\nsource = \"a paper\"\nfits = " + fits + "\n");
  };
  write("a.toml", "256 MiB", "true");
  write("b.toml", "1 MiB", "true");
  write("c.toml", "1 MiB", "false");
  const std::vector<FitRow> rows = fit_rows(folder.path() / "published", {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].as_published && rows[0].planned);
  EXPECT_EQ(rows[1].scenario, "b");
  EXPECT_EQ(rows[1].system, "megatrain");
  EXPECT_EQ(rows[1].sequence_length, 64);
  EXPECT_FALSE(rows[1].as_published || rows[1].planned);
  EXPECT_NE(rows[1].excess.find("hbm needs"), std::string::npos);
  EXPECT_MENTIONS(error_text([&] { fit_rows(folder.path() / "models", {}); }), "holds no scenario with [published]");
}

}  // namespace
}  // namespace penstock::sim
