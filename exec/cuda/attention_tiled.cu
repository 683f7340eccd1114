#include "exec/cuda/attention_tiled.h"

#include "exec/cuda/documents.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>

#include "exec/cuda/error.h"
#include "exec/cuda/vectors.cuh"

namespace penstock::exec {
namespace {

constexpr int kRows = 64;           // queries or keys of a tile
constexpr int kWarps = kRows / 16;  // each owns 16 rows, the m of an mma
constexpr int kThreads = kWarps * 32;
constexpr float kLog2E = 1.4426950408889634f;

struct Shape {
  int length, heads, kv_heads, dim, past, window;
  float scale;

  __host__ __device__ int keys() const { return past + length; }

  __device__ std::int64_t columns() const { return static_cast<std::int64_t>(heads + 2 * kv_heads) * dim; }
  /// First element of a row of qkv: query heads, then key heads, then value heads.
  __device__ std::int64_t packed(int sequence, int position, int head) const {
    return (static_cast<std::int64_t>(sequence) * length + position) * columns() +
           static_cast<std::int64_t>(head) * dim;
  }
  __device__ std::int64_t context_row() const { return static_cast<std::int64_t>(heads) * dim; }
  __device__ std::int64_t context(int sequence, int position, int head) const {
    return (static_cast<std::int64_t>(sequence) * length + position) * context_row() +
           static_cast<std::int64_t>(head) * dim;
  }
  __device__ std::int64_t statistic(int sequence, int head, int position) const {
    return (static_cast<std::int64_t>(sequence) * heads + head) * length + position;
  }
};

/// Where backward finds the queries of a head, from the sequence's first on: in qkv, or apart.
struct Queries {
  const std::uint16_t* first;
  std::int64_t row;  // elements from one to the next

  __device__ Queries(const Shape& shape, const AttentionBackward& t, int sequence, int head)
      : first(t.keys.queries != nullptr ? t.keys.queries + shape.context(sequence, 0, head)
                                        : t.qkv + shape.packed(sequence, 0, head)),
        row(t.keys.queries != nullptr ? shape.context_row() : shape.columns()) {}
};

/// Where keys and values are: in qkv, or apart where the queries are a chunk's. A key's place is counted in its row.
struct Keys {
  const std::uint16_t* first;
  std::int64_t row, sequence, values;  // elements from one place, one sequence to the next, from keys to values

  __device__ const std::uint16_t* keys_of(const Shape& shape, int in_sequence, int group) const {
    return first + in_sequence * sequence + static_cast<std::int64_t>(group) * shape.dim;
  }
  __device__ const std::uint16_t* values_of(const Shape& shape, int in_sequence, int group) const {
    return keys_of(shape, in_sequence, group) + values;
  }
};

// --- tiles in shared memory ---------------------------------------------------------------------------------------

/// [kRows, D] bf16; the 16-byte chunks of a row are permuted by the row, so that eight rows read at one column touch
/// all banks once.
template <int D>
struct Tile {
  static constexpr int kBytes = kRows * D * 2;
  unsigned address;  // in shared memory

  __device__ unsigned at(int row, int chunk) const {
    return address + static_cast<unsigned>(row * D * 2 + ((chunk ^ (row & 7)) * 16));
  }
};

/// Begins to copy rows [first, first + kRows) of a matrix with `rows` rows; rows and columns beyond it become zero.
template <int D>
__device__ void begin_load(Tile<D> tile, const std::uint16_t* matrix, std::int64_t row_elements, int first, int rows,
                           int dim) {
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kRows * (D / 8); i += kThreads) {
    const int row = i / (D / 8), chunk = i % (D / 8);
    const bool inside = first + row < rows && chunk * 8 < dim;
    const std::uint16_t* from = inside ? matrix + (first + row) * row_elements + chunk * 8 : matrix;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(tile.at(row, chunk)), "l"(from),
                 "r"(inside ? 16 : 0));
  }
  asm volatile("cp.async.commit_group;\n" ::);
}

