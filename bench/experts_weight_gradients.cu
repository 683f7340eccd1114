#include "bench/experts_weight_gradients.h"

#include "exec/cuda/grouped_matmul_cutlass.cuh"

namespace penstock::exec {
namespace {

using namespace cute;
using cutlass_grouped::Form;

template <class Way>
void weight_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w,
                     std::int64_t stride, std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace,
                     Stream stream) {
  const cutlass_grouped::Sizes sizes{static_cast<int>(outputs), static_cast<int>(inputs), 0, true};
  cutlass_grouped::add_gradients<Way, float>(rows, sizes, d_y, x, d_w, stride, workspace, stream);
}

}  // namespace

std::vector<WeightGradientForm> weight_gradient_forms() {
  return {
      // One group of warps reads and writes its tile while the other multiplies.
      {"pingpong 64x256", weight_gradient<Form<Shape<_64, _256, _64>, Shape<_1, _1, _1>, true>>},
      {"pingpong 128x128", weight_gradient<Form<Shape<_128, _128, _64>, Shape<_1, _1, _1>, true>>},
      {"pingpong 64x128", weight_gradient<Form<Shape<_64, _128, _64>, Shape<_1, _1, _1>, true>>},
      {"pingpong 64x256, pairs", weight_gradient<Form<Shape<_64, _256, _64>, Shape<_2, _1, _1>, true>>},
      {"pingpong 128x128, pairs", weight_gradient<Form<Shape<_128, _128, _64>, Shape<_2, _1, _1>, true>>},
      // Smaller tiles together: less of the result to wait for at a time, more stages.
      {"cooperative 128x128", weight_gradient<Form<Shape<_128, _128, _64>, Shape<_1, _1, _1>, false>>},
      // Pairs of multiprocessors share the operand that their tiles have in common.
      {"cooperative 128x256, pairs", weight_gradient<Form<Shape<_128, _256, _64>, Shape<_2, _1, _1>, false>>},
      {"cooperative 256x128", weight_gradient<Form<Shape<_256, _128, _64>, Shape<_1, _1, _1>, false>>},
  };
}

}  // namespace penstock::exec
