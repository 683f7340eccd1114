// Which instruction set the host's kernels run with. They are compiled for each of these (Highway's dynamic dispatch in
// exec/optimizer, one object each of exec/host/matmul_kernels.cpp), whatever the rest of the program is compiled for.
//
// The optimizer and the norm are lists of IEEE operations and give the same bits on all of them. Matrix products
// (exec/host/matmul.h) add in an order that depends on the length of a vector: there the loss has other last bits.
#pragma once

#include <string>

namespace penstock::exec {

enum class CpuTarget { baseline, avx2, avx512 };

inline constexpr CpuTarget kCpuTargets[] = {CpuTarget::baseline, CpuTarget::avx2, CpuTarget::avx512};

/// As PENSTOCK_CPU_TARGET spells it.
const char* cpu_target_name(CpuTarget target);

/// Can this processor, under this operating system, run it?
bool cpu_target_supported(CpuTarget target);

/// The best one that the processor has, or what the environment's PENSTOCK_CPU_TARGET asks for; settled by the first
/// call. Kernels call it before they dispatch. Throws InputError where the variable names no target, or one that the
/// processor lacks.
CpuTarget cpu_target();

/// Later kernels run with `target`, for tests and benchmarks. REQUIRES: supported; no kernel is running.
void force_cpu_target(CpuTarget target);

/// "avx512, the best that this processor has", or "avx2, as PENSTOCK_CPU_TARGET says; this processor has avx512".
std::string describe_cpu_target();

}  // namespace penstock::exec