/// Returns when all but the last `kNewer` loads of every thread are there for every thread.
template <int kNewer>
__device__ void finish_loads() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kNewer));
  __syncthreads();
}

// --- products -----------------------------------------------------------------------------------------------------

struct Fragment {
  unsigned a[4];
};

__device__ Fragment load_matrices(unsigned address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(f.a[0]), "=r"(f.a[1]), "=r"(f.a[2]), "=r"(f.a[3])
               : "r"(address));
  return f;
}

__device__ Fragment load_transposed(unsigned address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(f.a[0]), "=r"(f.a[1]), "=r"(f.a[2]), "=r"(f.a[3])
               : "r"(address));
  return f;
}

__device__ void multiply(float (&c)[4], const Fragment& a, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.a[0]), "r"(a.a[1]), "r"(a.a[2]), "r"(a.a[3]), "r"(b0), "r"(b1));
}

__device__ unsigned two_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

/// A warp's 16 rows of a [kRows, kRows] product: value (row, column) of a thread is [column / 8][...], where entries 0
/// and 1 are row lane / 4, columns 2 (lane % 4) and the next, and entries 2 and 3 the same of row lane / 4 + 8.
using Scores = float[kRows / 8][4];

__device__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
/// Row within the tile of entries 2 half and 2 half + 1.
__device__ int entry_row(int half) { return warp_row() + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * half; }
__device__ int entry_column(int group, int entry) {
  return group * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + (entry & 1);
}

/// The warp's rows of `rows` times all of `columns`, transposed.
template <int D>
__device__ void score(Scores& out, Tile<D> rows, Tile<D> columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (auto& entry : out)
#pragma unroll
    for (float& value : entry) value = 0;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const Fragment a = load_matrices(rows.at(warp_row() + lane % 16, 2 * k + lane / 16));
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      const Fragment b = load_matrices(columns.at(n * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
      multiply(out[2 * n], a, b.a[0], b.a[1]);
      multiply(out[2 * n + 1], a, b.a[2], b.a[3]);
    }
  }
}

/// sum += weights (rounded to bf16) times the tile.
template <int D>
__device__ void add_product(float (&sum)[D / 8][4], const Scores& weights, Tile<D> tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    const auto &left = weights[2 * k], &right = weights[2 * k + 1];
    const Fragment a{{two_bf16(left[0], left[1]), two_bf16(left[2], left[3]), two_bf16(right[0], right[1]),
                      two_bf16(right[2], right[3])}};
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      const Fragment b = load_transposed(tile.at(k * 16 + lane % 16, 2 * n + lane / 16));
      multiply(sum[2 * n], a, b.a[0], b.a[1]);
      multiply(sum[2 * n + 1], a, b.a[2], b.a[3]);
    }
  }
}

/// Writes the warp's rows, times `factor[half]`, to rows [first, ...) of a matrix with `rows` rows.
template <int D>
__device__ void store(const float (&sum)[D / 8][4], const float (&factor)[2], std::uint16_t* matrix,
                      std::int64_t row_elements, int first, int rows, int dim) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + entry_row(half);
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      if (n * 8 < dim)
        *reinterpret_cast<unsigned*>(matrix + row * row_elements + entry_column(n, 0)) =
            two_bf16(sum[n][2 * half] * factor[half], sum[n][2 * half + 1] * factor[half]);
  }
}

/// Reduced over the four threads that share a row; the order is fixed.
__device__ float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 2));
}
__device__ float row_sum(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFu, value, 2);
}

extern __shared__ __align__(128) unsigned char shared_memory[];

template <int D>
__device__ Tile<D> shared_tile(int index) {
  return {static_cast<unsigned>(__cvta_generic_to_shared(shared_memory)) +
          static_cast<unsigned>(index * Tile<D>::kBytes)};
}

// --- kernels ------------------------------------------------------------------------------------------------------

