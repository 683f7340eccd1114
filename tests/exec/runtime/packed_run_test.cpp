// Packed rows through the executor: the same bits under every schedule, steps without a label, data that are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "shared/ignored_label.h"
#include "shared/random.h"
#include "tests/exec/runtime/small_run.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

constexpr int kSteps = 4;

/// Documents of 1 to 19 tokens, of whose labels some are ignored; another number of them counts in each row.
class RandomDocuments : public TokenSource {
 public:
  using Change = std::function<void(std::int64_t step, const StepRows& rows)>;

  explicit RandomDocuments(const PolicyInput& in, Change change = {})
      : sequences_(in.sequences), length_(in.sequence_length), change_(std::move(change)) {}

  BatchKind rows() const override { return BatchKind::packed; }
  void fill(std::int64_t step, const StepRows& rows) const override {
    std::int64_t at = 0;
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence)
      for (std::int64_t place = 0, start = 0, left = 0; place < length_; ++place, ++at) {
        const auto index = static_cast<std::uint64_t>(step * sequences_ * length_ + at);
        if (left-- == 0) {
          start = place;
          left = static_cast<std::int64_t>(random_below(11, index, 19));
        }
        rows.tokens[at] = static_cast<std::int32_t>(random_below(12, index, 256));
        const bool counts = random_below(13, index, 10) < static_cast<std::uint64_t>(1 + sequence);
        rows.labels[at] = counts ? static_cast<std::int32_t>(random_below(14, index, 256)) : kIgnoredLabel;
        rows.document_starts[at] = static_cast<std::int32_t>(start);
      }
    if (change_) change_(step, rows);
  }
  std::string describe() const override { return "documents"; }
  std::string checksum() const override { return "documents"; }

 private:
  std::int64_t sequences_, length_;
  Change change_;
};

PolicyInput packed_input(const Model& model, const std::string& preset) {
  PolicyInput in = small::input(model, preset);
  in.rows = BatchKind::packed;
  return in;
}

struct PackedBits {
  RunBits bits;
  std::vector<StepReport> reports;
};

PackedBits run_packed(const PolicyInput& in, const RandomDocuments::Change& change = {}, int steps = kSteps) {
  const RandomDocuments documents(in, change);
  SmallRun run(in);
  PackedBits result;
  run.training().load(*random_states(3));
  TrainingOptions options = run.options(steps);
  options.tokens = &documents;
  options.report = [&](const StepReport& report) {
    result.reports.push_back(report);
    result.bits.losses.push_back(report.loss);
    result.bits.norms.push_back(report.gradient_norm);
  };
  run.training().run(options);
  result.bits.states = run.training().states().fingerprint();
  return result;
}

TEST(PackedRuns, AgreeUnderEverySchedule) {
  const std::vector<std::function<void(PolicyParameters&)>> variants{
      [](PolicyParameters& p) { p.group = 1; },
      [](PolicyParameters& p) { p.group = 1, p.first_group = 3; },
      [](PolicyParameters& p) { p.keep = Keep::input_context; },
      [](PolicyParameters& p) { p.keep = Keep::input_attention; },
      [](PolicyParameters& p) { p.keep = Keep::everything, p.activations = TierKind::dram; },
      [](PolicyParameters& p) { p.group = 2, p.checkpoint_every = 3; },
      [](PolicyParameters& p) { p.optimizer_place = OptimizerPlace::gpu; },
      [](PolicyParameters& p) { p.resident_states = -1; },
      [](PolicyParameters& p) { p.copy_lanes = CopyLanes::shared, p.burst = BurstKind::tensor; },
  };
  for (const Model& model : {small::llama(), small::qwen2_tied(), small::qwen3()}) {
    const PackedBits reference = run_packed(packed_input(model, "penstock"));
    EXPECT_NEAR(reference.bits.losses.front(), std::log(256.0), 0.1);
    for (std::size_t i = 0; i < variants.size(); ++i) {
      PolicyInput in = packed_input(model, "penstock");
      variants[i](in.parameters);
      EXPECT_EQ(run_packed(in).bits, reference.bits) << model.config.name << ", variant " << i;
    }
    for (const PresetInfo& preset : presets()) {
      PolicyInput in = packed_input(model, preset.name);
      in.parameters.numerics = Numerics{};
      if (in.parameters.optimizer_time == OptimizerTime::backward) in.parameters.optimizer_time = OptimizerTime::end;
      EXPECT_EQ(run_packed(in).bits, reference.bits) << preset.name << " " << model.config.name;
    }
  }
}

