// The host's kernels over the table of cases: that each op executes what shared/model/kernels.h lists, and that what it
// computes is a gradient.
#include "tests/exec/kernel_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>

#include "exec/host/kernel_clock.h"
#include "exec/host/templates.h"
#include "tests/exec/host/tiny_models.h"

namespace penstock::exec {
namespace {

std::vector<std::string> marked(const KernelClock& clock) {
  std::vector<std::string> names;
  for (const KernelMark& mark : clock.marks()) names.emplace_back(kernel_name(mark.kernel));
  std::sort(names.begin(), names.end());
  return names;
}

TEST(HostKernels, EachOpExecutesWhatIsListed) {
  for (const KernelCase& c : kernel_cases()) {
    if (c.batch.tokens() > 1000) continue;  // nothing new, and slow
    for (const CaseOp& op : case_ops(c)) {
      const BoundCase bound(c, op);
      KernelClock clock;
      run_template_host(bound.binding(), &clock);
      EXPECT_EQ(marked(clock), executions(bound.kernels())) << c.name << ": " << op.name();
      for (const KernelMark& mark : clock.marks()) EXPECT_GE(mark.seconds, 0) << kernel_name(mark.kernel);
    }
  }
}

TEST(HostKernels, AMissingOperandIsNamed) {
  const BoundCase bound(kernel_cases().front(), {LayerKind::decoder, Pass::backward, Keep::input, false, false});
  for (const OperandUse& use : operand_uses(LayerKind::decoder, Pass::backward)) {
    if (bound.binding().bytes(use.operand) == 0) continue;
    TemplateBinding binding = bound.binding();
    binding.set(use.operand, nullptr);
    EXPECT_THROW(run_template_host(binding), std::logic_error) << facts(use.operand).name;
  }
  TemplateBinding binding = bound.binding();
  binding.set(TemplateOperand::output_gradient, nullptr);
  try {
    run_template_host(binding);
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "a template op is bound without its output gradient");
  }
  binding.pass = Pass::loss;
  EXPECT_THROW(run_template_host(binding), std::logic_error);
}

/// Along one random direction of each tensor, in double: (L(w + h v) - L(w - h v)) / 2h = <dL/dw, v>. Truncation, h^2
/// times a third derivative, and rounding, 1e-16 L / h, stay below 1e-9 for a loss of order 1.
TEST(HostKernels, GradientsAgreeWithCentralDifferences) {
  constexpr double kStep = 1e-5;
  for (const KernelCase& c : kernel_cases()) {
    if (!c.differentiated) continue;
    const Model model = make_model(c.config);
    auto weights = tiny_weights(model);
    const bool packed = c.batch.kind == BatchKind::packed;
    const PackedRows rows = case_rows(c);
    const TinyRows tokens = packed ? TinyRows(rows) : TinyRows(tiny_tokens(model, c.batch));
    const double scale = 1.0 / static_cast<double>(packed ? rows.trained : c.batch.tokens());
    const bool chunks = mlp_recomputed_in_backward(c.batch, {Keep::input, c.chunking, 0});
    auto gradients = run_in_double(model, c.batch, c.chunking, weights, tokens, scale, chunks).gradients;
    if (c.config.tied_embeddings)
      for (std::int64_t i = 0; i < c.config.vocabulary * c.config.hidden; ++i)
        gradients[0][static_cast<std::size_t>(i)] +=
            gradients.back()[static_cast<std::size_t>(model.head.projection + i)];
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors) {
        std::vector<double>& own = weights[static_cast<std::size_t>(layer.index)];
        const std::vector<double> before = own;
        std::vector<double> direction(static_cast<std::size_t>(tensor.elements()));
        for (double& v : direction) v = normal(random);
        const auto loss_at = [&](double step) {
          for (std::size_t i = 0; i < direction.size(); ++i)
            own[static_cast<std::size_t>(tensor.offset) + i] =
                before[static_cast<std::size_t>(tensor.offset) + i] + step * direction[i];
          return loss_in_double(model, c.batch, c.chunking, weights, tokens, scale);
        };
        const double numeric = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
        own = before;
        double analytic = 0;
        for (std::size_t i = 0; i < direction.size(); ++i)
          analytic += gradients[static_cast<std::size_t>(layer.index)][static_cast<std::size_t>(tensor.offset) + i] *
                      direction[i];
        EXPECT_NEAR(numeric, analytic, 1e-7 * (1 + std::abs(analytic))) << c.name << ": " << tensor.name;
      }
  }
}

}  // namespace
}  // namespace penstock::exec