/// What the queries of one row see; where nothing is hidden but what comes later, the compiler decides all of this.
template <bool kHides>
struct Visible {
  VisibleKeys keys;
  int past;

  __device__ Visible(const Shape& shape, const std::int32_t* document_starts, int sequence) : past(shape.past) {
    const std::int64_t row = static_cast<std::int64_t>(sequence) * shape.length;
    keys = {document_starts == nullptr ? nullptr : document_starts + row, shape.keys(), shape.window};
  }
  /// Of a query, or of the last one where there is none.
  __device__ int first_key(int query) const { return kHides ? keys.first_key(min(past + query, keys.length - 1)) : 0; }
  /// Of queries, the first tile of keys that one of them sees.
  __device__ int first_tile(int tile) const { return kHides ? keys.first_key_tile(past, tile, kRows) : 0; }
  /// Of keys, one behind the last tile of queries of which one sees one of them.
  __device__ int end_of_tiles(int tile) const {
    return kHides ? keys.end_of_query_tiles(past, tile, kRows) : (keys.length - past + kRows - 1) / kRows;
  }
};

// Of a tile of queries and the keys that it sees by their order alone: the last tile of them, whether all queries see
// all of one, and whether one query sees one key.
__device__ int last_tile(const Shape& shape, int queries) {
  return (min(shape.past + queries * kRows + kRows, shape.keys()) - 1) / kRows;
}
__device__ bool all_visible(const Shape& shape, int queries, int keys) {
  return keys * kRows + kRows - 1 <= shape.past + queries * kRows;
}
__device__ bool is_visible(const Shape& shape, int queries, int query, int keys, int key) {
  return keys * kRows + key <= shape.past + queries * kRows + query;
}

/// One step of the running softmax: scores become weights relative to the new maximum; `sum` is what came before.
/// `kHides`: a row may have seen nothing so far.
template <int D, bool kHides>
__device__ void weigh(Scores& scores, float (&largest)[2], float (&denominator)[2], float (&sum)[D / 8][4],
                      float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float tile_largest = -INFINITY;
#pragma unroll
    for (const auto& entry : scores) tile_largest = fmaxf(tile_largest, fmaxf(entry[2 * half], entry[2 * half + 1]));
    const float next = fmaxf(largest[half], row_max(tile_largest));
    const float base = kHides && next == -INFINITY ? 0.0f : next;
    const float shrink = exp2f((largest[half] - base) * scale);
    float added = 0;
#pragma unroll
    for (auto& entry : scores)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        entry[e] = exp2f((entry[e] - base) * scale);
        added += entry[e];
      }
    denominator[half] = denominator[half] * shrink + added;
    largest[half] = next;
#pragma unroll
    for (auto& entry : sum) {
      entry[2 * half] *= shrink;
      entry[2 * half + 1] *= shrink;
    }
  }
}

