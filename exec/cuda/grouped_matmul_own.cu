// Grouped products in tiles on the tensor cores of any card from sm_80 on. A block makes one tile of one expert's
// result; it looks for its expert itself, and of the blocks, of which there are as many as any routing may need, the
// last ones have nothing to do.
#include "exec/cuda/grouped_matmul_own.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "exec/cuda/error.h"
#include "exec/cuda/gradient_target.cuh"

namespace penstock::exec::own_grouped {
namespace {

constexpr int kTile = 128;     // rows and columns of a result's tile
constexpr int kDepth = 32;     // of the sum, at a time
constexpr int kStages = 4;     // such pieces on their way
constexpr int kThreads = 128;  // four warps in a square, each of which makes a quarter
constexpr int kWarpTile = 64;
constexpr int kPack = 8;  // elements of 16 bytes
constexpr int kOperandElements = kTile * kDepth;
constexpr int kSharedBytes = kStages * 2 * kOperandElements * 2;

/// Elements of a tile of an operand: its rows lie along the sum ([kTile, kDepth]) or across it ([kDepth, kTile]). Packs
/// are permuted within rows, so that the eight rows that ldmatrix reads at once lie in different banks.
template <bool Across>
__device__ int pack_at(int row, int pack) {
  if constexpr (Across) return row * kTile + (pack ^ (row & 7)) * kPack;
  return row * kDepth + (pack ^ ((row >> 1) & 3)) * kPack;
}

/// A matrix of `rows` rows of `columns` elements, of which those at `stride` elements from row to row are read.
struct Source {
  const std::uint16_t* data;
  std::int64_t stride;
  int rows, columns;
};

__device__ unsigned shared_address(const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }

/// The first `count` elements of a pack (0 to 8), then zeros; without Aligned one by one.
template <bool Aligned>
__device__ void load_pack(std::uint16_t* to, const std::uint16_t* from, int count) {
  if constexpr (Aligned) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from),
                 "r"(count > 0 ? 16 : 0));
  } else {
    unsigned words[4] = {};
    for (int i = 0; i < count; ++i) words[i / 2] |= static_cast<unsigned>(from[i]) << (16 * (i % 2));
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// The piece of an operand whose rows along the result begin at `at`, and along the sum at `depth`.
template <bool Across, bool Aligned>
__device__ void load_operand(std::uint16_t* shared, const Source& source, int at, int depth) {
  constexpr int kPacks = (Across ? kTile : kDepth) / kPack, kAll = kOperandElements / kPack;
  const int first_row = Across ? depth : at, first_column = Across ? at : depth;
#pragma unroll
  for (int i = 0; i < kAll / kThreads; ++i) {
    const int index = i * kThreads + static_cast<int>(threadIdx.x);
    const int row = index / kPacks, pack = index % kPacks;
    const int from_row = first_row + row, from_column = first_column + pack * kPack;
    const int count = from_row < source.rows ? max(0, min(kPack, source.columns - from_column)) : 0;
    const std::uint16_t* const from = count > 0 ? source.data + from_row * source.stride + from_column : source.data;
    load_pack<Aligned>(shared + pack_at<Across>(row, pack), from, count);
  }
}

__device__ void load_matrices(unsigned (&to)[4], const std::uint16_t* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(from)));
}
__device__ void load_transposed(unsigned (&to)[4], const std::uint16_t* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(from)));
}

/// 16 rows of the left operand from `row`, 16 of the sum from `depth`, as mma takes them.
template <bool Across>
__device__ void load_left(unsigned (&to)[4], const std::uint16_t* shared, int row, int depth, int lane) {
  if constexpr (Across)
    load_transposed(to,
                    shared + pack_at<true>(depth + (lane & 7) + ((lane >> 4) << 3), row / kPack + ((lane >> 3) & 1)));
  else
    load_matrices(to, shared + pack_at<false>(row + (lane & 15), depth / kPack + (lane >> 4)));
}

/// 16 columns of the result from `column`: two operands of mma, one after the other.
template <bool Across>
__device__ void load_right(unsigned (&to)[4], const std::uint16_t* shared, int column, int depth, int lane) {
  if constexpr (Across)
    load_transposed(to, shared + pack_at<true>(depth + (lane & 15), column / kPack + (lane >> 4)));
  else
    load_matrices(to,
                  shared + pack_at<false>(column + (lane & 7) + ((lane >> 4) << 3), depth / kPack + ((lane >> 3) & 1)));
}

__device__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

constexpr int kRowParts = kWarpTile / 16, kColumnParts = kWarpTile / 8;

/// A warp's part of a tile.
struct Sums {
  float values[kRowParts][kColumnParts][4] = {};

  /// body(row, column, first, second) of each two neighbours that this thread holds, within the tile.
  template <class Body>
  __device__ void for_each(const Body& body) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp / 2 * kWarpTile + lane / 4, column = warp % 2 * kWarpTile + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kRowParts; ++i)
