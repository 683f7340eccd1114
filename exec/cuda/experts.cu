#include "exec/cuda/experts.h"

#include <algorithm>
#include <climits>
#include <stdexcept>

#include "exec/cuda/error.h"
#include "exec/cuda/vectors.cuh"
#include "shared/ignored_label.h"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;  // each takes a token
constexpr int kRowThreads = 128;
constexpr std::int64_t kOrderSegment = 256, kMostSegments = 2048;

__device__ bool is_nan(float value) { return value != value; }

// --- the router: a warp has a token, each lane the logits lane, lane + 32, ...

template <int I>
struct Logits {
  float values[I];
  int lane, count;

  __device__ Logits(const float* row, int experts) : lane(static_cast<int>(threadIdx.x) % 32), count(experts) {
#pragma unroll
    for (int i = 0; i < I; ++i) values[i] = expert(i) < count ? row[expert(i)] : 0;
  }
  __device__ int expert(int i) const { return 32 * i + lane; }

  __device__ float largest() const {
    float most = -INFINITY;  // beside NaN too, which reaches the sum
#pragma unroll
    for (int i = 0; i < I; ++i)
      if (expert(i) < count) most = fmaxf(most, values[i]);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, step));
    return most;
  }
  /// Of exp(logit - largest).
  __device__ float sum(float largest) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < I; ++i)
      if (expert(i) < count) sum += expf(values[i] - largest);
    return warp_sum(sum);
  }
};

struct Candidate {
  float logit;
  int expert;  // INT_MAX: none
};

__device__ bool is_before(const Candidate& a, const Candidate& b) {
  if (a.expert == INT_MAX || b.expert == INT_MAX) return a.expert < b.expert;
  if (is_nan(a.logit) != is_nan(b.logit)) return is_nan(a.logit);
  if (a.logit > b.logit) return true;
  if (a.logit < b.logit) return false;
  return a.expert < b.expert;
}

__device__ Candidate best_of_warp(Candidate best) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const Candidate other{__shfl_xor_sync(0xFFFFFFFFu, best.logit, step),
                          __shfl_xor_sync(0xFFFFFFFFu, best.expert, step)};
    if (is_before(other, best)) best = other;
  }
  return best;
}

template <int I>
__global__ void __launch_bounds__(kThreads)
    choice_kernel(const float* all_logits, std::int64_t tokens, int experts, int per_token, bool normalised,
                  std::int32_t* choice, float* weights) {
  const std::int64_t token = blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / 32;
  if (token >= tokens) return;
  const Logits<I> logits(all_logits + token * experts, experts);
  const float largest = logits.largest(), sum = logits.sum(largest);
  choice += token * per_token;
  weights += token * per_token;
  unsigned taken = 0;  // of the lane's logits
  float chosen = 0;
  for (int j = 0; j < per_token; ++j) {
    Candidate best{0, INT_MAX};
#pragma unroll
    for (int i = 0; i < I; ++i) {
      const Candidate other{logits.values[i], logits.expert(i)};
      if (other.expert < experts && (taken >> i & 1u) == 0 && is_before(other, best)) best = other;
    }
    best = best_of_warp(best);
    if (best.expert % 32 == logits.lane) taken |= 1u << (best.expert / 32);
    const float probability = expf(best.logit - largest) / sum;
    chosen += probability;
    if (logits.lane == 0) {
      choice[j] = best.expert;
      weights[j] = probability;
    }
  }
  if (!normalised) return;
  __syncwarp();
  for (int j = logits.lane; j < per_token; j += 32) weights[j] /= chosen;
}