/// Grid: tiles of queries (the longest first), heads, sequences. Shared: q, k, v.
template <int D, bool kHides>
__global__ void __launch_bounds__(kThreads, 2)
    forward_kernel(Shape shape, Keys all_keys, const std::int32_t* document_starts, const std::uint16_t* qkv,
                   std::uint16_t* context, float* lse) {
  const int tile = static_cast<int>(gridDim.x - 1 - blockIdx.x), head = static_cast<int>(blockIdx.y),
            sequence = static_cast<int>(blockIdx.z);
  const int group = head / (shape.heads / shape.kv_heads);
  const std::uint16_t* keys = all_keys.keys_of(shape, sequence, group);
  const std::uint16_t* values = all_keys.values_of(shape, sequence, group);
  const Tile<D> q = shared_tile<D>(0), k = shared_tile<D>(1), v = shared_tile<D>(2);
  const auto load = [&](Tile<D> to, const std::uint16_t* from, int t) {
    begin_load<D>(to, from, all_keys.row, t * kRows, shape.keys(), shape.dim);
  };
  const Visible<kHides> visible_keys(shape, document_starts, sequence);
  const int first = visible_keys.first_tile(tile), last = last_tile(shape, tile);
  begin_load<D>(q, qkv + shape.packed(sequence, 0, head), shape.columns(), tile * kRows, shape.length, shape.dim);
  load(k, keys, first);
  load(v, values, first);

  const float scale = shape.scale * kLog2E;
  const int first_keys[2] = {visible_keys.first_key(tile * kRows + entry_row(0)),
                             visible_keys.first_key(tile * kRows + entry_row(1))};
  const int all_see = visible_keys.first_key(tile * kRows + kRows - 1);  // from here on up to the diagonal
  float sum[D / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, denominator[2] = {0, 0};
  for (int t = first; t <= last; ++t) {
    Scores scores;
    finish_loads<1>();  // q and k
    score<D>(scores, q, k);
    __syncthreads();
    if (t < last) load(k, keys, t + 1);
    if (!all_visible(shape, tile, t)) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (!is_visible(shape, tile, entry_row(e / 2), t, entry_column(n, e))) scores[n][e] = -INFINITY;
    }
    if (kHides && t * kRows < all_see) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (t * kRows + entry_column(n, e) < first_keys[e / 2]) scores[n][e] = -INFINITY;
    }
    weigh<D, kHides>(scores, largest, denominator, sum, scale);
    if (t < last)
      finish_loads<1>();  // v; k of the next tile may be on its way
    else
      finish_loads<0>();
    add_product<D>(sum, scores, v);
    __syncthreads();
    if (t < last) load(v, values, t + 1);
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float whole = row_sum(denominator[half]);
    factor[half] = 1.0f / whole;
    const int query = tile * kRows + entry_row(half);
    if (threadIdx.x % 4 == 0 && query < shape.length)
      lse[shape.statistic(sequence, head, query)] = largest[half] * shape.scale + logf(whole);
  }
  store<D>(sum, factor, context + shape.context(sequence, 0, head), shape.context_row(), tile * kRows, shape.length,
           shape.dim);
}

/// delta = d_context . context of each query and head, left as fp32 where the query's gradient will be: the kernel that
/// writes that one runs last and reads its own delta first. One warp a row.
__global__ void delta_kernel(Shape shape, std::int64_t tokens, AttentionBackward t) {
  const std::int64_t index = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (index >= tokens * shape.heads) return;
  const std::int64_t token = index / shape.heads, head = index % shape.heads;
  const std::int64_t at = token * shape.context_row() + head * shape.dim;
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x) % 32; c < shape.dim; c += 32)
    sum = fmaf(widen(t.d_context[at + c]), widen(t.context[at + c]), sum);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) *reinterpret_cast<float*>(t.d_qkv + token * shape.columns() + head * shape.dim) = sum;
}

__device__ float delta_of(const Shape& shape, const AttentionBackward& t, int sequence, int query, int head) {
  return *reinterpret_cast<const float*>(t.d_qkv + shape.packed(sequence, query, head));
}

/// The gradient of one head's keys, or values: the warp's rows of `sum`, times `factor`, where it lies apart. Adds to or
/// overwrites what the chunks behind have left, and rounds the chunk's own rows, which are whole now, to `own`.
template <int D>
__device__ void store_apart(const float (&sum)[D / 8][4], float factor, float* apart, bool adds, std::uint16_t* own,
                            const Shape& shape, int tile) {
  const std::int64_t row_elements = 2 * static_cast<std::int64_t>(shape.kv_heads) * shape.dim;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = tile * kRows + entry_row(half);
    if (key >= shape.keys()) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      if (n * 8 >= shape.dim) continue;
      float2* const at = reinterpret_cast<float2*>(apart + key * row_elements + entry_column(n, 0));
      float2 value{sum[n][2 * half] * factor, sum[n][2 * half + 1] * factor};
      if (adds) {
        const float2 before = *at;
        value.x += before.x;
        value.y += before.y;
      }
      *at = value;
      if (key >= shape.past)
        *reinterpret_cast<unsigned*>(own + (key - shape.past) * shape.columns() + entry_column(n, 0)) =
            two_bf16(value.x, value.y);
    }
  }
}

