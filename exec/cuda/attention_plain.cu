#include <cuda_runtime.h>

#include <cmath>

#include "exec/cuda/attention_plain.h"
#include "exec/cuda/documents.h"
#include "exec/cuda/error.h"
#include "exec/cuda/vectors.cuh"

namespace penstock::exec {
namespace {

constexpr int kThreads = 128;  // also the tile: keys (or queries) that a block looks at in one turn

struct Shape {
  int sequences, length, heads, kv_heads, dim, past, window;
  float scale;

  __host__ __device__ int keys() const { return past + length; }

  __device__ std::int64_t columns() const { return static_cast<std::int64_t>(heads + 2 * kv_heads) * dim; }
  __device__ std::int64_t packed(int sequence, int position, int head) const {
    return (static_cast<std::int64_t>(sequence) * length + position) * columns() +
           static_cast<std::int64_t>(head) * dim;
  }
  __device__ std::int64_t context(int sequence, int position, int head) const {
    return ((static_cast<std::int64_t>(sequence) * length + position) * heads + head) * dim;
  }
  __device__ std::int64_t row(int sequence, int head, int position) const {
    return (static_cast<std::int64_t>(sequence) * heads + head) * length + position;
  }
};

/// Where backward finds a query: in qkv, or apart.
__device__ const std::uint16_t* query_at(const Shape& shape, const AttentionBackward& t, int sequence, int position,
                                         int head) {
  return t.keys.queries != nullptr ? t.keys.queries + shape.context(sequence, position, head)
                                   : t.qkv + shape.packed(sequence, position, head);
}

/// Where keys and values are: in qkv, or apart where the queries are a chunk's. A key's place is counted in its row.
struct Keys {
  const std::uint16_t* first;
  std::int64_t row, sequence, values;  // elements from one place, one sequence to the next, from keys to values
  int dim;

  __device__ const std::uint16_t* key(int in_sequence, int place, int group) const {
    return first + in_sequence * sequence + place * row + static_cast<std::int64_t>(group) * dim;
  }
  __device__ const std::uint16_t* value(int in_sequence, int place, int group) const {
    return key(in_sequence, place, group) + values;
  }
};

__device__ VisibleKeys visible_keys(const Shape& shape, const std::int32_t* document_starts, int sequence) {
  const std::int64_t row = static_cast<std::int64_t>(sequence) * shape.length;
  return {document_starts == nullptr ? nullptr : document_starts + row, shape.keys(), shape.window};
}

__device__ float dot(const float* a, const std::uint16_t* b, int dim) {
  float sum = 0;
  for (int c = 0; c < dim; ++c) sum = fmaf(a[c], widen(b[c]), sum);
  return sum;
}

__device__ float dot(const std::uint16_t* a, const std::uint16_t* b, int dim) {
  float sum = 0;
  for (int c = 0; c < dim; ++c) sum = fmaf(widen(a[c]), widen(b[c]), sum);
  return sum;
}

__device__ float block_max(float value, float* scratch) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int i = 1; i < kThreads / 32; ++i) value = fmaxf(value, scratch[i]);
  __syncthreads();
  return value;
}

__device__ float ordered_sum(const float* values, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i];
  return sum;
}

/// One block per query row. Shared: q [dim], accumulated context [dim], weights of a tile [kThreads].
__global__ void forward_kernel(Shape shape, Keys keys, const std::int32_t* document_starts, const std::uint16_t* qkv,
                               std::uint16_t* context, float* lse) {
  extern __shared__ float shared[];
  float* q = shared;
  float* sum = q + shape.dim;
  float* weight = sum + shape.dim;
  __shared__ float scratch[32];
  const int query = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            sequence = static_cast<int>(blockIdx.z);
  const int group = head / (shape.heads / shape.kv_heads), place = shape.past + query;
  const int thread = static_cast<int>(threadIdx.x);
  for (int c = thread; c < shape.dim; c += kThreads) {
    q[c] = widen(qkv[shape.packed(sequence, query, head) + c]);
    sum[c] = 0;
  }
  __syncthreads();
  float largest = -INFINITY, denominator = 0;
  for (int base = visible_keys(shape, document_starts, sequence).first_key(place); base <= place; base += kThreads) {
    const int key = base + thread, count = min(kThreads, place + 1 - base);
    const float score = key <= place ? dot(q, keys.key(sequence, key, group), shape.dim) * shape.scale : -INFINITY;
    const float next = fmaxf(largest, block_max(score, scratch));
    weight[thread] = key <= place ? expf(score - next) : 0.0f;
    __syncthreads();
    const float shrink = expf(largest - next);
    denominator = denominator * shrink + ordered_sum(weight, count);
    largest = next;
    for (int c = thread; c < shape.dim; c += kThreads) {
      float part = 0;
      for (int j = 0; j < count; ++j) part = fmaf(weight[j], widen(keys.value(sequence, base + j, group)[c]), part);
      sum[c] = sum[c] * shrink + part;
    }
    __syncthreads();
  }
  for (int c = thread; c < shape.dim; c += kThreads)
    context[shape.context(sequence, query, head) + c] = narrow(sum[c] / denominator);
  if (thread == 0) lse[shape.row(sequence, head, query)] = largest + logf(denominator);
}