/// Of a warp's token: whether it lies in a last document without labels.
__device__ bool is_padding(const RowLabels& rows, std::int64_t token) {
  if (rows.labels == nullptr) return false;
  const std::int64_t row = token / rows.length * rows.length;
  const std::int64_t last = max(rows.document_starts[row + rows.length - 1], 0);
  if (token - row < last) return false;
  for (std::int64_t end = rows.length; end > last; end -= 32) {
    const std::int64_t place = end - 1 - static_cast<int>(threadIdx.x) % 32;
    const bool counts = place >= last && rows.labels[row + place] != kIgnoredLabel;
    if (__any_sync(0xFFFFFFFFu, counts)) return false;
  }
  return true;
}

/// parts [warps, 2 experts]: choices and probabilities of `each` tokens, added up in their order.
template <int I>
__global__ void __launch_bounds__(kThreads)
    balance_kernel(const float* all_logits, const std::int32_t* choice, std::int64_t tokens, std::int64_t each,
                   int experts, int per_token, const RowLabels rows, double* parts) {
  const std::int64_t warp = blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double probabilities[I] = {};
  int choices[I] = {};
  const std::int64_t end = min(tokens, (warp + 1) * each);
  for (std::int64_t token = warp * each; token < end; ++token) {
    if (is_padding(rows, token)) continue;
    const Logits<I> logits(all_logits + token * experts, experts);
    const float largest = logits.largest(), sum = logits.sum(largest);
#pragma unroll
    for (int i = 0; i < I; ++i)
      if (logits.expert(i) < experts) probabilities[i] += static_cast<double>(expf(logits.values[i] - largest) / sum);
    for (int j = 0; j < per_token; ++j) {
      const std::int32_t chosen = choice[token * per_token + j];
#pragma unroll
      for (int i = 0; i < I; ++i)
        if (chosen == logits.expert(i)) ++choices[i];
    }
  }
  double* const part = parts + warp * 2 * experts;
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int expert = 32 * i + lane;
    if (expert >= experts) continue;
    part[expert] = choices[i];
    part[experts + expert] = probabilities[i];
  }
}

/// A block has 32 columns of parts [count, columns], each warp every 32nd part.
__global__ void __launch_bounds__(1024)
    balance_sum_kernel(const double* parts, int count, int columns, const double* before, double* after) {
  __shared__ double sums[32][33];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int column = static_cast<int>(blockIdx.x) * 32 + lane;
  double sum = 0;
  if (column < columns)
    for (int part = warp; part < count; part += 32) sum += parts[static_cast<std::int64_t>(part) * columns + column];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  double all = 0;
  for (int i = 0; i < 32; ++i) all += sums[i][lane];
  after[column] = before[column] + all;
}

/// One block. Sums over experts: thread t adds t, t + kThreads, ..., then a fixed tree.
__global__ void __launch_bounds__(kThreads)
    balance_loss_kernel(const double* sums, int experts, int per_token, double scale, double* loss, double* gradient) {
  __shared__ double choices[kThreads], products[kThreads];
  double own_choices = 0, own_products = 0;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kThreads) {
    own_choices += sums[e];
    own_products += sums[e] * sums[experts + e];
  }
  choices[threadIdx.x] = own_choices;
  products[threadIdx.x] = own_products;
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x >= step) continue;
    choices[threadIdx.x] += choices[threadIdx.x + step];
    products[threadIdx.x] += products[threadIdx.x + step];
  }
  __syncthreads();
  const double tokens = choices[0] / per_token;
  const double share = tokens > 0 ? experts / (tokens * tokens) : 0;  // all may be padding
  if (threadIdx.x == 0) *loss = share * products[0];
  if (gradient == nullptr) return;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kThreads) {
    gradient[e] = scale * share * sums[e];
    gradient[experts + e] = 0;
  }
}

