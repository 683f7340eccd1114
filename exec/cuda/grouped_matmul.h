// Products of each expert's rows with its own matrix: bf16 in, fp32 accumulation, bf16 or a GradientTarget out.
//
// How many rows an expert has is known to the device alone: the launch depends on the rows of all experts and on their
// number, never on the routing, and nothing waits. A result depends on its row and its expert's matrix (a gradient on
// the expert's rows in their order), so that it has the same bits wherever the rows lie. No sum is split.
//
// By CUTLASS where it takes them (grouped_matmul_cutlass.h), else by our own kernels (grouped_matmul_own.h).
#pragma once

#include <cstdint>

#include "exec/cuda/attention.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/stream.h"

namespace penstock::exec {

/// Rows that lie expert by expert: of expert e those from first[e] up to first[e + 1] (device memory).
struct ExpertRows {
  const std::int32_t* first = nullptr;  // [experts + 1]
  std::int64_t experts = 0;
  std::int64_t rows = 0;  // of all experts together
};

/// Expert e's matrix lies e * stride elements behind the first one's. All are aligned to 128 bytes.
struct ExpertMatrices {
  const std::uint16_t* first = nullptr;
  std::int64_t stride = 0;
};

/// y [rows, outputs] = x [rows, inputs] w^T; w [outputs, inputs].
void grouped_forward(const ExpertRows& rows, const std::uint16_t* x, const ExpertMatrices& w, std::uint16_t* y,
                     std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream);
/// d_x [rows, inputs] = d_y [rows, outputs] w.
void grouped_input_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const ExpertMatrices& w,
                            std::uint16_t* d_x, std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace,
                            Stream stream);
/// d_w [outputs, inputs] (+)= d_y^T x of each expert, the first one's at `d_w`, each next one's `stride` elements behind.
/// Of an expert without rows: zero, or what is there.
void grouped_weight_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x,
                             GradientTarget d_w, std::int64_t stride, std::int64_t outputs, std::int64_t inputs,
                             LibraryWorkspace workspace, Stream stream);

}  // namespace penstock::exec