/// One block per query row. Shared: q, d_context, accumulated d_q [dim each], score gradients of a tile [kThreads].
__global__ void query_gradient_kernel(Shape shape, Keys keys, AttentionBackward t) {
  extern __shared__ float shared[];
  float* q = shared;
  float* d_context = q + shape.dim;
  float* sum = d_context + shape.dim;
  float* d_score = sum + shape.dim;
  const int query = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            sequence = static_cast<int>(blockIdx.z);
  const int group = head / (shape.heads / shape.kv_heads), place = shape.past + query;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t at = shape.context(sequence, query, head);
  for (int c = thread; c < shape.dim; c += kThreads) {
    q[c] = widen(query_at(shape, t, sequence, query, head)[c]);
    d_context[c] = widen(t.d_context[at + c]);
    sum[c] = 0;
  }
  __syncthreads();
  const float delta = dot(d_context, t.context + at, shape.dim);
  const float lse = t.lse[shape.row(sequence, head, query)];
  for (int base = visible_keys(shape, t.document_starts, sequence).first_key(place); base <= place; base += kThreads) {
    const int key = base + thread, count = min(kThreads, place + 1 - base);
    float value = 0;
    if (key <= place) {
      const float score = dot(q, keys.key(sequence, key, group), shape.dim) * shape.scale;
      const float d_weight = dot(d_context, keys.value(sequence, key, group), shape.dim);
      value = expf(score - lse) * (d_weight - delta) * shape.scale;
    }
    d_score[thread] = value;
    __syncthreads();
    for (int c = thread; c < shape.dim; c += kThreads) {
      float part = 0;
      for (int j = 0; j < count; ++j) part = fmaf(d_score[j], widen(keys.key(sequence, base + j, group)[c]), part);
      sum[c] += part;
    }
    __syncthreads();
  }
  for (int c = thread; c < shape.dim; c += kThreads) t.d_qkv[shape.packed(sequence, query, head) + c] = narrow(sum[c]);
}