/// Grid: tiles of keys, key-value heads, sequences. Shared: k, v, q, d_context, then lse, delta and, where something is
/// hidden, the first key of the queries.
template <int D, bool kHides>
__global__ void __launch_bounds__(kThreads, 2) key_gradient_kernel(Shape shape, Keys all_keys, AttentionBackward t) {
  const int tile = static_cast<int>(blockIdx.x), group = static_cast<int>(blockIdx.y),
            sequence = static_cast<int>(blockIdx.z);
  const int ratio = shape.heads / shape.kv_heads, key_head = shape.heads + group;
  const Tile<D> k = shared_tile<D>(0), v = shared_tile<D>(1), q = shared_tile<D>(2), d_context = shared_tile<D>(3);
  float* lse = reinterpret_cast<float*>(shared_memory + 4 * Tile<D>::kBytes);
  float* delta = lse + kRows;
  int* first_keys = reinterpret_cast<int*>(delta + kRows);
  const Visible<kHides> visible_keys(shape, t.document_starts, sequence);
  const std::int64_t row = shape.columns();
  begin_load<D>(k, all_keys.keys_of(shape, sequence, group), all_keys.row, tile * kRows, shape.keys(), shape.dim);
  begin_load<D>(v, all_keys.values_of(shape, sequence, group), all_keys.row, tile * kRows, shape.keys(), shape.dim);

  const float scale = shape.scale * kLog2E;
  float d_k[D / 8][4] = {}, d_v[D / 8][4] = {};
  const int first = max(tile * kRows - shape.past, 0) / kRows, tiles = visible_keys.end_of_tiles(tile);
  for (int head = group * ratio; head < (group + 1) * ratio; ++head) {
    const Queries of_head(shape, t, sequence, head);
    for (int queries = first; queries < tiles; ++queries) {
      __syncthreads();  // the tiles of the turn before are read
      begin_load<D>(q, of_head.first, of_head.row, queries * kRows, shape.length, shape.dim);
      begin_load<D>(d_context, t.d_context + shape.context(sequence, 0, head), shape.context_row(), queries * kRows,
                    shape.length, shape.dim);
      if (threadIdx.x < kRows) {
        const int query = queries * kRows + static_cast<int>(threadIdx.x);
        const bool inside = query < shape.length;  // a row beyond has no weights
        lse[threadIdx.x] = inside ? t.lse[shape.statistic(sequence, head, query)] * kLog2E : INFINITY;
        delta[threadIdx.x] = inside ? delta_of(shape, t, sequence, query, head) : 0.0f;
        if (kHides) first_keys[threadIdx.x] = visible_keys.first_key(query);
      }
      Scores weights, d_scores;
      finish_loads<1>();  // all but d_context
      score<D>(weights, k, q);
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          bool visible = is_visible(shape, queries, entry_column(n, e), tile, entry_row(e / 2));
          if (kHides) visible = visible && tile * kRows + entry_row(e / 2) >= first_keys[entry_column(n, e)];
          weights[n][e] = visible ? exp2f(weights[n][e] * scale - lse[entry_column(n, e)]) : 0.0f;
        }
      finish_loads<0>();
      add_product<D>(d_v, weights, d_context);
      score<D>(d_scores, v, d_context);
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) d_scores[n][e] = weights[n][e] * (d_scores[n][e] - delta[entry_column(n, e)]);
      add_product<D>(d_k, d_scores, q);
    }
  }
  if (t.keys.gradient != nullptr) {
    const std::int64_t values = static_cast<std::int64_t>(shape.kv_heads) * shape.dim;
    float* const apart = t.keys.gradient + static_cast<std::int64_t>(group) * shape.dim;
    std::uint16_t* const own = t.d_qkv + shape.packed(sequence, 0, key_head);
    store_apart<D>(d_k, shape.scale, apart, t.keys.adds, own, shape, tile);
    store_apart<D>(d_v, 1.0f, apart + values, t.keys.adds, own + values, shape, tile);
    return;
  }
  const float scales[2] = {shape.scale, shape.scale}, ones[2] = {1.0f, 1.0f};
  store<D>(d_k, scales, t.d_qkv + shape.packed(sequence, 0, key_head), row, tile * kRows, shape.length, shape.dim);
  store<D>(d_v, ones, t.d_qkv + shape.packed(sequence, 0, key_head + shape.kv_heads), row, tile * kRows, shape.length,
           shape.dim);
}

