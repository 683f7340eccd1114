#include "exec/cuda/grouped_matmul_cutlass.h"

#include "exec/cuda/grouped_matmul_cutlass.cuh"

namespace penstock::exec::cutlass_grouped {

bool takes(std::int64_t outputs, std::int64_t inputs) {
  return outputs % 8 == 0 && inputs % 8 == 0 && this_card().is_sm90;
}

void forward(const ExpertRows& rows, const std::uint16_t* x, const ExpertMatrices& w, std::uint16_t* y,
             std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  const Sizes sizes{0, static_cast<int>(outputs), static_cast<int>(inputs)};
  run<Product<UsualForm, RowMajor, ColumnMajor, cutlass::bfloat16_t, false>>(
      rows, sizes, x, {inputs, 0}, w.first, {0, w.stride}, reinterpret_cast<cutlass::bfloat16_t*>(y), {outputs, 0},
      workspace, stream);
}

void input_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const ExpertMatrices& w, std::uint16_t* d_x,
                    std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  const Sizes sizes{0, static_cast<int>(inputs), static_cast<int>(outputs)};
  run<Product<UsualForm, RowMajor, RowMajor, cutlass::bfloat16_t, false>>(
      rows, sizes, d_y, {outputs, 0}, w.first, {0, w.stride}, reinterpret_cast<cutlass::bfloat16_t*>(d_x), {inputs, 0},
      workspace, stream);
}

void weight_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w,
                     std::int64_t stride, std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace,
                     Stream stream) {
  const Sizes sizes{static_cast<int>(outputs), static_cast<int>(inputs), 0, true};
  if (d_w.type == ElementType::fp32)
    add_gradients<UsualForm, float>(rows, sizes, d_y, x, d_w, stride, workspace, stream);
  else
    add_gradients<UsualForm, cutlass::bfloat16_t>(rows, sizes, d_y, x, d_w, stride, workspace, stream);
}

}  // namespace penstock::exec::cutlass_grouped
