#include "exec/cuda/documents.h"
#include "exec/cuda/error.h"
#include "exec/cuda/gradient_target.cuh"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;

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

/// low = cosine, high = sine, both times the factor.
template <int W, int I>
__device__ Pairs<W, I> angles_at(const Team<W, I>& team, const Rotary& rotary, std::int64_t position) {
  constexpr double kTurn = 6.283185307179586476925286766559;
  Pairs<W, I> angles;
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const int pair = team.pair(i) + j;
      const double angle = pair < team.half ? static_cast<double>(position) * rotary.frequencies[pair] : 0.0;
      sincosf(static_cast<float>(angle - kTurn * rint(angle / kTurn)), &angles.high[i][j], &angles.low[i][j]);
      angles.low[i][j] *= rotary.factor;
      angles.high[i][j] *= rotary.factor;
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

template <int W, int I>
struct Shape {
  static constexpr int w = W, i = I;
};

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
  with_team(rotary, [&](auto s, unsigned lanes) {
    forward_kernel<s.w, s.i><<<grid(rotary, lanes), kThreads, 0, stream>>>(rotary, qkv, qk_raw, lanes);
  });
  PENSTOCK_CUDA_LAUNCH("rotary_forward");
}

void rotary_backward(const Rotary& rotary, std::uint16_t* d_qkv, const std::uint16_t* qk_raw, GradientTarget d_q_norm,
                     GradientTarget d_k_norm, float* partials, Stream stream) {
  std::int64_t blocks = 0;
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