TEST(PackedRuns, ReportTheMeanOverTheLabelsThatCount) {
  const PolicyInput in = packed_input(small::llama(), "penstock");
  std::vector<std::int64_t> counted;
  const PackedBits run = run_packed(in, [&](std::int64_t, const StepRows& rows) {
    counted.push_back(256 - std::count(rows.labels, rows.labels + 256, kIgnoredLabel));
  });
  ASSERT_EQ(run.reports.size(), counted.size());
  for (std::size_t i = 0; i < counted.size(); ++i) EXPECT_EQ(run.reports[i].trained_tokens, counted[i]);
  EXPECT_NE(counted[0], counted[1]);
}

/// To the bit: the same kernels, and the count of labels makes the same scale.
TEST(PackedRuns, AreWindowsWhereEachRowIsOneDocument) {
  PolicyInput in = packed_input(small::qwen3(), "penstock");
  const auto tokens = random_tokens({in.sequences, in.sequence_length, 256}, 7);
  const auto row_by_row = [&](std::int64_t step, const StepRows& rows) {
    std::vector<std::int32_t> windows(8 * 33);
    tokens->fill(step, {windows.data()});
    for (std::size_t i = 0; i < 256; ++i) {
      rows.tokens[i] = windows[i / 32 * 33 + i % 32];
      rows.labels[i] = windows[i / 32 * 33 + i % 32 + 1];
      rows.document_starts[i] = 0;
    }
  };
  const RunBits packed = run_packed(in, row_by_row).bits;
  in.rows = BatchKind::windows;
  EXPECT_EQ(packed, run_bits(in, kSteps));
}

void ignore_all_of_step_2(std::int64_t step, const StepRows& rows) {
  if (step == 2) std::fill_n(rows.labels, 256, kIgnoredLabel);
}

TEST(PackedRuns, SkipAStepWithoutALabel) {
  for (const bool clip : {true, false})
    for (const bool on_gpu : {true, false}) {
      PolicyInput in = packed_input(small::llama(), "penstock");
      in.parameters.numerics.clip = clip;
      if (on_gpu) in.parameters.resident_states = -1;
      const PackedBits before = run_packed(in, ignore_all_of_step_2, 1),
                       after = run_packed(in, ignore_all_of_step_2, 2);
      EXPECT_EQ(after.bits.states, before.bits.states);
      EXPECT_FALSE(after.reports[0].skipped);
      EXPECT_TRUE(after.reports[1].skipped);
      EXPECT_EQ(after.reports[1].trained_tokens, 0);
      EXPECT_EQ(after.reports[1].loss, 0);
      const PackedBits further = run_packed(in, ignore_all_of_step_2, 3);
      EXPECT_NE(further.bits.states, before.bits.states);
      EXPECT_TRUE(std::isfinite(further.reports[2].loss));
    }
}

TEST(PackedRuns, RefuseWhatCannotBe) {
  struct Bad {
    RandomDocuments::Change change;
    std::string text;
  };
  const auto at_step_3 = [](auto change) {
    return [change](std::int64_t step, const StepRows& rows) {
      if (step == 3) change(rows);
    };
  };
  const Bad cases[] = {
      {at_step_3([](const StepRows& r) { r.tokens[33] = 256; }), "token 1 of sequence 1 in step 3 "},
      {at_step_3([](const StepRows& r) { r.labels[255] = -1; }), "label 31 of sequence 7 in step 3 "},
      {at_step_3([](const StepRows& r) { r.labels[0] = 256; }), "vocabulary has ids from 0 to 255"},
      {at_step_3([](const StepRows& r) { r.document_starts[32] = 31; }),
       "place 0 of sequence 1 in step 3 (both counted from 0) says that its document begins at place 31; expected 0"},
      {at_step_3([](const StepRows& r) { r.document_starts[5] = 6; }), "begins at place 6; expected 5"},
      {at_step_3([](const StepRows& r) { r.document_starts[64] = std::numeric_limits<std::int32_t>::min(); }),
       "place 0 of sequence 2"},
  };
  const PolicyInput in = packed_input(small::llama(), "penstock");
  for (const Bad& bad : cases) {
    const std::string text = error_text([&] { run_packed(in, bad.change); });
    EXPECT_MENTIONS(text, bad.text);
  }
}

TEST(PackedRuns, AreRefusedOverASchedulesWindows) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  const RandomDocuments documents(in);
  SmallRun run(in);
  run.training().load(*random_states(3));
  TrainingOptions options = run.options(1);
  options.tokens = &documents;
  EXPECT_THROW(run.training().run(options), std::logic_error);
}

}  // namespace
}  // namespace penstock::exec
