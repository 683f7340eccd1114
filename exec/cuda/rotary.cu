#include <algorithm>
#include <string>

#include "exec/cuda/documents.h"
#include "exec/cuda/error.h"
#include "exec/cuda/gradient_target.cuh"
#include "shared/error.h"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;
constexpr int kMostNormThreads = 1024;  // of a norm of all heads

/// A team of `lanes` threads (a power of two, within a warp) takes one token; lane j holds the pairs of I packs of W:
/// pack i starts at pair (i * lanes + j) * W and pairs dimension p with p + dim / 2. The angles are computed once and
/// used for all heads. Sines of large angles: the angle is reduced in fp64.
template <int W, int I>
struct Team {
  int lane, half;
  unsigned lanes;

  __device__ int pair(int i) const { return (i * static_cast<int>(lanes) + lane) * W; }
  __device__ float sum(float value) const {
    for (unsigned step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
    return value;
  }
};

template <int W, int I>
struct Pairs {  // one head's values: low[p] at pair p, high[p] at pair p + half
  float low[I][W], high[I][W];

  __device__ void load(const Team<W, I>& team, const std::uint16_t* head) {
#pragma unroll
    for (int i = 0; i < I; ++i) {
      if (team.pair(i) >= team.half) {
#pragma unroll
        for (int j = 0; j < W; ++j) low[i][j] = high[i][j] = 0;
        continue;
      }
      Packed<W>::load(head + team.pair(i)).unpack(low[i]);
      Packed<W>::load(head + team.half + team.pair(i)).unpack(high[i]);
    }
  }
  __device__ void store(const Team<W, I>& team, std::uint16_t* head) const {
#pragma unroll
    for (int i = 0; i < I; ++i) {
      if (team.pair(i) >= team.half) continue;
      Packed<W>::pack(low[i]).store(head + team.pair(i));
      Packed<W>::pack(high[i]).store(head + team.half + team.pair(i));
    }
  }
  /// By the angle (sign 1), or the transpose of that (sign -1).
  __device__ void rotate(const Pairs& angles, float sign) {
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) {
        const float cosine = angles.low[i][j], sine = sign * angles.high[i][j], a = low[i][j], b = high[i][j];
        low[i][j] = a * cosine - b * sine;
        high[i][j] = b * cosine + a * sine;
      }
  }
  __device__ float dot(const Pairs& other) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) sum += low[i][j] * other.low[i][j] + high[i][j] * other.high[i][j];
    return sum;
  }
  __device__ void multiply(const Pairs& other, float factor) {
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) {
        low[i][j] = low[i][j] * factor * other.low[i][j];
        high[i][j] = high[i][j] * factor * other.high[i][j];
      }
  }
};

/// Both times the factor.
__device__ void turn_of(const Rotary& rotary, std::int64_t position, int pair, float* sine, float* cosine) {
  constexpr double kTurn = 6.283185307179586476925286766559;
  const double angle = static_cast<double>(position) * rotary.frequencies[pair];
  sincosf(static_cast<float>(angle - kTurn * rint(angle / kTurn)), sine, cosine);
  *sine *= rotary.factor;
  *cosine *= rotary.factor;
}

/// low = cosine, high = sine.
template <int W, int I>
__device__ Pairs<W, I> angles_at(const Team<W, I>& team, const Rotary& rotary, std::int64_t position) {
  Pairs<W, I> angles;
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const int pair = team.pair(i) + j;
      if (pair < team.half)
        turn_of(rotary, position, pair, &angles.high[i][j], &angles.low[i][j]);
      else
        angles.high[i][j] = 0, angles.low[i][j] = 1;
    }
  return angles;
}

__device__ std::int64_t position_of(const Rotary& rotary, std::int64_t token) {
  const std::int64_t in_row = token % rotary.length, place = rotary.past + in_row;
  if (rotary.document_starts == nullptr) return place;
  return place - document_start(rotary.document_starts + (token - in_row), static_cast<int>(place));
}

__device__ std::int64_t row_columns(const Rotary& rotary) {
  return (rotary.heads + 2 * rotary.kv_heads) * rotary.head_dim;
}

template <int W, int I>
__device__ Team<W, I> my_team(const Rotary& rotary, unsigned lanes) {
  return {static_cast<int>(threadIdx.x % lanes), static_cast<int>(rotary.head_dim / 2), lanes};
}

