// Compiled with --fmad=false: every operation below is rounded as it is written, an fma is one only where it says so.
#include "exec/cuda/optimizer.h"

#include <cuda_runtime.h>

#include <string>

#include "exec/cuda/error.h"
#include "exec/cuda/vectors.cuh"
#include "exec/optimizer/planes.h"
#include "exec/optimizer/step_scalars.h"
#include "shared/error.h"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;

// --- elements of either type -----------------------------------------------------------------------------------------

template <ElementType T>
struct Storage;
template <>
struct Storage<ElementType::bf16> {
  using type = std::uint16_t;
};
template <>
struct Storage<ElementType::fp32> {
  using type = float;
};
template <ElementType T>
using Stored = typename Storage<T>::type;

__device__ float read(float value) { return value; }
__device__ float read(std::uint16_t value) { return __uint_as_float(bits_from_bf16(value)); }
template <class T>
__device__ T as(float value);
template <>
__device__ float as<float>(float value) {
  return value;
}
template <>
__device__ std::uint16_t as<std::uint16_t>(float value) {
  return bf16_from_bits(__float_as_uint(value));
}

/// W consecutive elements by 16-byte accesses (or one by one for W = 1).
template <int W, class T>
struct alignas(W == 1 ? sizeof(T) : 16) Run {
  T values[W];
};
template <int W, class T>
__device__ Run<W, T> load(const T* from) {
  return *reinterpret_cast<const Run<W, T>*>(from);
}
template <int W, class T>
__device__ void store(T* to, const Run<W, T>& run) {
  *reinterpret_cast<Run<W, T>*>(to) = run;
}

/// `launch(std::integral_constant<ElementType, t>)`.
template <class Launch>
void with_element(ElementType type, Launch launch) {
  if (type == ElementType::fp32)
    launch(std::integral_constant<ElementType, ElementType::fp32>());
  else
    launch(std::integral_constant<ElementType, ElementType::bf16>());
}

// --- AdamW -----------------------------------------------------------------------------------------------------------

struct Moments {
  float m, v;
};

__device__ float adamw_step(const StepScalars& s, float gradient, Moments& moments, float p) {
  const float g = __fmul_rn(gradient, s.clip_scale);
  moments.m = __fmaf_rn(s.beta1, moments.m, __fmul_rn(s.one_minus_beta1, g));
  moments.v = __fmaf_rn(s.beta2, moments.v, __fmul_rn(__fmul_rn(s.one_minus_beta2, g), g));
  const float denominator = __fmaf_rn(__fsqrt_rn(moments.v), s.inverse_sqrt_bias2, s.epsilon);
  p = __fmul_rn(p, s.decay);
  return __fsub_rn(p, __fdiv_rn(__fmul_rn(s.step_size, moments.m), denominator));
}

/// W elements from `first` on.
template <int W, StateFormat F, class M, class G>
__device__ void adamw_run(const OptimizerStates& states, const G* gradient, const StepScalars& scalars,
                          std::int64_t first) {
  const Run<W, G> g = load<W>(gradient + first);
  Run<W, M> m = load<W>(static_cast<M*>(states.m) + first);
  Run<W, M> v = load<W>(static_cast<M*>(states.v) + first);
  Run<W, std::uint16_t> weights{}, low{};
  Run<W, float> master{};
  if constexpr (F == StateFormat::planes) {
    weights = load<W>(states.weights + first);
    low = load<W>(states.low_bits + first);
  } else if constexpr (F == StateFormat::bf16) {
    weights = load<W>(states.weights + first);
  } else {
    master = load<W>(states.master + first);
  }
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float p;
    if constexpr (F == StateFormat::planes)
      p = __uint_as_float(join_planes(weights.values[i], low.values[i]));
    else if constexpr (F == StateFormat::bf16)
      p = read(weights.values[i]);
    else
      p = master.values[i];
    Moments moments{read(m.values[i]), read(v.values[i])};
    p = adamw_step(scalars, read(g.values[i]), moments, p);
    m.values[i] = as<M>(moments.m);
    v.values[i] = as<M>(moments.v);
    if constexpr (F == StateFormat::planes) {
      const PlanePair planes = split_planes(__float_as_uint(p));
      weights.values[i] = planes.hi;
      low.values[i] = planes.lo;
    } else {
      weights.values[i] = as<std::uint16_t>(p);
      master.values[i] = p;
    }
  }
  store<W>(static_cast<M*>(states.m) + first, m);
  store<W>(static_cast<M*>(states.v) + first, v);
  store<W>(states.weights + first, weights);
  if constexpr (F == StateFormat::planes) store<W>(states.low_bits + first, low);
  if constexpr (F == StateFormat::master_and_copy) store<W>(states.master + first, master);
}

constexpr int kRun = 8;