/// Grid: tiles of queries (the longest first), heads, sequences. Shared: q, d_context, k, v.
template <int D, bool kHides>
__global__ void __launch_bounds__(kThreads, 2) query_gradient_kernel(Shape shape, Keys all_keys, AttentionBackward t) {
  const int tile = static_cast<int>(gridDim.x - 1 - blockIdx.x), head = static_cast<int>(blockIdx.y),
            sequence = static_cast<int>(blockIdx.z);
  const int group = head / (shape.heads / shape.kv_heads);
  const Tile<D> q = shared_tile<D>(0), d_context = shared_tile<D>(1), k = shared_tile<D>(2), v = shared_tile<D>(3);
  const std::int64_t row = shape.columns();
  const std::uint16_t* keys = all_keys.keys_of(shape, sequence, group);
  const std::uint16_t* values = all_keys.values_of(shape, sequence, group);
  const auto load = [&](Tile<D> to, const std::uint16_t* from, int index) {
    begin_load<D>(to, from, all_keys.row, index * kRows, shape.keys(), shape.dim);
  };
  const Queries queries(shape, t, sequence, head);
  begin_load<D>(q, queries.first, queries.row, tile * kRows, shape.length, shape.dim);
  begin_load<D>(d_context, t.d_context + shape.context(sequence, 0, head), shape.context_row(), tile * kRows,
                shape.length, shape.dim);
  const Visible<kHides> visible_keys(shape, t.document_starts, sequence);
  const int first = visible_keys.first_tile(tile), last = last_tile(shape, tile);
  load(k, keys, first);
  load(v, values, first);

  const float scale = shape.scale * kLog2E;
  float lse[2], delta[2];
  int first_keys[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = tile * kRows + entry_row(half);
    const bool inside = query < shape.length;  // a row beyond is not stored
    lse[half] = inside ? t.lse[shape.statistic(sequence, head, query)] * kLog2E : 0.0f;
    delta[half] = inside ? delta_of(shape, t, sequence, query, head) : 0.0f;
    first_keys[half] = visible_keys.first_key(query);
  }
  float sum[D / 8][4] = {};
  for (int index = first; index <= last; ++index) {
    Scores weights, d_scores;
    finish_loads<0>();
    score<D>(weights, q, k);
    score<D>(d_scores, d_context, v);
    __syncthreads();
    if (index < last) load(v, values, index + 1);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        bool visible = is_visible(shape, tile, entry_row(e / 2), index, entry_column(n, e));
        if (kHides) visible = visible && index * kRows + entry_column(n, e) >= first_keys[e / 2];
        const float weight = visible ? exp2f(weights[n][e] * scale - lse[e / 2]) : 0.0f;
        d_scores[n][e] = weight * (d_scores[n][e] - delta[e / 2]);
      }
    add_product<D>(sum, d_scores, k);
    __syncthreads();
    if (index < last) load(k, keys, index + 1);
  }
  const float scales[2] = {shape.scale, shape.scale};
  store<D>(sum, scales, t.d_qkv + shape.packed(sequence, 0, head), row, tile * kRows, shape.length, shape.dim);
}

