// Sequences that are cut through the executor: the same bits under every schedule with the same chunks, and the numbers
// of the uncut sequence up to rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "shared/ignored_label.h"
#include "shared/random.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

constexpr int kSteps = 2;
constexpr std::int64_t kLength = 150;  // more than two tiles of attention

PolicyInput chunked_input(const Model& model, const std::string& preset, std::int64_t chunk_tokens) {
  PolicyInput in = small::input(model, preset);
  in.sequence_length = kLength;
  in.sequences = 3;
  in.micro_batch = 1;
  in.chunk_tokens = chunk_tokens;
  return in;
}

/// Documents of 1 to 90 tokens, of whose labels some are ignored.
class LongDocuments : public TokenSource {
 public:
  explicit LongDocuments(const PolicyInput& in) : sequences_(in.sequences) {}

  BatchKind rows() const override { return BatchKind::packed; }
  void fill(std::int64_t step, const StepRows& rows) const override {
    for (std::int64_t at = 0, start = 0, left = 0; at < sequences_ * kLength; ++at) {
      const auto index = static_cast<std::uint64_t>(step * sequences_ * kLength + at);
      if (const std::int64_t place = at % kLength; left-- == 0 || place == 0) {
        start = place;
        left = static_cast<std::int64_t>(random_below(11, index, 90));
      }
      rows.tokens[at] = static_cast<std::int32_t>(random_below(12, index, 256));
      rows.labels[at] =
          random_below(13, index, 3) > 0 ? static_cast<std::int32_t>(random_below(14, index, 256)) : kIgnoredLabel;
      rows.document_starts[at] = static_cast<std::int32_t>(start);
    }
  }
  std::string describe() const override { return "documents"; }
  std::string checksum() const override { return "documents"; }

 private:
  std::int64_t sequences_;
};

RunBits bits_of(const PolicyInput& in, int steps = kSteps) {
  if (in.rows == BatchKind::windows) return run_bits(in, steps);
  const LongDocuments documents(in);
  SmallRun run(in);
  run.training().load(*random_states(3));
  TrainingOptions options = run.options(steps);
  options.tokens = &documents;
  run.training().run(options);
  run.bits().states = run.training().states().fingerprint();
  return run.bits();
}

TEST(ChunkedRuns, AgreeUnderEverySchedule) {
  const std::vector<std::function<void(PolicyParameters&)>> variants{
      [](PolicyParameters& p) { p.group = 1; },
      [](PolicyParameters& p) { p.group = 1, p.first_group = 2; },
      [](PolicyParameters& p) { p.keep = Keep::input_context, p.activations = TierKind::dram; },
      [](PolicyParameters& p) { p.keep = Keep::everything, p.activations = TierKind::dram, p.group = 1; },
      [](PolicyParameters& p) { p.checkpoint_every = 3, p.activations = TierKind::dram; },
      [](PolicyParameters& p) { p.group = 1, p.activations = TierKind::nvme, p.activation_slots = 1; },
      [](PolicyParameters& p) {
        p.keep_layers = {{1, 3, 0, Keep::input_context, TierKind::dram}, {4, -1, 0, Keep::input, TierKind::hbm}};
      },
      [](PolicyParameters& p) { p.resident_states = -1; },
  };
  for (const auto& [rows, model] :
       {std::pair{BatchKind::windows, small::qwen2_tied()}, {BatchKind::packed, small::qwen3()}}) {
    PolicyInput in = chunked_input(model, "penstock", 67);
    in.rows = rows;
    const RunBits reference = bits_of(in);
    EXPECT_NEAR(reference.losses.front(), std::log(256.0), 0.1);
    for (std::size_t i = 0; i < variants.size(); ++i) {
      PolicyInput other = in;
      variants[i](other.parameters);
      EXPECT_EQ(bits_of(other), reference) << model.config.name << ", variant " << i;
    }
    for (const PresetInfo& preset : presets()) {
      PolicyInput other = chunked_input(model, preset.name, 67);
      other.rows = rows;
      other.parameters.numerics = Numerics{};
      if (other.parameters.optimizer_time == OptimizerTime::backward)
        other.parameters.optimizer_time = OptimizerTime::end;
      EXPECT_EQ(bits_of(other), reference) << preset.name << " " << model.config.name;
    }
  }
}

/// Losses and norms of random weights; rounding grows in the first update, whose steps are as large for small gradients.
TEST(ChunkedRuns, AreTheUncutSequenceUpToRounding) {
  for (const BatchKind rows : {BatchKind::windows, BatchKind::packed})
    for (const Model& model : {small::llama(), small::qwen2_tied(), small::qwen3()}) {
      PolicyInput in = chunked_input(model, "penstock", 0);
      in.rows = rows;
      const RunBits whole = bits_of(in, 2);
      for (const std::int64_t chunk : {75, 67, 149, 64, 11}) {
        in.chunk_tokens = chunk;
        const RunBits cut = bits_of(in, 2);
        EXPECT_NE(cut.states, whole.states);
        for (std::size_t step = 0; step < 2; ++step) {
          const double grown = step == 0 ? 1 : 5;
          EXPECT_NEAR(cut.losses[step], whole.losses[step], grown * 2e-4)
              << model.config.name << ", chunks of " << chunk << ", step " << step;
          EXPECT_NEAR(cut.norms[step], whole.norms[step], grown * 5e-3 * whole.norms[step])
              << model.config.name << ", chunks of " << chunk << ", step " << step;
        }
      }
    }
}

/// Sums on the host round each chunk's part.
TEST(ChunkedRuns, AgreeWhereTheHostSums) {
  PolicyInput in = chunked_input(small::qwen2_tied(), "megatrain", 67);
  const RunBits reference = bits_of(in);
  in.parameters.group = 0;
  in.parameters.checkpoint_every = 1;
  EXPECT_EQ(bits_of(in), reference);
}

}  // namespace
}  // namespace penstock::exec