/// Block (x, y): tokens of x, heads y, y + gridDim.y, ...
template <int W, int I>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const __grid_constant__ Rotary rotary, std::uint16_t* qkv, std::uint16_t* qk_raw, unsigned lanes) {
  const Team<W, I> team = my_team<W, I>(rotary, lanes);
  const std::int64_t token = blockIdx.x * static_cast<std::int64_t>(kThreads / lanes) + threadIdx.x / lanes;
  const bool present = token < rotary.tokens;  // absent teams go along: the sums are taken by whole warps
  const std::int64_t at = present ? token : 0;
  const Pairs<W, I> angles = angles_at(team, rotary, position_of(rotary, at));
  const int heads = static_cast<int>(rotary.heads + rotary.kv_heads), dim = static_cast<int>(rotary.head_dim);
  for (int head = static_cast<int>(blockIdx.y); head < heads; head += static_cast<int>(gridDim.y)) {
    std::uint16_t* place = qkv + at * row_columns(rotary) + head * dim;
    Pairs<W, I> values;
    values.load(team, place);
    if (rotary.q_norm) {
      if (present) values.store(team, qk_raw + (at * heads + head) * dim);
      Pairs<W, I> weight;
      weight.load(team, head < rotary.heads ? rotary.q_norm : rotary.k_norm);
      values.multiply(weight, rsqrtf(team.sum(values.dot(values)) / static_cast<float>(dim) + rotary.epsilon));
    }
    values.rotate(angles, 1.0f);
    if (present) values.store(team, place);
  }
}

/// As forward, without the norm.
template <int W, int I>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const __grid_constant__ Rotary rotary, std::uint16_t* d_qkv, unsigned lanes) {
  const Team<W, I> team = my_team<W, I>(rotary, lanes);
  const std::int64_t token = blockIdx.x * static_cast<std::int64_t>(kThreads / lanes) + threadIdx.x / lanes;
  if (token >= rotary.tokens) return;
  const Pairs<W, I> angles = angles_at(team, rotary, position_of(rotary, token));
  const int heads = static_cast<int>(rotary.heads + rotary.kv_heads), dim = static_cast<int>(rotary.head_dim);
  for (int head = static_cast<int>(blockIdx.y); head < heads; head += static_cast<int>(gridDim.y)) {
    std::uint16_t* place = d_qkv + token * row_columns(rotary) + head * dim;
    Pairs<W, I> values;
    values.load(team, place);
    values.rotate(angles, -1.0f);
    values.store(team, place);
  }
}

/// Adds `part` up over the block's teams in order and writes dim sums to `to`. shared: kThreads * 2 * W * I floats.
template <int W, int I>
__device__ void write_partial(const Team<W, I>& team, const Pairs<W, I>& part, float* shared, float* to) {
  const int dim = 2 * team.half, teams = kThreads / static_cast<int>(team.lanes);
  float* mine = shared + static_cast<int>(threadIdx.x / team.lanes) * dim;
  __syncthreads();
  for (int i = 0; i < I; ++i)
    for (int j = 0; j < W; ++j)
      if (team.pair(i) + j < team.half) {
        mine[team.pair(i) + j] = part.low[i][j];
        mine[team.half + team.pair(i) + j] = part.high[i][j];
      }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < dim; c += kThreads) {
    float sum = 0;
    for (int t = 0; t < teams; ++t) sum += shared[t * dim + c];
    to[c] = sum;
  }
}

