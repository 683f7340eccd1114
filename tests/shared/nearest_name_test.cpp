#include "shared/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

TEST(NearestName, IsTheLeastMistyped) {
  const std::vector<std::string> known = {"weight_buffers", "group", "keep", "first_group"};
  EXPECT_EQ(nearest_name("groups", known), "group");
  EXPECT_EQ(nearest_name("weigth_buffers", known), "weight_buffers");  // two neighbours exchanged
  EXPECT_EQ(nearest_name("buffers", known), "weight_buffers");
  EXPECT_EQ(nearest_name("First-Group", known), "first_group");  // other separators and capitals
  EXPECT_EQ(nearest_name("zzzzzz", known), "");
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(nearest_name("group", {}), "");
}

TEST(NearestName, ListsWhatThereIsWhenNothingIsNear) {
  const std::vector<std::string> known = {"group", "keep"};
  EXPECT_EQ(suggestion("kep", known, "keys"), "did you mean keep?");
  EXPECT_EQ(suggestion("zzzzzz", known, "keys"), "known keys are group, keep");
}

TEST(NearestName, AChoiceOfOneIsNotSuggested) {
  constexpr std::string_view one[] = {"penstock-timeline/1"}, two[] = {"hbm", "dram"};
  EXPECT_EQ(meant_choice("penstock-schedule/1", one), "");
  EXPECT_EQ(meant_choice("HBM", two), "; did you mean \"hbm\"?");
  EXPECT_EQ(meant_choice("tape", two), "");
}

TEST(NearestName, WhatIsThereIsASlipOfWhatIsMissingOnlyIfVeryNear) {
  const std::vector<std::string> found = {"sequence-length", "hidden_sizes", "d2h", "writes", "numHiddenLayers"};
  EXPECT_EQ(mistyped("sequence_length", found), "sequence-length");
  EXPECT_EQ(mistyped("hidden_size", found), "hidden_sizes");
  EXPECT_EQ(mistyped("num_hidden_layers", found), "numHiddenLayers");
  EXPECT_EQ(mistyped("write", found), "writes");
  EXPECT_EQ(mistyped("h2d", found), "");  // the other direction, and right
  EXPECT_EQ(mistyped("read", found), "");
  EXPECT_EQ(mistyped("sequences", found), "");
}

}  // namespace
}  // namespace penstock