#pragma unroll
      for (int j = 0; j < kColumnParts; ++j) {
        body(row + 16 * i, column + 8 * j, values[i][j][0], values[i][j][1]);
        body(row + 16 * i + 8, column + 8 * j, values[i][j][2], values[i][j][3]);
      }
  }
};

template <bool LeftAcross, bool RightAcross>
__device__ void multiply_piece(Sums& sums, const std::uint16_t* left, const std::uint16_t* right) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int depth = 0; depth < kDepth; depth += 16) {
    unsigned a[kRowParts][4], b[kColumnParts / 2][4];
#pragma unroll
    for (int i = 0; i < kRowParts; ++i) load_left<LeftAcross>(a[i], left, warp / 2 * kWarpTile + 16 * i, depth, lane);
#pragma unroll
    for (int j = 0; j < kColumnParts / 2; ++j)
      load_right<RightAcross>(b[j], right, warp % 2 * kWarpTile + 16 * j, depth, lane);
#pragma unroll
    for (int i = 0; i < kRowParts; ++i)
#pragma unroll
      for (int j = 0; j < kColumnParts; ++j)
        multiply_add(sums.values[i][j], a[i], b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1]);
  }
}

/// The tile at (row, column) of left right, summed over `depth`.
template <bool LeftAcross, bool RightAcross, bool Aligned>
__device__ void make_tile(Sums& sums, const Source& left, const Source& right, int row, int column, int depth) {
  extern __shared__ __align__(128) std::uint16_t shared[];
  const auto stage = [&](int piece) { return shared + piece % kStages * 2 * kOperandElements; };
  const int pieces = (depth + kDepth - 1) / kDepth;
  const auto load = [&](int piece) {
    if (piece < pieces) {
      load_operand<LeftAcross, Aligned>(stage(piece), left, row, piece * kDepth);
      load_operand<RightAcross, Aligned>(stage(piece) + kOperandElements, right, column, piece * kDepth);
    }
    asm volatile("cp.async.commit_group;\n");
  };
  for (int piece = 0; piece < kStages - 1; ++piece) load(piece);
  for (int piece = 0; piece < pieces; ++piece) {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kStages - 2));
    __syncthreads();  // and all have done with the piece whose place the next one takes
    load(piece + kStages - 1);
    multiply_piece<LeftAcross, RightAcross>(sums, stage(piece), stage(piece) + kOperandElements);
  }
}

struct RowTile {
  int expert, begin, end;  // end: of the expert's rows. An expert of -1: there is none
};

/// The tile of rows that comes at `place`, tiles counted expert by expert. Every thread of the block calls it.
__device__ RowTile find_row_tile(const std::int32_t* first, int experts, int place) {
  __shared__ RowTile found;
  if (threadIdx.x == 0) found.expert = -1;
  __syncthreads();
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    int before = 0;
    for (int base = 0; base < experts && before <= place; base += 32) {
      const int expert = base + lane;
      const int begin = expert < experts ? first[expert] : 0, end = expert < experts ? first[expert + 1] : 0;
      const int own = (end - begin + kTile - 1) / kTile;
      int up_to = own;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(0xFFFFFFFFu, up_to, step);
        if (lane >= step) up_to += other;
      }
      const int mine = before + up_to - own;
      if (mine <= place && place < mine + own) found = {expert, begin + (place - mine) * kTile, end};
      before += __shfl_sync(0xFFFFFFFFu, up_to, 31);
    }
  }
  __syncthreads();
  return found;
}

/// result [rows, columns] = left [rows, depth] times each expert's matrix: [columns, depth], or [depth, columns] with
/// RightAcross.
template <bool RightAcross, bool Aligned>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const ExpertRows rows, const std::uint16_t* __restrict__ left, const ExpertMatrices right,
                std::uint16_t* __restrict__ result, int columns, int depth) {
  const int column_tiles = (columns + kTile - 1) / kTile;
  const RowTile tile =
      find_row_tile(rows.first, static_cast<int>(rows.experts), static_cast<int>(blockIdx.x) / column_tiles);
  if (tile.expert < 0) return;
  const int column = static_cast<int>(blockIdx.x) % column_tiles * kTile;
  const int own_rows = min(kTile, tile.end - tile.begin);
  Sums sums;
  const Source a{left + tile.begin * static_cast<std::int64_t>(depth), depth, own_rows, depth};
  const std::uint16_t* const matrix = right.first + tile.expert * right.stride;
  const Source b = RightAcross ? Source{matrix, columns, depth, columns} : Source{matrix, depth, columns, depth};
  make_tile<false, RightAcross, Aligned>(sums, a, b, 0, column, depth);
  sums.for_each([&](int in_row, int in_column, float first, float second) {
    const int at = column + in_column;
    if (in_row >= own_rows || at >= columns) return;
    std::uint16_t* const to = result + (tile.begin + in_row) * static_cast<std::int64_t>(columns) + at;
    if constexpr (Aligned) {
      *reinterpret_cast<unsigned*>(to) =
          static_cast<unsigned>(narrow(first)) | (static_cast<unsigned>(narrow(second)) << 16);
    } else {
      to[0] = narrow(first);
      if (at + 1 < columns) to[1] = narrow(second);
    }
  });
}