template <StateFormat F, class M, class G>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(OptimizerStates states, const G* gradient, std::int64_t elements, const StepScalars* scalars,
                 const __grid_constant__ UndecayedRanges undecayed) {
  StepScalars s = *scalars;
  if (s.skip != 0) return;
  const std::int64_t first = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * kRun;
  // Ranges begin and end at multiples of a run, or with the layer.
  for (int i = 0; i < undecayed.count; ++i)
    if (first >= undecayed.begin[i] && first < undecayed.end[i]) s.decay = 1;
  if (first + kRun <= elements) {
    adamw_run<kRun, F, M, G>(states, gradient, s, first);
  } else {
    for (std::int64_t i = first; i < elements; ++i) adamw_run<1, F, M, G>(states, gradient, s, i);
  }
}

template <StateFormat F>
void launch_adamw(const OptimizerStates& states, const void* gradient, ElementType gradient_type, std::int64_t elements,
                  const StepScalars* scalars, Stream stream, const UndecayedRanges& undecayed) {
  const auto blocks = static_cast<unsigned>(divide_up(elements, kThreads * kRun));
  with_element(states.moments, [&](auto moments) {
    with_element(gradient_type, [&](auto type) {
      using M = Stored<decltype(moments)::value>;
      using G = Stored<decltype(type)::value>;
      adamw_kernel<F, M, G>
          <<<blocks, kThreads, 0, stream>>>(states, static_cast<const G*>(gradient), elements, scalars, undecayed);
    });
  });
}

// --- the norm's tree
// ---------------------------------------------------------------------------------------------------

constexpr int kLeafSteps = static_cast<int>(kNormLeaf) / kNormLanes;
constexpr int kWarps = kThreads / kNormLanes;

/// The tail of a leaf: lanes added pairwise, j += j + 16 and so on; lane 0 writes.
__device__ void write_leaf(double sum, double* to) {
#pragma unroll
  for (int step = kNormLanes / 2; step > 0; step /= 2) sum = __dadd_rn(sum, __shfl_down_sync(0xFFFFFFFFu, sum, step));
  if (threadIdx.x % kNormLanes == 0) *to = sum;
}

/// One warp per leaf. Reads `sum` (+ `tied`), writes `out` unless nullptr, and the leaf's sum of squares of what was
/// (or would be) written unless `leaves` is nullptr.
template <class S, class T>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const S* sum, const S* tied, T* out, std::int64_t elements, double* leaves) {
  const std::int64_t leaf = blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / kNormLanes;
  const std::int64_t first = leaf * kNormLeaf + threadIdx.x % kNormLanes;
  if (leaf * kNormLeaf >= elements) return;
  double squares = 0;
  constexpr int kBatch = 16;  // loads under way before the first store
  for (int base = 0; base < kLeafSteps; base += kBatch) {
    float values[kBatch];
#pragma unroll
    for (int step = 0; step < kBatch; ++step) {
      const std::int64_t i = first + (base + step) * kNormLanes;
      values[step] = i < elements ? read(sum[i]) : 0.0f;
      if (tied && i < elements) values[step] = __fadd_rn(values[step], read(tied[i]));
    }
#pragma unroll
    for (int step = 0; step < kBatch; ++step) {
      const std::int64_t i = first + (base + step) * kNormLanes;
      const T rounded = as<T>(values[step]);
      if (out && i < elements) out[i] = rounded;
      const double wide = read(rounded);
      squares = __fma_rn(wide, wide, squares);
    }
  }
  if (leaves) write_leaf(squares, leaves + leaf);
}

__global__ void __launch_bounds__(kThreads) level_kernel(const double* values, std::int64_t count, double* leaves) {
  const std::int64_t leaf = blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / kNormLanes;
  const std::int64_t first = leaf * kNormLeaf + threadIdx.x % kNormLanes;
  if (leaf * kNormLeaf >= count) return;
  double sum = 0;
#pragma unroll 16
  for (int step = 0; step < kLeafSteps; ++step) {
    const std::int64_t i = first + step * kNormLanes;
    if (i < count) sum = __dadd_rn(sum, values[i]);
  }
  write_leaf(sum, leaves + leaf);
}

unsigned leaf_blocks(std::int64_t elements) {
  return static_cast<unsigned>(divide_up(divide_up(elements, kNormLeaf), kWarps));
}

/// Levels lie one behind the other in `scratch`; the last one goes to `sum`.
void reduce_levels(double* scratch, std::int64_t leaves, double* sum, Stream stream) {
  while (leaves > 1) {
    const std::int64_t next = divide_up(leaves, kNormLeaf);
    double* to = next == 1 ? sum : scratch + leaves;
    level_kernel<<<leaf_blocks(leaves), kThreads, 0, stream>>>(scratch, leaves, to);
    PENSTOCK_CUDA_LAUNCH("norm level");
    scratch += leaves;
    leaves = next;
  }
}

