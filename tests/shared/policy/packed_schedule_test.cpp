// Schedules of packed rows: what they have more than those of windows, and that the proof wants all of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

constexpr TensorKind kNew[] = {TensorKind::labels, TensorKind::document_starts, TensorKind::trained_tokens};

Schedule packed(const std::string& preset, double squared_lengths = 100) {
  PolicyInput in = small::input(small::qwen2_tied(), preset);
  in.rows = BatchKind::packed;
  in.squared_lengths = squared_lengths;
  return make_schedule(in);
}

bool is_new(const Access& access) {
  return std::find(std::begin(kNew), std::end(kNew), access.value.tensor) != std::end(kNew);
}

bool reads(const Op& op, TensorKind tensor) {
  return std::any_of(op.reads.begin(), op.reads.end(), [&](const Access& a) { return a.value.tensor == tensor; });
}

TEST(PackedSchedules, OfEveryPresetAreSound) {
  for (const PresetInfo& preset : presets()) EXPECT_EQ(check_schedule(packed(preset.name)).size(), 0u) << preset.name;
}

TEST(PackedSchedules, HandEachPassWhatItReads) {
  const Schedule schedule = packed("penstock");
  for (const Op& op : schedule.ops) {
    const auto* work = std::get_if<TemplateWork>(&op.work);
    if (work == nullptr) continue;
    EXPECT_EQ(reads(op, TensorKind::tokens), work->kind == LayerKind::embedding) << op.name;
    EXPECT_EQ(reads(op, TensorKind::labels), work->kind == LayerKind::head) << op.name;
    EXPECT_EQ(reads(op, TensorKind::trained_tokens), work->kind == LayerKind::head) << op.name;
    EXPECT_EQ(reads(op, TensorKind::document_starts), work->kind == LayerKind::decoder) << op.name;
  }
  for (const Op& op : schedule.ops)
    for (const Access& access : op.reads) {
      const bool is_rows = access.value.tensor == TensorKind::tokens || access.value.tensor == TensorKind::labels;
      EXPECT_TRUE(!is_rows || access.bytes == 8 * 32 * 4) << op.name;
    }
}

TEST(PackedSchedules, LackNothingOfIt) {
  const Schedule sound = packed("penstock");
  for (std::size_t i = 0; i < sound.ops.size(); ++i) {
    for (auto list : {&Op::reads, &Op::writes})
      for (std::size_t access = 0; access < (sound.ops[i].*list).size(); ++access) {
        if (!is_new((sound.ops[i].*list)[access])) continue;
        Schedule schedule = sound;
        auto& accesses = schedule.ops[i].*list;
        accesses.erase(accesses.begin() + static_cast<long>(access));
        EXPECT_GT(check_schedule(schedule).size(), 0u) << sound.ops[i].name << " without access " << access;
      }
  }
}

TEST(PackedSchedules, CountForTheStepsReportBeforeTheNextOneIsCounted) {
  Schedule schedule = packed("penstock");
  // As if another lane made the input: then nothing keeps it behind the report.
  schedule.lanes.push_back({"another", LaneKind::host, 0});
  for (Op& op : schedule.ops)
    if (std::holds_alternative<InputWork>(op.work)) op.lane = static_cast<int>(schedule.lanes.size()) - 1;
  std::string all;
  for (const Fault& fault : check_schedule(schedule)) all += fault.text + "\n";
  EXPECT_NE(all.find("'report'"), std::string::npos) << all;
}

TEST(PackedSchedules, AreReadAsTheyWereWritten) {
  const Schedule schedule = packed("megatrain", 12.5);
  const std::string text = schedule_text(schedule);
  EXPECT_NE(text.find("\"penstock-schedule/2\""), std::string::npos);
  EXPECT_NE(text.find("\"rows\": \"packed\", \"squared_lengths\": 12.5}"), std::string::npos);
  const Schedule again = parse_schedule(text, "x");
  EXPECT_EQ(again.micro_batch.kind, BatchKind::packed);
  EXPECT_EQ(again.micro_batch.squared_lengths, 12.5);
  EXPECT_EQ(again.ops, schedule.ops);
  EXPECT_EQ(schedule_hash(again), schedule_hash(schedule));
}

TEST(PackedSchedules, AreTheSameWhateverDocumentsAreExpected) {
  EXPECT_EQ(schedule_hash(packed("penstock", 10)), schedule_hash(packed("penstock", 20)));
  EXPECT_NE(schedule_hash(packed("penstock")),
            schedule_hash(make_schedule(small::input(small::qwen2_tied(), "penstock"))));
}

/// Labels and document starts of windows do not exist: nothing may name them.
TEST(PackedSchedules, AreNoneOfWindows) {
  Schedule schedule = packed("penstock");
  schedule.micro_batch.kind = BatchKind::windows;
  EXPECT_GT(check_schedule(schedule).size(), 0u);
}

}  // namespace
}  // namespace penstock
