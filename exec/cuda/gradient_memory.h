// The parts of a bound op's memory that only CUDA templates ask for: the libraries' workspace, and the gradient's
// tensors.
#pragma once

#include <cstdint>

#include "exec/cuda/attention.h"
#include "exec/cuda/kernels.h"
#include "exec/runtime/bound_regions.h"

namespace penstock::exec {

/// Null and 0 where the layout gives the libraries nothing.
LibraryWorkspace library_workspace(const BoundRegions& regions);

/// The part of the binding's gradient that starts at `offset` elements; no data if the pass makes none.
GradientTarget gradient_at(const TemplateBinding& binding, std::int64_t offset);

/// Where the gradient is overwritten, the padding between its groups must become zero.
void clear_gradient_padding(const TemplateBinding& binding, Stream stream);

}  // namespace penstock::exec