/// target of each expert [m, n] (+)= left^T right of its rows, left [rows, m], right [rows, n].
template <class T, bool Aligned>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(const std::int32_t* __restrict__ first, const std::uint16_t* __restrict__ left,
                    const std::uint16_t* __restrict__ right, T* __restrict__ target, std::int64_t stride,
                    bool accumulates, int m, int n) {
  const int row_tiles = (m + kTile - 1) / kTile, column_tiles = (n + kTile - 1) / kTile;
  const int expert = static_cast<int>(blockIdx.x) / (row_tiles * column_tiles);
  const int row = static_cast<int>(blockIdx.x) / column_tiles % row_tiles * kTile;
  const int column = static_cast<int>(blockIdx.x) % column_tiles * kTile;
  const std::int64_t begin = first[expert];
  const int rows = first[expert + 1] - static_cast<int>(begin);
  if (rows == 0 && accumulates) return;
  Sums sums;
  make_tile<true, true, Aligned>(sums, {left + begin * m, m, rows, m}, {right + begin * n, n, rows, n}, row, column,
                                 rows);
  T* const matrix = target + expert * stride;
  sums.for_each([&](int in_row, int in_column, float one, float other) {
    const int at_row = row + in_row, at = column + in_column;
    if (at_row >= m) return;
    const std::int64_t place = at_row * static_cast<std::int64_t>(n) + at;
    if (at < n) put(matrix, place, one, accumulates);
    if (at + 1 < n) put(matrix, place + 1, other, accumulates);
  });
}

unsigned grid_of(std::int64_t blocks) {
  if (blocks > 0x7FFFFFFF)
    throw std::runtime_error("grouped product: " + std::to_string(blocks) + " tiles are more than a grid has");
  return static_cast<unsigned>(blocks);
}

template <class Kernel>
void allow_shared_memory(Kernel kernel) {
  PENSTOCK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
}

template <bool RightAcross>
void multiply_rows(const ExpertRows& rows, const std::uint16_t* left, const ExpertMatrices& right,
                   std::uint16_t* result, std::int64_t columns, std::int64_t depth, Stream stream) {
  // An expert's last tile may have few rows, so that each expert may need one tile more than its rows fill.
  const unsigned blocks = grid_of((rows.rows / kTile + std::min(rows.experts, rows.rows)) * divide_up(columns, kTile));
  const auto launch = [&](auto kernel) {
    allow_shared_memory(kernel);
    kernel<<<blocks, kThreads, kSharedBytes, stream>>>(rows, left, right, result, static_cast<int>(columns),
                                                       static_cast<int>(depth));
  };
  if (columns % kPack == 0 && depth % kPack == 0)
    launch(rows_kernel<RightAcross, true>);
  else
    launch(rows_kernel<RightAcross, false>);
  PENSTOCK_CUDA_LAUNCH("grouped product");
}

}  // namespace

void forward(const ExpertRows& rows, const std::uint16_t* x, const ExpertMatrices& w, std::uint16_t* y,
             std::int64_t outputs, std::int64_t inputs, Stream stream) {
  multiply_rows<false>(rows, x, w, y, outputs, inputs, stream);
}

void input_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const ExpertMatrices& w, std::uint16_t* d_x,
                    std::int64_t outputs, std::int64_t inputs, Stream stream) {
  multiply_rows<true>(rows, d_y, w, d_x, inputs, outputs, stream);
}

void weight_gradient(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w,
                     std::int64_t stride, std::int64_t outputs, std::int64_t inputs, Stream stream) {
  const unsigned blocks = grid_of(rows.experts * divide_up(outputs, kTile) * divide_up(inputs, kTile));
  with_type(d_w, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    const auto launch = [&](auto kernel) {
      allow_shared_memory(kernel);
      kernel<<<blocks, kThreads, kSharedBytes, stream>>>(rows.first, d_y, x, typed, stride, d_w.accumulates,
                                                         static_cast<int>(outputs), static_cast<int>(inputs));
    };
    if (outputs % kPack == 0 && inputs % kPack == 0)
      launch(gradient_kernel<T, true>);
    else
      launch(gradient_kernel<T, false>);
  });
  PENSTOCK_CUDA_LAUNCH("grouped weight gradient");
}

}  // namespace penstock::exec::own_grouped
