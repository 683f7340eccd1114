// What is kept of host memory where nobody says how much: one rule for plans, predictions and runs.
#pragma once

#include <cstdint>

namespace penstock {

/// By a run of ours with CUDA beside its arenas, and `kRunPercent` of them: code, tokens, recorded times, the context with
/// cuBLAS and cuDNN (0.4 to 0.5 GiB were seen in the process), and what the system must have left, for it kills a program
/// before its last free page is taken; of pinned memory page tables (8 bytes per page of 4096) and the driver's lists of
/// pages, which no process is seen to hold. With 125.15 GiB free on an H200's host arenas of 121.7 were run, and with
/// 125.03 of 123.2 killed: 1 GiB and 2 % leave them the first.
inline constexpr std::int64_t kRunBytes = std::int64_t{1} << 30;
inline constexpr int kRunPercent = 2;

}  // namespace penstock
