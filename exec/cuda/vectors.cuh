// What the kernels share: rows of bf16 read and written 16 bytes at a time, and reductions in a fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace penstock::exec {

__device__ inline float widen(std::uint16_t bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
__device__ inline std::uint16_t narrow(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }

/// `id` if it is one of the vocabulary, else the last one: a table is never left, whatever lies where ids are read.
__device__ inline std::int32_t within(std::int32_t id, int vocabulary) {
  return static_cast<std::int32_t>(min(static_cast<unsigned>(id), static_cast<unsigned>(vocabulary) - 1u));
}

/// W consecutive bf16: one access of 16 bytes for W = 8, of 2 bytes for W = 1 (rows whose length 8 does not divide).
template <int W>
struct Packed;

template <>
struct Packed<8> {
  uint4 bits;
  __device__ static Packed load(const std::uint16_t* from) { return {*reinterpret_cast<const uint4*>(from)}; }
  __device__ void store(std::uint16_t* to) const { *reinterpret_cast<uint4*>(to) = bits; }
  __device__ void unpack(float (&out)[8]) const {
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[2 * i] = __uint_as_float(words[i] << 16);
      out[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
    }
  }
  __device__ static Packed pack(const float (&in)[8]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = static_cast<unsigned>(narrow(in[2 * i])) | (static_cast<unsigned>(narrow(in[2 * i + 1])) << 16);
    return {make_uint4(words[0], words[1], words[2], words[3])};
  }
};

template <>
struct Packed<1> {
  std::uint16_t bits;
  __device__ static Packed load(const std::uint16_t* from) { return {*from}; }
  __device__ void store(std::uint16_t* to) const { *to = bits; }
  __device__ void unpack(float (&out)[1]) const { out[0] = widen(bits); }
  __device__ static Packed pack(const float (&in)[1]) { return {narrow(in[0])}; }
};

/// Sum over the warp, the same in every lane, always added in the same order.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  return value;
}

/// Sum over the block, the same in every thread. `scratch`: 32 floats of shared memory that no thread still reads; a
/// caller that sums in a loop alternates between two. REQUIRES: blockDim.x a multiple of 32.
__device__ inline float block_sum(float value, float* scratch) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  return warp_sum(lane < blockDim.x / 32 ? scratch[lane] : 0.0f);
}

__device__ inline float2 block_sum(float2 value, float2* scratch) {
  value = make_float2(warp_sum(value.x), warp_sum(value.y));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  const float2 part = lane < blockDim.x / 32 ? scratch[lane] : make_float2(0.0f, 0.0f);
  return make_float2(warp_sum(part.x), warp_sum(part.y));
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace penstock::exec