template <int I>
__global__ void __launch_bounds__(kThreads)
    choice_backward_kernel(const float* all_logits, std::int64_t tokens, int experts, int per_token, bool normalised,
                           const std::int32_t* choice, const float* weights, const float* d_weights,
                           const BalanceGradient balance, const SplitGradient d_logits) {
  const std::int64_t token = blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / 32;
  if (token >= tokens) return;
  const bool balanced = balance.of_probabilities != nullptr && !is_padding(balance.rows, token);
  const Logits<I> logits(all_logits + token * experts, experts);
  choice += token * per_token;
  weights += token * per_token;
  d_weights += token * per_token;
  float dot = 0;
  for (int j = logits.lane; j < per_token; j += 32) dot += weights[j] * d_weights[j];
  dot = warp_sum(dot);
  // Normalised weights are the softmax of the chosen logits alone.
  const bool of_all = !normalised || balanced;
  const float largest = of_all ? logits.largest() : 0, sum = of_all ? logits.sum(largest) : 1;
  float mean = 0;
  if (balanced) {
#pragma unroll
    for (int i = 0; i < I; ++i)
      if (const int expert = logits.expert(i); expert < experts)
        mean += expf(logits.values[i] - largest) / sum * static_cast<float>(balance.of_probabilities[expert]);
    mean = warp_sum(mean);
  }
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int expert = logits.expert(i);
    if (expert >= experts) continue;
    float gradient = normalised ? 0 : -(expf(logits.values[i] - largest) / sum) * dot;
    for (int j = 0; j < per_token; ++j)
      if (choice[j] == expert) gradient += weights[j] * (normalised ? d_weights[j] - dot : d_weights[j]);
    if (balanced)
      gradient +=
          expf(logits.values[i] - largest) / sum * (static_cast<float>(balance.of_probabilities[expert]) - mean);
    const std::uint16_t high = narrow(gradient);
    d_logits.high[token * experts + expert] = high;
    d_logits.low[token * experts + expert] = narrow(gradient - widen(high));
  }
}

template <int I>
struct PerLane {
  static constexpr int i = I;
};

template <class Launch>
void with_logits(const Experts& experts, Launch launch) {
  const std::int64_t each = divide_up(experts.count, 32);
  if (each <= 1) return launch(PerLane<1>());
  if (each <= 2) return launch(PerLane<2>());
  if (each <= 4) return launch(PerLane<4>());
  if (each <= 8) return launch(PerLane<8>());
  if (each <= 32) return launch(PerLane<32>());
  throw std::logic_error("a router of more than 1024 experts");
}

// --- the order of rows: choices are cut into segments, each a warp's. Whatever lies where choices are read, as in a
// rehearsal, no kernel leaves its tables

/// counts [experts, segments]: how many choices of a segment are each expert's.
__global__ void __launch_bounds__(32) count_kernel(const std::int32_t* choice, std::int64_t rows, int segment,
                                                   int experts, int segments, std::int32_t* counts) {
  extern __shared__ int own[];
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += 32) own[e] = 0;
  __syncwarp();
  const std::int64_t begin = blockIdx.x * static_cast<std::int64_t>(segment), end = min(rows, begin + segment);
  for (std::int64_t i = begin + threadIdx.x; i < end; i += 32) atomicAdd(own + within(choice[i], experts), 1);
  __syncwarp();
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += 32)
    counts[static_cast<std::int64_t>(e) * segments + blockIdx.x] = own[e];
}

__device__ int sum_up_to(int value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFFu, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

/// counts -> those of the segments before; first: sums over the experts before. One block.
__global__ void __launch_bounds__(1024)
    first_rows_kernel(std::int32_t* counts, int experts, int segments, std::int32_t* first) {
  __shared__ int totals[1024];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int e = warp; e < experts; e += 32) {
    std::int32_t* const row = counts + static_cast<std::int64_t>(e) * segments;
    int before = 0;
    for (int base = 0; base < segments; base += 32) {
      const int own = base + lane < segments ? row[base + lane] : 0;
      const int up_to = sum_up_to(own);
      if (base + lane < segments) row[base + lane] = before + up_to - own;
      before += __shfl_sync(0xFFFFFFFFu, up_to, 31);
    }
    if (lane == 0) totals[e] = before;
  }
  __syncthreads();
  if (warp != 0) return;
  int before = 0;
  for (int base = 0; base < experts; base += 32) {
    const int own = base + lane < experts ? totals[base + lane] : 0;
    const int up_to = sum_up_to(own);
    if (base + lane < experts) first[base + lane] = before + up_to - own;
    before += __shfl_sync(0xFFFFFFFFu, up_to, 31);
  }
  if (lane == 0) first[experts] = before;
}

