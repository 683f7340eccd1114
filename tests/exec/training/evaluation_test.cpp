// Evaluations beside a training change nothing of it.
#include "exec/training/evaluation.h"

#include <gtest/gtest.h>

#include "shared/policy/evaluation.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

std::unique_ptr<TokenSource> held_out(const PolicyInput& in) { return random_tokens(token_shape(in), 99); }

/// `every` 0: none.
RunBits trained(const PolicyInput& in, int steps, int every, std::vector<EvaluationReport>* reports = nullptr) {
  SmallRun run(in);
  run.training().load(*random_states(3));
  const Schedule schedule = make_evaluation(in);
  const auto tokens = held_out(in);
  Evaluation evaluation(schedule, run.training(), run.backend(), *tokens, 2);
  const int part = every > 0 ? every : steps;
  for (int done = 0; done < steps; done += part) {
    run.training().run(run.options(part));
    if (every == 0) continue;
    const auto report = evaluation.run({});
    if (reports != nullptr) reports->push_back(report.value());
  }
  run.bits().states = run.training().states().fingerprint();
  return run.bits();
}

TEST(Evaluation, TrainingHasTheBitsOfOneWithout) {
  for (const PresetInfo& preset : presets()) {
    const PolicyInput in = small::input(small::qwen2_tied(), preset.name);
    EXPECT_EQ(trained(in, 4, 1), trained(in, 4, 0)) << preset.name;
  }
  PolicyInput in = small::input(small::frozen(small::llama(), {"embed_tokens", "layers.0-2"}), "penstock");
  in.parameters.nvme_states = -1;
  in.parameters.nvme_weights = -1;
  EXPECT_EQ(trained(in, 4, 2), trained(in, 4, 0));
}

TEST(Evaluation, LossIsTheSameUnderEverySchedule) {
  std::vector<EvaluationReport> reference;
  trained(small::input(small::qwen3(), "penstock"), 4, 2, &reference);
  ASSERT_EQ(reference.size(), 2u);
  EXPECT_EQ(reference[0].step, 2);
  EXPECT_EQ(reference[1].step, 4);
  EXPECT_NE(reference[0].loss, reference[1].loss);
  for (const PresetInfo& preset : presets()) {
    PolicyInput in = small::input(small::qwen3(), preset.name);
    in.parameters.numerics = Numerics{};
    if (in.parameters.optimizer_time == OptimizerTime::backward) in.parameters.optimizer_time = OptimizerTime::end;
    std::vector<EvaluationReport> reports;
    trained(in, 4, 2, &reports);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(reports[i].loss, reference[i].loss) << preset.name;
  }
}

/// On the rows that a step trains on, the loss before it is the step's.
TEST(Evaluation, LossIsThatOfATrainingStepOnTheSameRows) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  SmallRun run(in);
  run.training().load(*random_states(3));
  const Schedule schedule = make_evaluation(in);
  const TrainingOptions options = run.options(1);
  Evaluation evaluation(schedule, run.training(), run.backend(), *options.tokens, 1);
  const double before = evaluation.run({}).value().loss;
  EXPECT_EQ(evaluation.run({}).value().loss, before);
  run.training().run(options);
  EXPECT_EQ(run.bits().losses.front(), before);
  EXPECT_LT(evaluation.run({}).value().loss, before);  // it has learnt these rows
}

TEST(Evaluation, AStopLeavesNoReport) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  SmallRun run(in);
  run.training().load(*random_states(3));
  const Schedule schedule = make_evaluation(in);
  const auto tokens = held_out(in);
  Evaluation evaluation(schedule, run.training(), run.backend(), *tokens, 1);
  RunControl control;
  control.stop();
  ExecutorOptions options;
  options.control = &control;
  EXPECT_FALSE(evaluation.run(options).has_value());
}

}  // namespace
}  // namespace penstock::exec