/// With QK norm: block b takes tokens of turns b, b + gridDim.x, ..., all heads; row b of `partials` gets the block's
/// part of the q norm's gradient, then the k norm's.
template <int W, int I>
__global__ void __launch_bounds__(kThreads)
    norm_backward_kernel(const __grid_constant__ Rotary rotary, std::uint16_t* d_qkv, const std::uint16_t* qk_raw,
                         float* partials, unsigned lanes) {
  extern __shared__ float shared[];
  const Team<W, I> team = my_team<W, I>(rotary, lanes);
  const std::int64_t per_turn = kThreads / lanes;
  const int heads = static_cast<int>(rotary.heads + rotary.kv_heads), dim = static_cast<int>(rotary.head_dim);
  Pairs<W, I> d_weight[2] = {};
#pragma unroll
  for (int norm = 0; norm < 2; ++norm) {
    Pairs<W, I> weight;
    weight.load(team, norm == 0 ? rotary.q_norm : rotary.k_norm);
    const int first = norm == 0 ? 0 : static_cast<int>(rotary.heads);
    const int last = norm == 0 ? static_cast<int>(rotary.heads) : heads;
    for (std::int64_t turn = blockIdx.x * per_turn; turn < rotary.tokens; turn += gridDim.x * per_turn) {
      const std::int64_t token = turn + threadIdx.x / lanes;
      const bool present = token < rotary.tokens;
      const std::int64_t at = present ? token : 0;
      const Pairs<W, I> angles = angles_at(team, rotary, position_of(rotary, at));
      for (int head = first; head < last; ++head) {
        std::uint16_t* place = d_qkv + at * row_columns(rotary) + head * dim;
        Pairs<W, I> d, raw;
        d.load(team, place);
        raw.load(team, qk_raw + (at * heads + head) * dim);
        d.rotate(angles, -1.0f);
        const float scale = rsqrtf(team.sum(raw.dot(raw)) / static_cast<float>(dim) + rotary.epsilon);
        Pairs<W, I> weighted = d;
        weighted.multiply(weight, 1.0f);
        const float along = team.sum(weighted.dot(raw)) * scale * scale * scale / static_cast<float>(dim);
#pragma unroll
        for (int i = 0; i < I; ++i)
#pragma unroll
          for (int j = 0; j < W; ++j) {
            if (present) {
              d_weight[norm].low[i][j] += d.low[i][j] * raw.low[i][j] * scale;
              d_weight[norm].high[i][j] += d.high[i][j] * raw.high[i][j] * scale;
            }
            weighted.low[i][j] = weighted.low[i][j] * scale - raw.low[i][j] * along;
            weighted.high[i][j] = weighted.high[i][j] * scale - raw.high[i][j] * along;
          }
        if (present) weighted.store(team, place);
      }
    }
  }
  float* row = partials + blockIdx.x * static_cast<std::int64_t>(2 * dim);
  write_partial(team, d_weight[0], shared, row);
  write_partial(team, d_weight[1], shared, row + dim);
}

// --- one norm for all heads of q, and one for those of k: a block takes a token's, so that the sums are the block's

/// Each thread holds V packs of W pairs of the heads [first head, first head + heads): pack v is v * blockDim.x +
/// threadIdx.x.
template <int W, int V>
struct Slice {
  int half, packs, heads;

  __device__ bool has(int v) const { return index(v) < heads * packs; }
  __device__ int pair(int v) const { return index(v) % packs * W; }
  /// From the first head's beginning to pair(v).
  __device__ int column(int v) const { return index(v) / packs * 2 * half + pair(v); }

 private:
  __device__ static int index(int v) { return v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x); }
};

template <int W>
struct PairPack {
  float low[W], high[W];

  __device__ void load(const std::uint16_t* at, int half) {
    Packed<W>::load(at).unpack(low);
    Packed<W>::load(at + half).unpack(high);
  }
  __device__ void store(std::uint16_t* at, int half) const {
    Packed<W>::pack(low).store(at);
    Packed<W>::pack(high).store(at + half);
  }
  __device__ float dot(const PairPack& other) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) sum += low[i] * other.low[i] + high[i] * other.high[i];
    return sum;
  }
  __device__ void rotate(const Rotary& rotary, std::int64_t position, int pair, float sign) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      float sine, cosine;
      turn_of(rotary, position, pair + i, &sine, &cosine);
      sine *= sign;
      const float a = low[i], b = high[i];
      low[i] = a * cosine - b * sine;
      high[i] = b * cosine + a * sine;
    }
  }
};

/// Heads of q (part 0) or of k.
struct NormPart {
  int first, heads;
  const std::uint16_t* weight;
};
__device__ NormPart norm_part(const Rotary& rotary, unsigned part) {
  const int heads = static_cast<int>(rotary.heads), kv_heads = static_cast<int>(rotary.kv_heads);
  return part == 0 ? NormPart{0, heads, rotary.q_norm} : NormPart{heads, kv_heads, rotary.k_norm};
}

template <int W, int V>
__device__ Slice<W, V> slice_of(const Rotary& rotary, const NormPart& part) {
  const int half = static_cast<int>(rotary.head_dim / 2);
  return {half, half / W, part.heads};
}

