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
      {"cooperative 128x256, memory adds",
       weight_gradient<Form<Shape<_128, _256, _64>, Shape<_1, _1, _1>, false, true>>},
      {"cooperative 128x256, pairs, memory adds",
       weight_gradient<Form<Shape<_128, _256, _64>, Shape<_2, _1, _1>, false, true>>},
      {"pingpong 128x128, pairs, memory adds",
       weight_gradient<Form<Shape<_128, _128, _64>, Shape<_2, _1, _1>, true, true>>},
  };
}

}  // namespace penstock::exec