/// One block per key row, over all query heads of its group. Shared: k, v, d_k, d_v [dim each], weights and score
/// gradients of a tile [kThreads each].
__global__ void key_gradient_kernel(Shape shape, Keys keys, AttentionBackward t) {
  extern __shared__ float shared[];
  float* k = shared;
  float* v = k + shape.dim;
  float* d_k = v + shape.dim;
  float* d_v = d_k + shape.dim;
  float* weight = d_v + shape.dim;
  float* d_score = weight + kThreads;
  const int key = static_cast<int>(blockIdx.x), group = static_cast<int>(blockIdx.y),
            sequence = static_cast<int>(blockIdx.z);
  const int ratio = shape.heads / shape.kv_heads, key_head = shape.heads + group;
  const int thread = static_cast<int>(threadIdx.x);
  for (int c = thread; c < shape.dim; c += kThreads) {
    k[c] = widen(keys.key(sequence, key, group)[c]);
    v[c] = widen(keys.value(sequence, key, group)[c]);
    d_k[c] = d_v[c] = 0;
  }
  __syncthreads();
  const int end = visible_keys(shape, t.document_starts, sequence).end_of_queries(key) - shape.past;
  for (int head = group * ratio; head < (group + 1) * ratio; ++head)
    for (int base = max(key - shape.past, 0); base < end; base += kThreads) {
      const int query = base + thread, count = min(kThreads, end - base);
      float w = 0, d = 0;
      if (query < end) {
        const std::uint16_t* d_context = t.d_context + shape.context(sequence, query, head);
        const float score = dot(k, query_at(shape, t, sequence, query, head), shape.dim) * shape.scale;
        const float delta = dot(d_context, t.context + shape.context(sequence, query, head), shape.dim);
        w = expf(score - t.lse[shape.row(sequence, head, query)]);
        d = w * (dot(v, d_context, shape.dim) - delta) * shape.scale;
      }
      weight[thread] = w;
      d_score[thread] = d;
      __syncthreads();
      for (int c = thread; c < shape.dim; c += kThreads) {
        float k_part = 0, v_part = 0;
        for (int i = 0; i < count; ++i) {
          k_part = fmaf(d_score[i], widen(query_at(shape, t, sequence, base + i, head)[c]), k_part);
          v_part = fmaf(weight[i], widen(t.d_context[shape.context(sequence, base + i, head) + c]), v_part);
        }
        d_k[c] += k_part;
        d_v[c] += v_part;
      }
      __syncthreads();
    }
  const int own = key - shape.past;  // of a chunk's own keys the gradient is whole now
  for (int c = thread; c < shape.dim; c += kThreads) {
    if (t.keys.gradient != nullptr) {
      float* const at = t.keys.gradient + (keys.key(sequence, key, group) - keys.first) + c;
      d_k[c] = at[0] = t.keys.adds ? at[0] + d_k[c] : d_k[c];
      d_v[c] = at[keys.values] = t.keys.adds ? at[keys.values] + d_v[c] : d_v[c];
    }
    if (own < 0) continue;
    t.d_qkv[shape.packed(sequence, own, key_head) + c] = narrow(d_k[c]);
    t.d_qkv[shape.packed(sequence, own, key_head + shape.kv_heads) + c] = narrow(d_v[c]);
  }
}

Shape device_shape(const AttentionSpec& shape) {
  return {static_cast<int>(shape.sequences), static_cast<int>(shape.length),
          static_cast<int>(shape.heads),     static_cast<int>(shape.kv_heads),
          static_cast<int>(shape.head_dim),  static_cast<int>(shape.past),
          static_cast<int>(shape.window),    static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)))};
}

Keys device_keys(const AttentionSpec& shape, const std::uint16_t* qkv, const ChunkKeys& keys) {
  const std::int64_t values = shape.kv_heads * shape.head_dim;
  const int dim = static_cast<int>(shape.head_dim);
  if (shape.is_chunk) return {keys.kv, 2 * values, 0, values, dim};
  return {qkv + shape.heads * shape.head_dim, shape.columns(), shape.length * shape.columns(), values, dim};
}

dim3 grid(const AttentionSpec& shape, std::int64_t places, std::int64_t heads) {
  return {static_cast<unsigned>(places), static_cast<unsigned>(heads), static_cast<unsigned>(shape.sequences)};
}

}  // namespace

void plain_attention_forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
                             const ChunkKeys& keys, std::uint16_t* context, float* lse, Stream stream) {
  const std::size_t shared = (2 * shape.head_dim + kThreads) * sizeof(float);
  forward_kernel<<<grid(shape, shape.length, shape.heads), kThreads, shared, stream>>>(
      device_shape(shape), device_keys(shape, qkv, keys), document_starts, qkv, context, lse);
  PENSTOCK_CUDA_LAUNCH("plain attention forward");
}

void plain_attention_backward(const AttentionSpec& shape, const AttentionBackward& tensors, Stream stream) {
  const Shape s = device_shape(shape);
  const Keys keys = device_keys(shape, tensors.qkv, tensors.keys);
  const std::size_t query_shared = (3 * shape.head_dim + kThreads) * sizeof(float);
  query_gradient_kernel<<<grid(shape, shape.length, shape.heads), kThreads, query_shared, stream>>>(s, keys, tensors);
  PENSTOCK_CUDA_LAUNCH("plain attention query gradient");
  const std::size_t key_shared = (4 * shape.head_dim + 2 * kThreads) * sizeof(float);
  key_gradient_kernel<<<grid(shape, shape.keys(), shape.kv_heads), kThreads, key_shared, stream>>>(s, keys, tensors);
  PENSTOCK_CUDA_LAUNCH("plain attention key gradient");
}

}  // namespace penstock::exec
