#include "exec/cuda/error.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/vectors.cuh"
#include "shared/ignored_label.h"

namespace penstock::exec {
namespace {

constexpr int kThreads = 1024;
constexpr float kLog2e = 1.4426950408889634f;

struct Partial {  // of a softmax: largest logit, sum of exp(logit - largest)
  float largest, sum;
};

__device__ float exp_difference(float a, float b) { return exp2f((a - b) * kLog2e); }

__device__ Partial merge(Partial a, Partial b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return {largest, 0.0f};
  // Rounded one by one: a contracted fma would make the sum depend on which of the two is `a`.
  return {largest, __fadd_rn(__fmul_rn(a.sum, exp_difference(a.largest, largest)),
                             __fmul_rn(b.sum, exp_difference(b.largest, largest)))};
}

/// The same in every lane: merge is symmetric, so both partners of an exchange get the same bits.
__device__ Partial warp_merge(Partial part) {
  for (int step = 16; step > 0; step /= 2) {
    const Partial other{__shfl_xor_sync(0xFFFFFFFFu, part.largest, step), __shfl_xor_sync(0xFFFFFFFFu, part.sum, step)};
    part = merge(part, other);
  }
  return part;
}

template <int W>
__device__ void ignore(std::uint16_t* row, float* stats, int vocabulary) {
  const float zeros[W] = {};
  for (int c = static_cast<int>(threadIdx.x) * W; c < vocabulary; c += kThreads * W)
    Packed<W>::pack(zeros).store(row + c);
  if (threadIdx.x == 0) stats[0] = stats[1] = stats[2] = stats[3] = 0.0f;
}

/// One block per row: a pass for the statistics, a pass that turns logits into their gradient.
template <int W>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(std::uint16_t* logits, const Targets targets, float* row_stats, std::int64_t first_row, int vocabulary,
                const LossScale loss_scale) {
  __shared__ Partial parts[kThreads / 32];
  __shared__ float target_logit;
  std::uint16_t* row = logits + blockIdx.x * static_cast<std::int64_t>(vocabulary);
  const std::int64_t r = first_row + blockIdx.x;
  const std::int32_t id = targets.ids[r / targets.length * targets.row + r % targets.length];
  const int thread = static_cast<int>(threadIdx.x);
  if (id == kIgnoredLabel) return ignore<W>(row, row_stats + 4 * r, vocabulary);
  const int target = within(id, vocabulary);
  const float scale =
      loss_scale.trained_tokens == nullptr ? loss_scale.value : static_cast<float>(1.0 / *loss_scale.trained_tokens);
  if (thread == 0) target_logit = widen(row[target]);

  Partial part{-INFINITY, 0.0f};
#pragma unroll 2
  for (int c = thread * W; c < vocabulary; c += kThreads * W) {
    float values[W];
    Packed<W>::load(row + c).unpack(values);
    float largest = part.largest;
#pragma unroll
    for (int i = 0; i < W; ++i) largest = fmaxf(largest, values[i]);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) sum += exp_difference(values[i], largest);
    part = {largest, part.sum * exp_difference(part.largest, largest) + sum};
  }
  part = warp_merge(part);
  if (thread % 32 == 0) parts[thread / 32] = part;
  __syncthreads();
  part = warp_merge(parts[thread % 32]);

  if (thread == 0) {
    float* stats = row_stats + 4 * r;
    stats[0] = part.largest;
    stats[1] = part.sum;
    stats[2] = target_logit;
    stats[3] = logf(part.sum) + (part.largest - target_logit);
  }
  const float factor = scale / part.sum;
#pragma unroll 2
  for (int c = thread * W; c < vocabulary; c += kThreads * W) {
    float values[W];
    Packed<W>::load(row + c).unpack(values);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values[i] = exp_difference(values[i], part.largest) * factor;
      if (c + i == target) values[i] -= scale;
    }
    Packed<W>::pack(values).store(row + c);
  }
}

/// One block: thread t adds losses t, t + kThreads, ... in order, then a fixed tree.
__global__ void __launch_bounds__(kThreads) sum_kernel(const float* row_stats, std::int64_t tokens, double* loss) {
  __shared__ double sums[kThreads];
  double sum = 0;
  for (std::int64_t r = threadIdx.x; r < tokens; r += kThreads) sum += static_cast<double>(row_stats[4 * r + 3]);
  sums[threadIdx.x] = sum;
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
  }
  if (threadIdx.x == 0) *loss = sums[0];
}

}  // namespace

void loss_rows(std::uint16_t* logits, const Targets& targets, float* row_stats, std::int64_t first_row,
               std::int64_t rows, std::int64_t vocabulary, const LossScale& scale, Stream stream) {
  const auto blocks = static_cast<unsigned>(rows);
  const int columns = static_cast<int>(vocabulary);
  if (vocabulary % 8 == 0)
    rows_kernel<8><<<blocks, kThreads, 0, stream>>>(logits, targets, row_stats, first_row, columns, scale);
  else
    rows_kernel<1><<<blocks, kThreads, 0, stream>>>(logits, targets, row_stats, first_row, columns, scale);
  PENSTOCK_CUDA_LAUNCH("loss_rows");
}

void loss_sum(const float* row_stats, std::int64_t tokens, double* loss, Stream stream) {
  sum_kernel<<<1, kThreads, 0, stream>>>(row_stats, tokens, loss);
  PENSTOCK_CUDA_LAUNCH("loss_sum");
}

}  // namespace penstock::exec
