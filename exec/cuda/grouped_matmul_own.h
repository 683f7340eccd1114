// Our own grouped products, for any card from sm_80 on and any row length: as the functions of grouped_matmul.h.
#pragma once

#include "exec/cuda/grouped_matmul.h"

namespace penstock::exec::own_grouped {

void forward(const ExpertRows& rows, const std::uint16_t* x, const ExpertMatrices& w, std::uint16_t* y,
             std::int64_t outputs, std::int64_t inputs, Stream stream);
void input_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const ExpertMatrices& w, std::uint16_t* d_x,
                    std::int64_t outputs, std::int64_t inputs, Stream stream);
void weight_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w,
                     std::int64_t stride, std::int64_t outputs, std::int64_t inputs, Stream stream);

}  // namespace penstock::exec::own_grouped
