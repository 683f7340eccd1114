// [workload] data: what a file of tokens makes of a scenario's rows.
#include "shared/scenario/workload_data.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/shared/data/token_file_bytes.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

class WorkloadData : public testing::Test {
 protected:
  Scenario read(const std::string& more, const std::vector<std::string>& overrides = {}) const {
    const std::string text = "[model]\nconfig = \"" + (source_folder() / "scenarios/models/quickstart.json").string() +
                             "\"\n[machine]\nhardware = \"" +
                             (source_folder() / "scenarios/hardware/this-cpu.toml").string() + "\"\n" +
                             "[workload]\nsequence_length = 10\nsequences = 4\nmicro_batch = 2\n" + more;
    return parse_scenario(text, "x.toml", folder_.path(), overrides);
  }
  std::string refusal(const std::string& more) const {
    return error_text([&] { read(more); });
  }

  // 7, 6, 5, 4 and 3 places: rows of 7 and 3, 6 and 4, 5 alone.
  const std::vector<TestDocument> documents_{{std::vector<std::uint32_t>(8, 1), {}},
                                             {std::vector<std::uint32_t>(7, 2), {}},
                                             {std::vector<std::uint32_t>(6, 3), {}},
                                             {std::vector<std::uint32_t>(5, 4), {}},
                                             {std::vector<std::uint32_t>(4, 5), {}}};
  TemporaryFolder folder_;
};

TEST_F(WorkloadData, SaysHowRowsArePacked) {
  folder_.write("d.tok", token_file_bytes(documents_, 256));
  const Scenario scenario = read("data = \"d.tok\"\n");
  const PolicyInput input = scenario.policy_input();
  EXPECT_EQ(input.rows, BatchKind::packed);
  EXPECT_DOUBLE_EQ(input.squared_lengths, (49 + 9 + 36 + 16 + 25 + 25) / 3.0);
  EXPECT_EQ(scenario.run.data.file, folder_.path() / "d.tok");  // trained on, where nothing else is said
  EXPECT_EQ(read("").policy_input().rows, BatchKind::windows);
  // Rows that were made shorter since cannot hold longer documents.
  Scenario shorter = scenario;
  shorter.sequence_length = 4;
  EXPECT_EQ(shorter.policy_input().squared_lengths, 16);
}

/// A prediction is of the data that a run trains on.
TEST_F(WorkloadData, IsThatOfTheRunWhereNothingElseIsSaid) {
  folder_.write("d.tok", token_file_bytes(documents_, 256));
  folder_.write("t.tok", token_file_bytes({{std::vector<std::uint32_t>(50, 1), {}, LongDocument::split}}, 256));
  folder_.write("text", "text");
  const Scenario scenario = read("[run]\ndata = \"d.tok\"\n");
  EXPECT_EQ(scenario.rows, BatchKind::packed);
  EXPECT_DOUBLE_EQ(scenario.squared_lengths, (49 + 9 + 36 + 16 + 25 + 25) / 3.0);
  for (const char* windows : {"t.tok", "text", "gone", "random"})
    EXPECT_EQ(read(std::string("[run]\ndata = \"") + windows + "\"\n").rows, BatchKind::windows) << windows;
}

/// As in a recording, whose file of tokens may be gone.
TEST_F(WorkloadData, MayBeKnownWithoutTheFile) {
  const Scenario scenario = read("squared_lengths = 40\ndata = \"gone\"\n");
  EXPECT_EQ(scenario.rows, BatchKind::packed);
  EXPECT_EQ(scenario.squared_lengths, 40);
  EXPECT_EQ(read("squared_lengths = 40\n").rows, BatchKind::packed);
  EXPECT_MENTIONS(refusal("squared_lengths = 101\n"), "squared_lengths");
}

TEST_F(WorkloadData, OfOneTextAreWindows) {
  folder_.write("t.tok", token_file_bytes({{std::vector<std::uint32_t>(50, 1), {}, LongDocument::split}}, 256));
  EXPECT_EQ(read("data = \"t.tok\"\n").rows, BatchKind::windows);
}

TEST_F(WorkloadData, ErrorsNameTheFile) {
  folder_.write("d.tok", token_file_bytes(documents_, 256));
  folder_.write("e.tok", token_file_bytes(documents_, 256));
  folder_.write("other.tok", token_file_bytes(documents_, 255));
  folder_.write("text", "text");
  EXPECT_MENTIONS(refusal("data = \"text\"\n"), "text: [workload] data: is no file of tokens");
  EXPECT_MENTIONS(refusal("data = \"gone\"\n"), "[workload] data: there is no file ");
  EXPECT_MENTIONS(refusal("data = \"other.tok\"\n"), "other.tok");
  EXPECT_MENTIONS(refusal("data = \"d.tok\"\n[run]\ndata = \"e.tok\"\n"), "leave the other out");
  EXPECT_EQ(refusal("data = \"d.tok\"\n[run]\ndata = \"./d.tok\"\n"), "");
  EXPECT_MENTIONS(error_text([&] { read("data = \"d.tok\"\n", {"workload.sequence_length=6"}); }),
                  "has 8 tokens, a row of 6 holds 7");
}

}  // namespace
}  // namespace penstock