template <class S, class T>
void launch_finish(const S* sum, const S* tied, T* out, std::int64_t elements, double* scratch, double* total,
                   Stream stream) {
  if (total && elements == 0) PENSTOCK_CUDA(cudaMemsetAsync(total, 0, sizeof(double), stream));
  if (elements == 0) return;
  const std::int64_t leaves = divide_up(elements, kNormLeaf);
  double* first = leaves == 1 ? total : scratch;
  finish_kernel<S, T>
      <<<leaf_blocks(elements), kThreads, 0, stream>>>(sum, tied, out, elements, total ? first : nullptr);
  PENSTOCK_CUDA_LAUNCH("finish_gradient");
  if (total) reduce_levels(scratch, leaves, total, stream);
}

template <class P, class S>
__global__ void __launch_bounds__(kThreads)
    accumulate_kernel(const P* part, S* sum, bool first, std::int64_t elements) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < elements; i += stride)
    sum[i] = as<S>(first ? read(part[i]) : __fadd_rn(read(sum[i]), read(part[i])));
}

// --- step scalars
// ------------------------------------------------------------------------------------------------------

struct PartialList {
  const double* places[kMostNormPartials];
  int count;
};

__global__ void step_scalars_kernel(const __grid_constant__ PartialList partials, StepScalars prepared, double max_norm,
                                    const double* trained_tokens, StepScalars* scalars) {
  if (partials.count > 0) {
    double sum = 0;
    for (int i = 0; i < partials.count; ++i) sum = __dadd_rn(sum, *partials.places[i]);
    apply_norm(prepared, sum, max_norm);
  }
  if (trained_tokens != nullptr) skip_untrained(prepared, *trained_tokens);
  *scalars = prepared;
}

}  // namespace

void adamw_cuda(const OptimizerStates& states, const void* gradient, ElementType gradient_type, std::int64_t elements,
                const StepScalars* scalars, Stream stream, const UndecayedRanges& undecayed) {
  if (elements == 0) return;
  switch (states.format) {
    case StateFormat::planes:
      launch_adamw<StateFormat::planes>(states, gradient, gradient_type, elements, scalars, stream, undecayed);
      break;
    case StateFormat::master_and_copy:
      launch_adamw<StateFormat::master_and_copy>(states, gradient, gradient_type, elements, scalars, stream, undecayed);
      break;
    case StateFormat::bf16:
      launch_adamw<StateFormat::bf16>(states, gradient, gradient_type, elements, scalars, stream, undecayed);
      break;
  }
  PENSTOCK_CUDA_LAUNCH("adamw");
}

std::int64_t norm_scratch_elements(std::int64_t elements) {
  std::int64_t total = 0;
  for (std::int64_t leaves = divide_up(elements, kNormLeaf); leaves > 1; leaves = divide_up(leaves, kNormLeaf))
    total += leaves;
  return total;
}

void sum_of_squares_cuda(const void* values, ElementType type, std::int64_t elements, double* scratch, double* sum,
                         Stream stream) {
  with_element(type, [&](auto t) {
    using T = Stored<decltype(t)::value>;
    launch_finish<T, T>(static_cast<const T*>(values), nullptr, nullptr, elements, scratch, sum, stream);
  });
}

void finish_gradient_cuda(const void* sum, ElementType sum_type, const void* tied, void* out, ElementType out_type,
                          std::int64_t elements, double* scratch, double* sum_of_squares, Stream stream) {
  with_element(sum_type, [&](auto s) {
    with_element(out_type, [&](auto t) {
      using S = Stored<decltype(s)::value>;
      using T = Stored<decltype(t)::value>;
      launch_finish<S, T>(static_cast<const S*>(sum), static_cast<const S*>(tied), static_cast<T*>(out), elements,
                          scratch, sum_of_squares, stream);
    });
  });
}

void accumulate_cuda(const void* part, ElementType part_type, void* sum, ElementType sum_type, bool first,
                     std::int64_t elements, Stream stream) {
  if (elements == 0) return;
  const std::int64_t wanted = divide_up(elements, kThreads * 4);
  const auto blocks = static_cast<unsigned>(wanted < 65536 ? wanted : 65536);
  with_element(part_type, [&](auto p) {
    with_element(sum_type, [&](auto s) {
      using P = Stored<decltype(p)::value>;
      using S = Stored<decltype(s)::value>;
      accumulate_kernel<P, S>
          <<<blocks, kThreads, 0, stream>>>(static_cast<const P*>(part), static_cast<S*>(sum), first, elements);
    });
  });
  PENSTOCK_CUDA_LAUNCH("accumulate");
}

void step_scalars_cuda(const StepScalars& prepared, double max_norm, const double* const* partials, int partial_count,
                       const double* trained_tokens, StepScalars* scalars, Stream stream) {
  if (partial_count > kMostNormPartials)
    throw InputError("step scalars: norm partials of " + std::to_string(partial_count) +
                     " layers; the GPU takes at most " + std::to_string(kMostNormPartials));
  PartialList list{};
  list.count = partial_count;
  for (int i = 0; i < partial_count; ++i) list.places[i] = partials[i];
  step_scalars_kernel<<<1, 1, 0, stream>>>(list, prepared, max_norm, trained_tokens, scalars);
  PENSTOCK_CUDA_LAUNCH("step_scalars");
}

}  // namespace penstock::exec