/// Block (token, part).
template <int W, int V>
__global__ void __launch_bounds__(V == 1 ? kThreads : kMostNormThreads)
    whole_forward_kernel(const __grid_constant__ Rotary rotary, std::uint16_t* qkv, std::uint16_t* qk_raw) {
  __shared__ float scratch[32];
  const NormPart part = norm_part(rotary, blockIdx.y);
  const Slice<W, V> slice = slice_of<W, V>(rotary, part);
  const std::int64_t token = blockIdx.x, position = position_of(rotary, token);
  std::uint16_t* const place = qkv + token * row_columns(rotary) + part.first * rotary.head_dim;
  std::uint16_t* const raw = qk_raw + (token * (rotary.heads + rotary.kv_heads) + part.first) * rotary.head_dim;
  PairPack<W> values[V];
  float squares = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!slice.has(v)) continue;
    values[v].load(place + slice.column(v), slice.half);
    values[v].store(raw + slice.column(v), slice.half);
    squares += values[v].dot(values[v]);
  }
  const float width = static_cast<float>(part.heads) * static_cast<float>(rotary.head_dim);
  const float scale = rsqrtf(block_sum(squares, scratch) / width + rotary.epsilon);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!slice.has(v)) continue;
    PairPack<W> weight;
    weight.load(part.weight + slice.column(v), slice.half);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values[v].low[i] = values[v].low[i] * scale * weight.low[i];
      values[v].high[i] = values[v].high[i] * scale * weight.high[i];
    }
    values[v].rotate(rotary, position, slice.pair(v), 1.0f);
    values[v].store(place + slice.column(v), slice.half);
  }
}

/// Block (b, part): tokens b, b + gridDim.x, ...; row b of `partials` [.., (heads + kv_heads) head_dim] gets the block's
/// part of the norm's gradient.
template <int W, int V>
__global__ void __launch_bounds__(V == 1 ? kThreads : kMostNormThreads)
    whole_backward_kernel(const __grid_constant__ Rotary rotary, std::uint16_t* d_qkv, const std::uint16_t* qk_raw,
                          float* partials) {
  __shared__ float2 scratch[2][32];
  const NormPart part = norm_part(rotary, blockIdx.y);
  const Slice<W, V> slice = slice_of<W, V>(rotary, part);
  const std::int64_t columns = (rotary.heads + rotary.kv_heads) * rotary.head_dim;
  const std::int64_t begin = part.first * rotary.head_dim;
  const float width = static_cast<float>(part.heads) * static_cast<float>(rotary.head_dim);
  PairPack<W> d_weight[V] = {};
  int turn = 0;
  for (std::int64_t token = blockIdx.x; token < rotary.tokens; token += gridDim.x, turn ^= 1) {
    const std::int64_t position = position_of(rotary, token);
    std::uint16_t* const place = d_qkv + token * row_columns(rotary) + begin;
    const std::uint16_t* const raw_place = qk_raw + token * columns + begin;
    PairPack<W> d[V], raw[V];
    float2 sums = make_float2(0.0f, 0.0f);  // raw squared, d * weight * raw
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!slice.has(v)) continue;
      PairPack<W> weighted;
      d[v].load(place + slice.column(v), slice.half);
      d[v].rotate(rotary, position, slice.pair(v), -1.0f);
      raw[v].load(raw_place + slice.column(v), slice.half);
      weighted.load(part.weight + slice.column(v), slice.half);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        weighted.low[i] *= d[v].low[i];
        weighted.high[i] *= d[v].high[i];
      }
      sums.x += raw[v].dot(raw[v]);
      sums.y += weighted.dot(raw[v]);
    }
    sums = block_sum(sums, scratch[turn]);
    const float scale = rsqrtf(sums.x / width + rotary.epsilon);
    const float along = sums.y * scale * scale * scale / width;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!slice.has(v)) continue;
      PairPack<W> weight;
      weight.load(part.weight + slice.column(v), slice.half);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        d_weight[v].low[i] += d[v].low[i] * raw[v].low[i] * scale;
        d_weight[v].high[i] += d[v].high[i] * raw[v].high[i] * scale;
        d[v].low[i] = d[v].low[i] * weight.low[i] * scale - raw[v].low[i] * along;
        d[v].high[i] = d[v].high[i] * weight.high[i] * scale - raw[v].high[i] * along;
      }
      d[v].store(place + slice.column(v), slice.half);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!slice.has(v)) continue;
    float* const to = partials + blockIdx.x * columns + begin + slice.column(v);
    for (int i = 0; i < W; ++i) {
      to[i] = d_weight[v].low[i];
      to[slice.half + i] = d_weight[v].high[i];
    }
  }
}

template <int W, int I>
struct Shape {
  static constexpr int w = W, i = I;
};

