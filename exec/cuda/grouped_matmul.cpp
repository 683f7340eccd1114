#include "exec/cuda/grouped_matmul.h"

#include "exec/cuda/grouped_matmul_cutlass.h"
#include "exec/cuda/grouped_matmul_own.h"

namespace penstock::exec {

void grouped_forward(const ExpertRows& rows, const std::uint16_t* x, const ExpertMatrices& w, std::uint16_t* y,
                     std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  if (cutlass_grouped::takes(outputs, inputs))
    cutlass_grouped::forward(rows, x, w, y, outputs, inputs, workspace, stream);
  else
    own_grouped::forward(rows, x, w, y, outputs, inputs, stream);
}

void grouped_input_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const ExpertMatrices& w,
                            std::uint16_t* d_x, std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace,
                            Stream stream) {
  if (cutlass_grouped::takes(outputs, inputs))
    cutlass_grouped::input_gradient(rows, d_y, w, d_x, outputs, inputs, workspace, stream);
  else
    own_grouped::input_gradient(rows, d_y, w, d_x, outputs, inputs, stream);
}

void grouped_weight_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x,
                             GradientTarget d_w, std::int64_t stride, std::int64_t outputs, std::int64_t inputs,
                             LibraryWorkspace workspace, Stream stream) {
  if (cutlass_grouped::takes(outputs, inputs))
    cutlass_grouped::weight_gradient(rows, d_y, x, d_w, stride, outputs, inputs, workspace, stream);
  else
    own_grouped::weight_gradient(rows, d_y, x, d_w, stride, outputs, inputs, stream);
}

}  // namespace penstock::exec