__global__ void __launch_bounds__(32)
    order_kernel(const std::int32_t* choice, std::int64_t rows, int segment, int experts, int segments,
                 const std::int32_t* counts, const RowPlaces order) {
  extern __shared__ int next[];
  const int lane = static_cast<int>(threadIdx.x);
  for (int e = lane; e < experts; e += 32)
    next[e] = order.first[e] + counts[static_cast<std::int64_t>(e) * segments + blockIdx.x];
  const std::int64_t begin = blockIdx.x * static_cast<std::int64_t>(segment), end = min(rows, begin + segment);
  for (std::int64_t base = begin; base < end; base += 32) {
    __syncwarp();
    const std::int64_t i = base + lane;
    const bool present = i < end;
    const int expert = present ? within(choice[i], experts) : -1;
    const unsigned same = __match_any_sync(0xFFFFFFFFu, expert);
    const int before = __popc(same & ((1u << lane) - 1u));
    const int row = present ? next[expert] + before : 0;
    __syncwarp();
    if (!present) continue;
    if (before == 0) next[expert] += __popc(same);
    order.row[i] = row;
    order.choice_of[row] = static_cast<std::int32_t>(i);
  }
}

// --- rows

template <int W>
__global__ void __launch_bounds__(kRowThreads)
    rows_kernel(const std::int32_t* choice_of, int per_token, const std::uint16_t* of_tokens, std::uint16_t* rows,
                int hidden) {
  const std::uint16_t* const from = of_tokens + choice_of[blockIdx.x] / per_token * static_cast<std::int64_t>(hidden);
  std::uint16_t* const to = rows + blockIdx.x * static_cast<std::int64_t>(hidden);
#pragma unroll 4
  for (int c = static_cast<int>(threadIdx.x) * W; c < hidden; c += kRowThreads * W)
    Packed<W>::load(from + c).store(to + c);
}

template <int W>
__global__ void __launch_bounds__(kRowThreads)
    sum_kernel(const std::int32_t* row, int per_token, const std::uint16_t* rows, const float* weights,
               const std::uint16_t* middle, std::uint16_t* output, int hidden) {
  const std::int64_t token = blockIdx.x, first = token * per_token;
  for (int c = static_cast<int>(threadIdx.x) * W; c < hidden; c += kRowThreads * W) {
    float sums[W] = {}, rest[W] = {};
    if (middle != nullptr) Packed<W>::load(middle + token * hidden + c).unpack(rest);
#pragma unroll 4
    for (int j = 0; j < per_token; ++j) {
      float values[W];
      Packed<W>::load(rows + row[first + j] * static_cast<std::int64_t>(hidden) + c).unpack(values);
      const float weight = weights != nullptr ? weights[first + j] : 1.0f;
#pragma unroll
      for (int i = 0; i < W; ++i) sums[i] += weight * values[i];
    }
#pragma unroll
    for (int i = 0; i < W; ++i) sums[i] += rest[i];
    Packed<W>::pack(sums).store(output + token * hidden + c);
  }
}

