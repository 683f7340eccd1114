// run.json reads back as it was written, or not at all.
#include "exec/checkpoint/checkpoint_record.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

CheckpointRecord some_record() {
  CheckpointRecord record;
  record.step = 12;
  record.description = described_keys();
  record.files[kWeightsFile] = {1000, 0x01020304};
  record.files[kStatesFile] = {6000, 0xfffefdfc};
  return record;
}

TEST(CheckpointRecord, ReadsBackWhatWasWritten) {
  const CheckpointRecord record = some_record();
  const CheckpointRecord read = parse_record(record_text(record), "run.json");
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.files, record.files);
  ASSERT_EQ(read.description.values.size(), record.description.values.size());
  for (std::size_t i = 0; i < read.description.values.size(); ++i)
    EXPECT_EQ(read.description.values[i].value, record.description.values[i].value);
}

/// Records of before there were schedules are of a constant rate.
TEST(CheckpointRecord, KeysThatCameLaterMayBeMissing) {
  CheckpointRecord record = some_record();
  const auto is_later = [](const DescribedValue& value) { return value.is_later; };
  EXPECT_EQ(std::erase_if(record.description.values, is_later), 21u);
  const CheckpointRecord read = parse_record(record_text(record), "run.json");
  EXPECT_EQ(read.description.find("schedule")->value, "\"constant\"");
  EXPECT_EQ(read.description.find("total_steps")->value, "null");
  record.description.values.pop_back();  // of the first ones all are there
  EXPECT_MENTIONS(error_text([&] { parse_record(record_text(record), "run.json"); }), "another version");
  EXPECT_THROW(parse_record(record_text(record), "run.json"), OtherVersion);
}

TEST(CheckpointRecord, ExpertsAreReadBack) {
  CheckpointRecord record = some_record();
  Schedule schedule;
  schedule.model.experts = {.count = 8, .per_token = 2, .intermediate = 5, .dense_layers = {1, 3}};
  record.description = describe_run(schedule, RunOptions{}, "");
  const CheckpointRecord read = parse_record(record_text(record), "run.json");
  EXPECT_EQ(read.description.find("num_experts")->value, "8");
  EXPECT_EQ(read.description.find("mlp_only_layers")->value, "[1,3]");
  EXPECT_EQ(described_keys().find("num_experts")->value, "null");
}

TEST(CheckpointRecord, EveryFlippedBitIsFound) {
  const std::string text = record_text(some_record());
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_NE(error_text([&] { parse_record(flipped, "run.json"); }), "") << i << " " << bit;
    }
}

TEST(CheckpointRecord, EveryCutAndEveryAdditionIsFound) {
  const std::string text = record_text(some_record());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(error_text([&] { parse_record(text.substr(0, length), "run.json"); }), "") << length;
  EXPECT_NE(error_text([&] { parse_record(text + " ", "run.json"); }), "");
  EXPECT_NE(error_text([&] { parse_record(text + text, "run.json"); }), "");
}

TEST(CheckpointRecord, WhatWasChangedByHandIsToldHowItIsDone) {
  std::string text = record_text(some_record());
  text.replace(text.find("\"step\": 12"), 10, "\"step\": 13");
  const std::string error = error_text([&] { parse_record(text, "c/run.json"); });
  EXPECT_MENTIONS(error, "c/run.json: was damaged, or changed by hand");
  EXPECT_MENTIONS(error, "--allow-changed");
}

TEST(CheckpointRecord, OtherFormatsAreNamed) {
  const auto error = [](const std::string& text) { return error_text([&] { parse_record(text, "c/run.json"); }); };
  EXPECT_MENTIONS(error(R"({"format": "penstock-checkpoint/1", "step": 3})"), "--set init.weights=FOLDER");
  EXPECT_MENTIONS(error(R"({"format": "penstock-checkpoint/9"})"),
                  "found \"penstock-checkpoint/9\", this program reads");
  EXPECT_MENTIONS(error("{}"), "found null");
  EXPECT_MENTIONS(error("[1, 2]"), "found null");
  EXPECT_MENTIONS(error(""), "c/run.json");
  EXPECT_MENTIONS(error("\"penstock-checkpoint/1\""), "c/run.json");
}

}  // namespace
}  // namespace penstock::exec