/// Calls `launch(shape, threads)` with the packs per thread as Shape::i.
template <class Launch>
void with_slice(const Rotary& rotary, Launch launch) {
  const std::int64_t half = rotary.head_dim / 2, width = half % 8 == 0 ? 8 : 1;
  const std::int64_t packs = std::max(rotary.heads, rotary.kv_heads) * (half / width);
  if (packs > 4 * kMostNormThreads)
    throw InputError("QK norm of all heads: " + std::to_string(2 * width * packs) +
                     " columns are more than the GPU kernels take (" +
                     std::to_string(2 * width * 4 * kMostNormThreads) + ")");
  const auto use = [&](auto shape) {
    launch(shape, static_cast<unsigned>(divide_up(divide_up(packs, shape.i), 32) * 32));
  };
  if (width == 8) return packs <= kThreads ? use(Shape<8, 1>()) : use(Shape<8, 4>());
  return use(Shape<1, 4>());
}

/// Packs of 8 pairs where a power-of-two team of whole packs covers the head, else single pairs by whole warps.
template <class Launch>
void with_team(const Rotary& rotary, Launch launch) {
  const std::int64_t half = rotary.head_dim / 2, packs = half / 8;
  if (half % 8 == 0 && packs <= 32 && (packs & (packs - 1)) == 0)
    launch(Shape<8, 1>(), static_cast<unsigned>(packs));
  else
    launch(Shape<1, kMostRotaryPairs / 32>(), 32u);
}

/// Enough blocks to fill the GPU; heads are split only where the tokens are few, since each split computes the angles
/// again.
dim3 grid(const Rotary& rotary, unsigned lanes) {
  const std::int64_t blocks = divide_up(rotary.tokens, kThreads / lanes);
  const std::int64_t heads = rotary.heads + rotary.kv_heads;
  const std::int64_t splits = divide_up(1024, blocks);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(splits < heads ? splits : heads)};
}

}  // namespace

void rotary_forward(const Rotary& rotary, std::uint16_t* qkv, std::uint16_t* qk_raw, Stream stream) {
  if (rotary.norm_is_whole) {
    const dim3 blocks(static_cast<unsigned>(rotary.tokens), 2);
    with_slice(rotary, [&](auto s, unsigned threads) {
      whole_forward_kernel<s.w, s.i><<<blocks, threads, 0, stream>>>(rotary, qkv, qk_raw);
    });
    PENSTOCK_CUDA_LAUNCH("rotary_forward");
    return;
  }
  with_team(rotary, [&](auto s, unsigned lanes) {
    forward_kernel<s.w, s.i><<<grid(rotary, lanes), kThreads, 0, stream>>>(rotary, qkv, qk_raw, lanes);
  });
  PENSTOCK_CUDA_LAUNCH("rotary_forward");
}

void rotary_backward(const Rotary& rotary, std::uint16_t* d_qkv, const std::uint16_t* qk_raw, GradientTarget d_q_norm,
                     GradientTarget d_k_norm, float* partials, Stream stream) {
  std::int64_t blocks = 0;
  if (rotary.norm_is_whole) {
    blocks = std::min(rotary.tokens, kReductionRows);
    with_slice(rotary, [&](auto s, unsigned threads) {
      whole_backward_kernel<s.w, s.i>
          <<<dim3(static_cast<unsigned>(blocks), 2), threads, 0, stream>>>(rotary, d_qkv, qk_raw, partials);
    });
    PENSTOCK_CUDA_LAUNCH("rotary_backward");
    const std::int64_t queries = rotary.heads * rotary.head_dim, keys = rotary.kv_heads * rotary.head_dim;
    reduce_partials(partials, blocks, queries + keys, queries, d_q_norm, stream);
    reduce_partials(partials + queries, blocks, queries + keys, keys, d_k_norm, stream);
    return;
  }
  with_team(rotary, [&](auto s, unsigned lanes) {
    if (!rotary.q_norm) {
      backward_kernel<s.w, s.i><<<grid(rotary, lanes), kThreads, 0, stream>>>(rotary, d_qkv, lanes);
      return;
    }
    const std::int64_t turns = divide_up(rotary.tokens, kThreads / lanes);
    blocks = turns < kReductionRows ? turns : kReductionRows;
    const std::size_t shared = (kThreads / lanes) * rotary.head_dim * sizeof(float);
    norm_backward_kernel<s.w, s.i>
        <<<static_cast<unsigned>(blocks), kThreads, shared, stream>>>(rotary, d_qkv, qk_raw, partials, lanes);
  });
  PENSTOCK_CUDA_LAUNCH("rotary_backward");
  if (!rotary.q_norm) return;
  reduce_partials(partials, blocks, 2 * rotary.head_dim, rotary.head_dim, d_q_norm, stream);
  reduce_partials(partials + rotary.head_dim, blocks, 2 * rotary.head_dim, rotary.head_dim, d_k_norm, stream);
}

}  // namespace penstock::exec
