#include "shared/compare/prediction_pair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/shared/compare/example.h"
#include "tests/shared/error_text.h"

namespace penstock {
namespace {

/// The example, and one whose copy lane has another name and whose steps hold twice the tokens.
struct Two {
  Two() {
    second.policy = "other";
    second.lanes[1].name = "copy";
    second.micro_batch.sequences = 2;
    a.machine = "desk";
    b.machine = "<rack>";
    b.schedule_hash = schedule_hash(second);
  }
  PredictionPair pair() const { return compare_predictions({&first, &second}, {&a, &b}); }

  Schedule first = example_schedule(), second = example_schedule();
  Timeline a = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(4, {3, 2, 5}));
  Timeline b = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(4, {1, 2, 5}));
};

TEST(PredictionPair, HasStepsStallsAndLanesOfBoth) {
  const Two two;
  const PredictionPair pair = two.pair();
  EXPECT_DOUBLE_EQ(pair[0].step_seconds, 10);
  EXPECT_DOUBLE_EQ(pair[1].step_seconds, 8);
  EXPECT_DOUBLE_EQ(pair[0].tokens_per_second, 0.8);  // 8 tokens in 10 s
  EXPECT_DOUBLE_EQ(pair[1].tokens_per_second, 2);    // 16 in 8 s
  const auto weights = static_cast<std::size_t>(StallCause::weights);
  EXPECT_NEAR(pair[0].stalls.by_cause[weights], 3, 1e-9);
  EXPECT_NEAR(pair[1].stalls.by_cause[weights], 1, 1e-9);
  EXPECT_EQ(pair[1].lane_seconds[1].first, "copy");
  EXPECT_EQ(pair[0].title, "A: policy example on desk, 1 x 1 x 8 tokens");
  EXPECT_EQ(pair[1].title, "B: policy other on <rack>, 1 x 2 x 8 tokens");
}

TEST(PredictionPair, TextSaysWhichIsWhich) {
  std::string text = pair_text(Two().pair());
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }), text.end());
  EXPECT_NE(text.find("A: policy example on desk"), std::string::npos);
  EXPECT_NE(text.find("\ntokens/s 0.8 2.0 +150.00 %\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n h2d 3 s\n"), std::string::npos) << text;  // of A alone, and the other of B
  EXPECT_NE(text.find("\n copy 1 s\n"), std::string::npos) << text;
}

TEST(PredictionPair, JsonAndPage) {
  const Two two;
  const PredictionPair pair = two.pair();
  const nlohmann::json json = nlohmann::json::parse(pair_json(pair));
  EXPECT_EQ(json.at("format"), "penstock-prediction-pair/1");
  EXPECT_EQ(json.at("second").at("tokens_per_second"), 2);
  EXPECT_EQ(json.at("first").at("memory").at(0).at("usable_bytes"), 4096);
  const std::string html = pair_html(pair);
  EXPECT_NE(html.find("B: policy other on &lt;rack&gt;"), std::string::npos);
  EXPECT_NE(html.find("B is 2.50 times as fast"), std::string::npos);
  EXPECT_NE(html.find("compare tokens/s, not steps"), std::string::npos);
}

TEST(PredictionPair, RefusesWhatIsNoPair) {
  Two two;
  two.a.source = TimelineSource::measured;
  EXPECT_EQ(error_text([&] { two.pair(); }), "the first timeline was measured: a pair is of two predictions");
  Two other;
  other.b.schedule_hash = other.a.schedule_hash;
  EXPECT_NE(error_text([&] { other.pair(); }).find("the second timeline is of schedule"), std::string::npos);
  Two shorter;
  shorter.b = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(1, {1, 2, 5}));
  shorter.b.schedule_hash = schedule_hash(shorter.second);
  EXPECT_NE(error_text([&] { shorter.pair(); }).find("the second timeline has no steady period"), std::string::npos);
}

}  // namespace
}  // namespace penstock