template <int W>
__global__ void __launch_bounds__(kRowThreads)
    swiglu_backward_kernel(const std::int32_t* choice_of, const std::uint16_t* gate_up, const std::uint16_t* z,
                           const float* weights, std::uint16_t* product, std::uint16_t* d_gate_up, float* d_weights,
                           int width) {
  __shared__ float scratch[32];
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(width);
  const std::int32_t choice = choice_of[blockIdx.x];
  const float weight = weights[choice];
  float dot = 0;
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) * W; c < width; c += kRowThreads * W) {
    float gate[W], up[W], d[W], scaled[W];
    Packed<W>::load(gate_up + 2 * row + c).unpack(gate);
    Packed<W>::load(gate_up + 2 * row + width + c).unpack(up);
    Packed<W>::load(z + row + c).unpack(d);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float s = 1.0f / (1.0f + __expf(-gate[i])), silu = gate[i] * s;
      const float forward = widen(narrow(up[i] * silu));  // as the experts' second matrix met it
      dot += forward * d[i];
      scaled[i] = weight * forward;
      const float own = widen(narrow(weight * d[i]));
      gate[i] = own * up[i] * (s + silu * (1.0f - s));
      up[i] = own * silu;
    }
    Packed<W>::pack(scaled).store(product + row + c);
    Packed<W>::pack(gate).store(d_gate_up + 2 * row + c);
    Packed<W>::pack(up).store(d_gate_up + 2 * row + width + c);
  }
  dot = block_sum(dot, scratch);
  if (threadIdx.x == 0) d_weights[choice] = dot;
}

}  // namespace

void expert_choice(const Experts& experts, const float* logits, std::int64_t tokens, std::int32_t* choice,
                   float* weights, Stream stream) {
  with_logits(experts, [&](auto each) {
    choice_kernel<each.i><<<static_cast<unsigned>(divide_up(tokens, kWarps)), kThreads, 0, stream>>>(
        logits, tokens, static_cast<int>(experts.count), static_cast<int>(experts.per_token), experts.normalised,
        choice, weights);
  });
  PENSTOCK_CUDA_LAUNCH("expert_choice");
}

void expert_choice_backward(const Experts& experts, const float* logits, std::int64_t tokens,
                            const std::int32_t* choice, const float* weights, const float* d_weights,
                            const BalanceGradient& balance, const SplitGradient& d_logits, Stream stream) {
  with_logits(experts, [&](auto each) {
    choice_backward_kernel<each.i><<<static_cast<unsigned>(divide_up(tokens, kWarps)), kThreads, 0, stream>>>(
        logits, tokens, static_cast<int>(experts.count), static_cast<int>(experts.per_token), experts.normalised,
        choice, weights, d_weights, balance, d_logits);
  });
  PENSTOCK_CUDA_LAUNCH("expert_choice_backward");
}

void balance_begin(double* sums, std::int64_t elements, Stream stream) {
  PENSTOCK_CUDA(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(elements) * sizeof(double), stream));
}

void balance_pass_on(const double* from, double* to, std::int64_t elements, Stream stream) {
  if (from == to) return;
  PENSTOCK_CUDA(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(elements) * sizeof(double), cudaMemcpyDeviceToDevice, stream));
}

void expert_balance(const Experts& experts, const float* logits, const std::int32_t* choice, std::int64_t tokens,
                    const RowLabels& rows, const double* before, double* after, LibraryWorkspace workspace,
                    Stream stream) {
  const std::int64_t each = divide_up(tokens, kMostBalanceParts), blocks = divide_up(divide_up(tokens, each), kWarps);
  const int count = static_cast<int>(experts.count);
  if (workspace.bytes < 16 * count * blocks * kWarps) throw std::logic_error("no workspace for what balances experts");
  auto* const parts = reinterpret_cast<double*>(workspace.data);
  with_logits(experts, [&](auto per_lane) {
    balance_kernel<per_lane.i><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        logits, choice, tokens, each, count, static_cast<int>(experts.per_token), rows, parts);
  });
  PENSTOCK_CUDA_LAUNCH("expert_balance parts");
  balance_sum_kernel<<<static_cast<unsigned>(divide_up(2 * count, 32)), 1024, 0, stream>>>(
      parts, static_cast<int>(blocks * kWarps), 2 * count, before, after);
  PENSTOCK_CUDA_LAUNCH("expert_balance");
}

