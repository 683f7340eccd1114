#include <algorithm>
#include <climits>
#include <type_traits>

#include "exec/cuda/error.h"
#include "exec/cuda/gradient_target.cuh"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;
constexpr int kLeastSegment = 32;  // rows of one token that one block adds

constexpr int kSortRows = 32;  // of one block, one per lane
constexpr int kSortParts = 8;  // warps of a block
constexpr int kSortPart = 128;
constexpr int kSortTile = kSortParts * kSortPart;
static_assert(kSortPart % kSortRows == 0, "a block's rows lie in one part");
static_assert(kReductionRows / 2 < kThreads, "each thread looks at one segment of a run");

/// The inputs of a micro-batch in tokens [sequences, row], of which the first `length` of each row are inputs.
struct Inputs {
  const std::int32_t* tokens;
  int length, row;

  __device__ std::int32_t id(std::int64_t place, int vocabulary) const {
    return within(tokens[place / length * row + place % length], vocabulary);
  }
};

template <int W>
__global__ void gather_kernel(const Inputs inputs, const std::uint16_t* weight, std::uint16_t* output, int hidden,
                              int vocabulary) {
  const std::int64_t token = inputs.id(blockIdx.x, vocabulary);
  const std::uint16_t* from = weight + token * hidden;
  std::uint16_t* to = output + blockIdx.x * static_cast<std::int64_t>(hidden);
  for (int c = static_cast<int>(threadIdx.x) * W; c < hidden; c += kThreads * W)
    Packed<W>::load(from + c).store(to + c);
}

/// A row of the micro-batch and its token.
struct TokenRow {
  std::int32_t token, row;
};

/// Sorts the rows by token, then by place: a row goes behind all that come before it, which are counted. One lane per
/// row; each warp of a block compares with its part of a tile of places. Quadratic, and still small beside the sums
/// for the tens of thousands of rows of a micro-batch.
__global__ void sort_kernel(const Inputs inputs, TokenRow* sorted, int rows, int vocabulary) {
  __shared__ __align__(16) std::int32_t tile[kSortTile];
  __shared__ int counts[kSortParts][kSortRows];
  const int row = static_cast<int>(blockIdx.x) * kSortRows + static_cast<int>(threadIdx.x);
  const std::int32_t mine = row < rows ? inputs.id(row, vocabulary) : 0;
  int before = 0;
  for (int base = 0; base < rows; base += kSortTile) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.y) * kSortRows + static_cast<int>(threadIdx.x); i < kSortTile;
         i += kSortParts * kSortRows)
      tile[i] = base + i < rows ? inputs.id(base + i, vocabulary) : INT_MAX;
    __syncthreads();
    const std::int32_t* const part = tile + threadIdx.y * kSortPart;
    const int begin = base + static_cast<int>(threadIdx.y) * kSortPart;
    if (begin <= row && row < begin + kSortPart) {  // the block's own rows, in part before this one
      for (int i = 0; i < kSortPart; ++i) before += part[i] < mine + (begin + i < row ? 1 : 0);
    } else {
      const std::int32_t below = mine + (begin < row ? 1 : 0);
#pragma unroll 16
      for (int i = 0; i < kSortPart; ++i) before += part[i] < below;
    }
  }
  counts[threadIdx.y][threadIdx.x] = before;
  __syncthreads();
  if (threadIdx.y != 0 || row >= rows) return;
  for (int part = 1; part < kSortParts; ++part) before += counts[part][threadIdx.x];
  sorted[before] = {mine, row};
}

/// Segments before `start` in the run of its token, every `segment` rows one; `start` itself may lie inside one.
/// Every thread of the block calls it and looks at one. REQUIRES: rows / segment < kThreads.
__device__ int segments_before(const TokenRow* sorted, int start, int segment) {
  const std::int64_t other = start - static_cast<std::int64_t>(threadIdx.x) * segment;
  return __syncthreads_count(other >= 0 && sorted[other].token == sorted[start].token) - 1;
}

/// The same behind it.
__device__ int segments_behind(const TokenRow* sorted, int start, int rows, int segment) {
  const std::int64_t other = start + static_cast<std::int64_t>(threadIdx.x) * segment;
  return __syncthreads_count(other < rows && sorted[other].token == sorted[start].token) - 1;
}

/// Rows of the segment that starts at `start`.
__device__ int segment_rows(const TokenRow* sorted, int start, int rows, int segment) {
  int count = 0;
  for (int base = 0; base < segment; base += kThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const bool inside = i < segment && i < rows - start && sorted[start + i].token == sorted[start].token;
    const int found = __syncthreads_count(inside);
    count += found;
    if (found < kThreads) break;
  }
  return count;
}

/// Block (x, y): the segment that starts at x, columns of slice y; most x start none. A run of one segment is done;
/// otherwise its sum becomes a row of `partials`: of each `segment` places in `sorted`, at most one starts the first
/// segment of a longer run and at most one a later segment, so that two rows for each suffice.
template <class T, int W>
__global__ void segment_kernel(const TokenRow* __restrict__ sorted, const std::uint16_t* __restrict__ d_output,
                               float* __restrict__ partials, T* __restrict__ gradient, bool accumulates, int rows,
                               int segment, int hidden) {
  const int start = static_cast<int>(blockIdx.x);
  const std::int32_t token = sorted[start].token;
  const int before = segments_before(sorted, start, segment);
  const int nearest = start - before * segment;
  if (nearest > 0 && sorted[nearest - 1].token == token) return;
  const int count = segment_rows(sorted, start, rows, segment);
  const int column = (static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x)) * W;
  if (column >= hidden) return;
  float sums[W] = {};
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    float values[W];
    Packed<W>::load(d_output + static_cast<std::int64_t>(sorted[start + i].row) * hidden + column).unpack(values);
