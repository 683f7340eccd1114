// The CUDA templates with launchers that do nothing: which kernels each op launches, over the table of cases. Needs
// neither CUDA nor a GPU; what the kernels compute is templates_test.cpp's.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "exec/cuda/templates.h"
#include "tests/exec/kernel_cases.h"

#include "exec/cuda/chunk_keys.h"
#include "exec/cuda/experts.h"
#include "exec/cuda/gradient_memory.h"
#include "exec/cuda/grouped_matmul.h"

namespace penstock::exec {

// --- what the templates call

struct Matmul::Plans {};
Matmul::Matmul() = default;
Matmul::~Matmul() = default;
void Matmul::forward(const std::uint16_t*, const std::uint16_t*, const std::uint16_t*, const std::uint16_t*,
                     std::uint16_t*, std::int64_t, std::int64_t, std::int64_t, LibraryWorkspace, Stream) {}
void Matmul::forward(const std::uint16_t*, const std::uint16_t*, float*, std::int64_t, std::int64_t, std::int64_t,
                     LibraryWorkspace, Stream) {}
void Matmul::add_input_gradient(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::int64_t, std::int64_t,
                                std::int64_t, LibraryWorkspace, Stream) {}
void Matmul::input_gradient(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::int64_t, std::int64_t,
                            std::int64_t, LibraryWorkspace, Stream) {}
void Matmul::weight_gradient(const std::uint16_t*, const std::uint16_t*, GradientTarget, std::int64_t, std::int64_t,
                             std::int64_t, LibraryWorkspace, Stream) {}
std::vector<MatmulChoice> Matmul::choices() const { return {}; }

struct Attention::Plans {};
Attention::Attention() = default;
Attention::~Attention() = default;
void Attention::forward(const AttentionSpec&, const std::int32_t*, const std::uint16_t*, const ChunkKeys&,
                        std::uint16_t*, float*, LibraryWorkspace, Stream) {}
void Attention::backward(const AttentionSpec&, const AttentionBackward&, const AttentionPiece&, bool, LibraryWorkspace,
                         Stream) {}

LibraryWorkspace library_workspace(const BoundRegions&) { return {}; }
GradientTarget gradient_at(const TemplateBinding& binding, std::int64_t offset) {
  return GradientTarget{binding.get<TemplateOperand::gradient>(), binding.gradient_type, binding.accumulates}.at(
      offset);
}
void clear_gradient_padding(const TemplateBinding&, Stream) {}
void copy_columns(const std::uint16_t*, std::int64_t, std::uint16_t*, std::int64_t, std::int64_t, Stream) {}

void rms_norm_forward(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::int64_t, std::int64_t, float,
                      Stream) {}
void rms_norm_backward(const std::uint16_t*, const std::uint16_t*, const std::uint16_t*, const std::uint16_t*,
                       std::uint16_t*, GradientTarget, float*, std::int64_t, std::int64_t, float, Stream) {}
void column_sum(const std::uint16_t*, std::int64_t, std::int64_t, GradientTarget, float*, Stream) {}
void rotary_forward(const Rotary&, std::uint16_t*, std::uint16_t*, Stream) {}
void rotary_backward(const Rotary&, std::uint16_t*, const std::uint16_t*, GradientTarget, GradientTarget, float*,
                     Stream) {}
void swiglu_forward(const std::uint16_t*, std::uint16_t*, std::int64_t, std::int64_t, Stream) {}
void swiglu_backward(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::uint16_t*, std::int64_t,
                     std::int64_t, Stream) {}
void grouped_forward(const ExpertRows&, const std::uint16_t*, const ExpertMatrices&, std::uint16_t*, std::int64_t,
                     std::int64_t, LibraryWorkspace, Stream) {}
void grouped_input_gradient(const ExpertRows&, const std::uint16_t*, const ExpertMatrices&, std::uint16_t*,
                            std::int64_t, std::int64_t, LibraryWorkspace, Stream) {}
void grouped_weight_gradient(const ExpertRows&, const std::uint16_t*, const std::uint16_t*, GradientTarget,
                             std::int64_t, std::int64_t, std::int64_t, LibraryWorkspace, Stream) {}
void expert_choice(const Experts&, const float*, std::int64_t, std::int32_t*, float*, Stream) {}
void expert_choice_backward(const Experts&, const float*, std::int64_t, const std::int32_t*, const float*, const float*,
                            const BalanceGradient&, const SplitGradient&, Stream) {}
void balance_begin(double*, std::int64_t, Stream) {}
void balance_pass_on(const double*, double*, std::int64_t, Stream) {}
void expert_balance(const Experts&, const float*, const std::int32_t*, std::int64_t, const RowLabels&, const double*,
                    double*, LibraryWorkspace, Stream) {}
void expert_balance_loss(const Experts&, const double*, double, double*, double*, Stream) {}
void expert_order(const Experts&, const std::int32_t*, std::int64_t, const RowPlaces&, LibraryWorkspace, Stream) {}
void expert_rows(const Experts&, const RowPlaces&, const std::uint16_t*, std::uint16_t*, std::int64_t, std::int64_t,
                 Stream) {}
void expert_sum(const Experts&, const RowPlaces&, const std::uint16_t*, const float*, const std::uint16_t*,
                std::uint16_t*, std::int64_t, std::int64_t, Stream) {}
void experts_swiglu_backward(const RowPlaces&, const std::uint16_t*, const std::uint16_t*, const float*, std::uint16_t*,
                             std::uint16_t*, float*, std::int64_t, std::int64_t, Stream) {}
void embedding_forward(const std::int32_t*, const std::uint16_t*, std::uint16_t*, BatchShape, std::int64_t,
                       std::int64_t, Stream) {}
void embedding_backward(const std::int32_t*, const std::uint16_t*, GradientTarget, std::int32_t*, float*, BatchShape,
                        std::int64_t, std::int64_t, Stream) {}
void embedding_gradient_zero(GradientTarget, std::int64_t, std::int64_t, Stream) {}
void loss_rows(std::uint16_t*, const Targets&, float*, std::int64_t, std::int64_t, std::int64_t, const LossScale&,
               Stream) {}
void loss_sum(const float*, std::int64_t, double*, Stream) {}

namespace {

class Launched : public KernelMarks {
 public:
  void after(KernelId kernel, Stream) override { names_.emplace_back(kernel_name(kernel)); }
  std::vector<std::string> take() {
    std::sort(names_.begin(), names_.end());
    return std::move(names_);
  }

 private:
  std::vector<std::string> names_;
};

TEST(CudaTemplates, EachOpLaunchesWhatIsListed) {
  CudaTemplates templates;
  for (const KernelCase& c : kernel_cases())
    for (const CaseOp& op : case_ops(c)) {
      const BoundCase bound(c, op);
      Launched launched;
      templates.listen(&launched);
      templates.run(bound.binding(), nullptr);
      EXPECT_EQ(launched.take(), executions(bound.kernels())) << c.name << ": " << op.name();
    }
}

TEST(CudaTemplates, RefuseAMissingOperandAndAPassThatThereIsNot) {
  CudaTemplates templates;
  const BoundCase bound(kernel_cases().front(), {LayerKind::head, Pass::loss, Keep::input, false, false});
  TemplateBinding binding = bound.binding();
  binding.set(TemplateOperand::loss, nullptr);
  EXPECT_THROW(templates.run(binding, nullptr), std::logic_error);
  binding = bound.binding();
  binding.pass = Pass::recompute;
  EXPECT_THROW(templates.run(binding, nullptr), std::logic_error);
}

}  // namespace
}  // namespace penstock::exec