void expert_balance_loss(const Experts& experts, const double* sums, double scale, double* loss, double* gradient,
                         Stream stream) {
  balance_loss_kernel<<<1, kThreads, 0, stream>>>(sums, static_cast<int>(experts.count),
                                                  static_cast<int>(experts.per_token), scale, loss, gradient);
  PENSTOCK_CUDA_LAUNCH("expert_balance_loss");
}

void expert_order(const Experts& experts, const std::int32_t* choice, std::int64_t tokens, const RowPlaces& order,
                  LibraryWorkspace workspace, Stream stream) {
  const std::int64_t rows = tokens * experts.per_token;
  const std::int64_t segment = std::max(kOrderSegment, divide_up(divide_up(rows, kMostSegments), 32) * 32);
  const int segments = static_cast<int>(divide_up(rows, segment)), count = static_cast<int>(experts.count);
  const std::int64_t bytes = std::int64_t{4} * count * segments;
  if (workspace.bytes < bytes) throw std::logic_error("no workspace for the order of experts' rows");
  auto* const counts = reinterpret_cast<std::int32_t*>(workspace.data);
  const auto warps = static_cast<unsigned>(segments), shared = static_cast<unsigned>(4 * count);
  count_kernel<<<warps, 32, shared, stream>>>(choice, rows, static_cast<int>(segment), count, segments, counts);
  PENSTOCK_CUDA_LAUNCH("expert_order counts");
  first_rows_kernel<<<1, 1024, 0, stream>>>(counts, count, segments, order.first);
  PENSTOCK_CUDA_LAUNCH("expert_order first rows");
  order_kernel<<<warps, 32, shared, stream>>>(choice, rows, static_cast<int>(segment), count, segments, counts, order);
  PENSTOCK_CUDA_LAUNCH("expert_order");
}

void expert_rows(const Experts& experts, const RowPlaces& order, const std::uint16_t* of_tokens, std::uint16_t* rows,
                 std::int64_t tokens, std::int64_t hidden, Stream stream) {
  const auto kernel = hidden % 8 == 0 ? rows_kernel<8> : rows_kernel<1>;
  kernel<<<static_cast<unsigned>(tokens * experts.per_token), kRowThreads, 0, stream>>>(
      order.choice_of, static_cast<int>(experts.per_token), of_tokens, rows, static_cast<int>(hidden));
  PENSTOCK_CUDA_LAUNCH("expert_rows");
}

void expert_sum(const Experts& experts, const RowPlaces& order, const std::uint16_t* rows, const float* weights,
                const std::uint16_t* middle, std::uint16_t* output, std::int64_t tokens, std::int64_t hidden,
                Stream stream) {
  const auto kernel = hidden % 8 == 0 ? sum_kernel<8> : sum_kernel<1>;
  kernel<<<static_cast<unsigned>(tokens), kRowThreads, 0, stream>>>(
      order.row, static_cast<int>(experts.per_token), rows, weights, middle, output, static_cast<int>(hidden));
  PENSTOCK_CUDA_LAUNCH("expert_sum");
}

void experts_swiglu_backward(const RowPlaces& order, const std::uint16_t* gate_up, const std::uint16_t* z,
                             const float* weights, std::uint16_t* product, std::uint16_t* d_gate_up, float* d_weights,
                             std::int64_t rows, std::int64_t width, Stream stream) {
  const auto kernel = width % 8 == 0 ? swiglu_backward_kernel<8> : swiglu_backward_kernel<1>;
  kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(order.choice_of, gate_up, z, weights, product,
                                                                  d_gate_up, d_weights, static_cast<int>(width));
  PENSTOCK_CUDA_LAUNCH("experts_swiglu_backward");
}

}  // namespace penstock::exec