#pragma unroll
    for (int j = 0; j < W; ++j) sums[j] += values[j];
  }
  const bool alone = before == 0 && (segment >= rows - start || sorted[start + segment].token != token);
  if (alone)
    put(gradient, static_cast<std::int64_t>(token) * hidden + column, sums, accumulates);
  else
    put(partials, (2 * static_cast<std::int64_t>(start / segment) + (before > 0 ? 1 : 0)) * hidden + column, sums,
        false);
}

/// Block (x, y): the longer run that starts among the places of window x, if one does: adds its segments in order.
template <class T>
__global__ void run_kernel(const TokenRow* __restrict__ sorted, const float* __restrict__ partials,
                           T* __restrict__ gradient, bool accumulates, int rows, int segment, int hidden) {
  __shared__ int found;
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  const int window = static_cast<int>(blockIdx.x) * segment;
  for (int i = static_cast<int>(threadIdx.x); i < segment && i < rows - segment - window; i += kThreads) {
    const int start = window + i;
    const std::int32_t token = sorted[start].token;
    const bool starts = start == 0 || sorted[start - 1].token != token;
    if (starts && sorted[start + segment].token == token) found = start;
  }
  __syncthreads();
  if (found < 0) return;
  const int behind = segments_behind(sorted, found, rows, segment);
  const int column = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  if (column >= hidden) return;
  const float* const first = partials + 2 * static_cast<std::int64_t>(blockIdx.x) * hidden + column;
  float sum = *first;
#pragma unroll 8
  for (int i = 1; i <= behind; ++i) sum += first[(2 * static_cast<std::int64_t>(i) + 1) * hidden];
  put(gradient, static_cast<std::int64_t>(sorted[found].token) * hidden + column, sum, accumulates);
}

Inputs inputs_of(const std::int32_t* tokens, BatchShape batch) {
  return {tokens, static_cast<int>(batch.sequence_length), static_cast<int>(batch.token_row())};
}

}  // namespace

void embedding_forward(const std::int32_t* tokens, const std::uint16_t* weight, std::uint16_t* output, BatchShape batch,
                       std::int64_t hidden, std::int64_t vocabulary, Stream stream) {
  const auto blocks = static_cast<unsigned>(batch.tokens());
  const Inputs inputs = inputs_of(tokens, batch);
  const int columns = static_cast<int>(hidden), ids = static_cast<int>(vocabulary);
  if (hidden % 8 == 0)
    gather_kernel<8><<<blocks, kThreads, 0, stream>>>(inputs, weight, output, columns, ids);
  else
    gather_kernel<1><<<blocks, kThreads, 0, stream>>>(inputs, weight, output, columns, ids);
  PENSTOCK_CUDA_LAUNCH("embedding_forward");
}

void embedding_gradient_zero(GradientTarget gradient, std::int64_t hidden, std::int64_t vocabulary, Stream stream) {
  PENSTOCK_CUDA(cudaMemsetAsync(gradient.data, 0, vocabulary * hidden * element_bytes(gradient.type), stream));
}

void embedding_backward(const std::int32_t* tokens, const std::uint16_t* d_output, GradientTarget gradient,
                        std::int32_t* order, float* partials, BatchShape batch, std::int64_t hidden,
                        std::int64_t vocabulary, Stream stream) {
  const int rows = static_cast<int>(batch.tokens()), columns = static_cast<int>(hidden);
  auto* const sorted = reinterpret_cast<TokenRow*>(order);
  sort_kernel<<<static_cast<unsigned>(divide_up(rows, kSortRows)), dim3(kSortRows, kSortParts), 0, stream>>>(
      inputs_of(tokens, batch), sorted, rows, static_cast<int>(vocabulary));
  PENSTOCK_CUDA_LAUNCH("embedding order");
  const int segment = std::max(kLeastSegment, static_cast<int>(divide_up(rows, kReductionRows / 2)));
  const int width = hidden % 8 == 0 ? 8 : 1;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(divide_up(hidden, kThreads * width)));
  with_type(gradient, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    const auto kernel = width == 8 ? segment_kernel<T, 8> : segment_kernel<T, 1>;
    kernel<<<grid, kThreads, 0, stream>>>(sorted, d_output, partials, typed, gradient.accumulates, rows, segment,
                                          columns);
  });
  PENSTOCK_CUDA_LAUNCH("embedding_backward");
  if (rows <= segment) return;
  const dim3 windows(static_cast<unsigned>(divide_up(rows, segment)),
                     static_cast<unsigned>(divide_up(hidden, kThreads)));
  with_type(gradient, [&](auto* typed) {
    run_kernel<<<windows, kThreads, 0, stream>>>(sorted, partials, typed, gradient.accumulates, rows, segment, columns);
  });
  PENSTOCK_CUDA_LAUNCH("embedding_backward of long runs");
}

}  // namespace penstock::exec
