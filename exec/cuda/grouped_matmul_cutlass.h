// Grouped products through CUTLASS, for sm_90: a pair of files behind this header, chosen by CMake
// (cmake/PenstockCutlass.cmake). Its kernels stay on the multiprocessors and take tile after tile; the sizes of experts'
// products lie in device memory.
//   grouped_matmul_cutlass.cu            CUTLASS' kernels
//   grouped_matmul_without_cutlass.cpp   none: everything goes to our own
#pragma once

#include "exec/cuda/grouped_matmul.h"

namespace penstock::exec::cutlass_grouped {

/// Whether the current device and rows of this length are for CUTLASS. The products below need it.
bool takes(std::int64_t outputs, std::int64_t inputs);

/// As the functions without the namespace.
void forward(const ExpertRows& rows, const std::uint16_t* x, const ExpertMatrices& w, std::uint16_t* y,
             std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream);
void input_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const ExpertMatrices& w, std::uint16_t* d_x,
                    std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream);
void weight_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w,
                     std::int64_t stride, std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace,
                     Stream stream);

}  // namespace penstock::exec::cutlass_grouped
