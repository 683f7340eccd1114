// The optimizer's passes on the GPU: the same operations in the same order as on the host (exec/optimizer/adamw.h,
// norm.h), so that the bits are the same and layers may be split between the two freely. Asynchronous on `stream`. All
// planes must be aligned to 16 bytes.
#pragma once

#include <cstdint>

#include "exec/cuda/stream.h"
#include "exec/optimizer/adamw.h"
#include "exec/optimizer/norm.h"

namespace penstock::exec {

/// `scalars` in device memory. skip != 0 leaves every state as it is.
void adamw_cuda(const OptimizerStates& states, const void* gradient, ElementType gradient_type, std::int64_t elements,
                const StepScalars* scalars, Stream stream, const UndecayedRanges& undecayed = {});

/// fp64 elements of scratch that sum_of_squares_cuda and finish_gradient_cuda need for a layer of this size.
std::int64_t norm_scratch_elements(std::int64_t elements);

/// *sum (device) = sum of squares by the tree of norm.h.
void sum_of_squares_cuda(const void* values, ElementType type, std::int64_t elements, double* scratch, double* sum,
                         Stream stream);

/// As finish_gradient_host; `sum_of_squares` (device) may be nullptr, then no norm is taken and `scratch` is not used.
void finish_gradient_cuda(const void* sum, ElementType sum_type, const void* tied, void* out, ElementType out_type,
                          std::int64_t elements, double* scratch, double* sum_of_squares, Stream stream);

/// As accumulate_host.
void accumulate_cuda(const void* part, ElementType part_type, void* sum, ElementType sum_type, bool first,
                     std::int64_t elements, Stream stream);

/// Applies the norm to scalars made on the host with sum_of_squares 0 (make_step_scalars): adds the partials in order,
/// then apply_norm. No partials: no clipping, `prepared` is written as it is. `trained_tokens` (device) may be nullptr;
/// else skip_untrained follows. Throws InputError above kMostNormPartials.
inline constexpr int kMostNormPartials = 480;
void step_scalars_cuda(const StepScalars& prepared, double max_norm, const double* const* partials, int partial_count,
                       const double* trained_tokens, StepScalars* scalars, Stream stream);

}  // namespace penstock::exec