Shape device_shape(const AttentionSpec& shape) {
  return {static_cast<int>(shape.length),
          static_cast<int>(shape.heads),
          static_cast<int>(shape.kv_heads),
          static_cast<int>(shape.head_dim),
          static_cast<int>(shape.past),
          static_cast<int>(shape.window),
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)))};
}

Keys device_keys(const AttentionSpec& shape, const std::uint16_t* qkv, const ChunkKeys& keys) {
  const std::int64_t values = shape.kv_heads * shape.head_dim;
  if (shape.is_chunk) return {keys.kv, 2 * values, 0, values};
  return {qkv + shape.heads * shape.head_dim, shape.columns(), shape.length * shape.columns(), values};
}

dim3 grid(const AttentionSpec& shape, std::int64_t places, std::int64_t heads) {
  return {static_cast<unsigned>(divide_up(places, kRows)), static_cast<unsigned>(heads),
          static_cast<unsigned>(shape.sequences)};
}

template <typename Kernel>
void allow_shared(Kernel* kernel, int bytes) {
  PENSTOCK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

template <int D, bool kHides>
void forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
             const ChunkKeys& keys, std::uint16_t* context, float* lse, Stream stream) {
  constexpr int kShared = 3 * Tile<D>::kBytes;
  allow_shared(forward_kernel<D, kHides>, kShared);
  forward_kernel<D, kHides><<<grid(shape, shape.length, shape.heads), kThreads, kShared, stream>>>(
      device_shape(shape), device_keys(shape, qkv, keys), document_starts, qkv, context, lse);
  PENSTOCK_CUDA_LAUNCH("tiled attention forward");
}

template <int D, bool kHides>
void backward(const AttentionSpec& shape, const AttentionBackward& tensors, Stream stream) {
  constexpr int kDeltaThreads = 256;
  const Shape s = device_shape(shape);
  const Keys keys = device_keys(shape, tensors.qkv, tensors.keys);
  const std::int64_t blocks = divide_up(shape.tokens() * shape.heads * 32, kDeltaThreads);
  delta_kernel<<<static_cast<unsigned>(blocks), kDeltaThreads, 0, stream>>>(s, shape.tokens(), tensors);
  PENSTOCK_CUDA_LAUNCH("tiled attention delta");
  constexpr int kKeyShared = 4 * Tile<D>::kBytes + (kHides ? 3 : 2) * kRows * static_cast<int>(sizeof(float));
  allow_shared(key_gradient_kernel<D, kHides>, kKeyShared);
  key_gradient_kernel<D, kHides>
      <<<grid(shape, shape.keys(), shape.kv_heads), kThreads, kKeyShared, stream>>>(s, keys, tensors);
  PENSTOCK_CUDA_LAUNCH("tiled attention key gradient");
  constexpr int kQueryShared = 4 * Tile<D>::kBytes;
  allow_shared(query_gradient_kernel<D, kHides>, kQueryShared);
  query_gradient_kernel<D, kHides>
      <<<grid(shape, shape.length, shape.heads), kThreads, kQueryShared, stream>>>(s, keys, tensors);
  PENSTOCK_CUDA_LAUNCH("tiled attention query gradient");
}

}  // namespace

void tiled_attention_forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
                             const ChunkKeys& keys, std::uint16_t* context, float* lse, Stream stream) {
  const bool hides = document_starts != nullptr || shape.window > 0;
  const auto run = shape.head_dim <= 64 ? (hides ? forward<64, true> : forward<64, false>)
                                        : (hides ? forward<128, true> : forward<128, false>);
  run(shape, document_starts, qkv, keys, context, lse, stream);
}

void tiled_attention_backward(const AttentionSpec& shape, const AttentionBackward& tensors, Stream stream) {
  const bool hides = tensors.document_starts != nullptr || shape.window > 0;
  const auto run = shape.head_dim <= 64 ? (hides ? backward<64, true> : backward<64, false>)
                                        : (hides ? backward<128, true> : backward<128, false>);
  run(shape, tensors, stream);
}

}  // namespace penstock::exec
