// Names of CUDA types for headers, so that host code compiles without CUDA's own headers.
#pragma once

struct CUstream_st;

namespace penstock::exec {

/// The same type as CUDA's cudaStream_t.
using Stream = CUstream_st*;

}  // namespace penstock::exec
