// Compiled once for each instruction set (foreach_target.h includes this file again); cpu_target() says which one runs.
#include "exec/optimizer/adamw.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/optimizer/adamw.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "exec/numerics/bf16.h"
#include "exec/numerics/cpu_target.h"
#include "exec/optimizer/planes.h"
#include "exec/optimizer/step_scalars.h"
#include "exec/optimizer/thread_team.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::exec {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::Rebind<std::uint32_t, Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using FloatVector = hn::Vec<Floats>;
using WordVector = hn::Vec<Words>;

constexpr Floats kFloats;
constexpr Words kWords;
constexpr Halves kHalves;
/// Elements ahead of the update that are asked for: the hardware follows fewer streams than a layer has planes.
constexpr std::int64_t kPrefetch = 512;

void prefetch(const float* plane, std::int64_t i) {
  hwy::Prefetch(plane + i);
  hwy::Prefetch(plane + i + 16);
}
void prefetch(const std::uint16_t* plane, std::int64_t i) { hwy::Prefetch(plane + i); }

// --- how elements are stored -----------------------------------------------------------------------------------------

WordVector load_halves(const std::uint16_t* from) { return hn::PromoteTo(kWords, hn::LoadU(kHalves, from)); }
void store_halves(WordVector values, std::uint16_t* to) { hn::StoreU(hn::TruncateTo(kHalves, values), kHalves, to); }
FloatVector upper_halves(WordVector halves) { return hn::BitCast(kFloats, hn::ShiftLeft<16>(halves)); }

/// bf16_from_bits of every element.
WordVector rounded_halves(FloatVector value) {
  const WordVector bits = hn::BitCast(kWords, value), one = hn::Set(kWords, 1);
  const WordVector even = hn::And(hn::ShiftRight<16>(bits), one);
  const WordVector rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(kWords, 0x7FFF)), even));
  return hn::IfThenElse(hn::RebindMask(kWords, hn::IsNaN(value)), hn::Set(kWords, 0x7FFF), rounded);
}

struct Fp32Array {
  using Type = float;
  static FloatVector load(const float* from) { return hn::LoadU(kFloats, from); }
  static void store(FloatVector value, float* to) { hn::StoreU(value, kFloats, to); }
  static float load_one(const float* from) { return *from; }
  static void store_one(float value, float* to) { *to = value; }
};

struct Bf16Array {
  using Type = std::uint16_t;
  static FloatVector load(const std::uint16_t* from) { return upper_halves(load_halves(from)); }
  static void store(FloatVector value, std::uint16_t* to) { store_halves(rounded_halves(value), to); }
  static float load_one(const std::uint16_t* from) { return widen_bf16(*from); }
  static void store_one(float value, std::uint16_t* to) { *to = round_to_bf16(value); }
};

/// The parameter of one layer in the three formats.
struct PlanesParameter {
  std::uint16_t* hi;
  std::uint16_t* lo;

  explicit PlanesParameter(const OptimizerStates& s) : hi(s.weights), lo(s.low_bits) {}
  FloatVector load(std::int64_t i) const {
    const WordVector low = load_halves(lo + i);
    const WordVector high = hn::Sub(load_halves(hi + i), hn::ShiftRight<15>(low));
    return hn::BitCast(kFloats, hn::Or(hn::ShiftLeft<16>(high), low));
  }
  void store(FloatVector value, std::int64_t i) const {
    const WordVector bits = hn::IfThenElse(hn::RebindMask(kWords, hn::IsNaN(value)), hn::Set(kWords, 0x7FC00000u),
                                           hn::BitCast(kWords, value));
    store_halves(hn::ShiftRight<16>(hn::Add(bits, hn::Set(kWords, 0x8000))), hi + i);
    store_halves(hn::And(bits, hn::Set(kWords, 0xFFFF)), lo + i);
  }
  void prefetch(std::int64_t i) const {
    HWY_NAMESPACE::prefetch(hi, i);
    HWY_NAMESPACE::prefetch(lo, i);
  }
  float load_one(std::int64_t i) const { return std::bit_cast<float>(join_planes(hi[i], lo[i])); }
  void store_one(float value, std::int64_t i) const {
    const PlanePair pair = split_planes(std::bit_cast<std::uint32_t>(value));
    hi[i] = pair.hi;
    lo[i] = pair.lo;
  }
};

struct MasterParameter {
  float* master;
  std::uint16_t* copy;

  explicit MasterParameter(const OptimizerStates& s) : master(s.master), copy(s.weights) {}
  FloatVector load(std::int64_t i) const { return Fp32Array::load(master + i); }
  void store(FloatVector value, std::int64_t i) const {
    Fp32Array::store(value, master + i);
    Bf16Array::store(value, copy + i);
  }
  void prefetch(std::int64_t i) const { HWY_NAMESPACE::prefetch(master, i); }
  float load_one(std::int64_t i) const { return master[i]; }
  void store_one(float value, std::int64_t i) const {
    master[i] = value;
    Bf16Array::store_one(value, copy + i);
  }
};

struct Bf16Parameter {
  std::uint16_t* weights;

  explicit Bf16Parameter(const OptimizerStates& s) : weights(s.weights) {}
  FloatVector load(std::int64_t i) const { return Bf16Array::load(weights + i); }
  void store(FloatVector value, std::int64_t i) const { Bf16Array::store(value, weights + i); }
  void prefetch(std::int64_t i) const { HWY_NAMESPACE::prefetch(weights, i); }
  float load_one(std::int64_t i) const { return Bf16Array::load_one(weights + i); }
  void store_one(float value, std::int64_t i) const { Bf16Array::store_one(value, weights + i); }
};

// --- the update ------------------------------------------------------------------------------------------------------

/// The list of operations of adamw.h on one element; std::fma is exact whatever the machine.
void update_one(const StepScalars& s, float gradient, float& p, float& m, float& v) {
  const float g = gradient * s.clip_scale;
  m = std::fma(s.beta1, m, s.one_minus_beta1 * g);
  v = std::fma(s.beta2, v, s.one_minus_beta2 * g * g);
  const float denominator = std::fma(std::sqrt(v), s.inverse_sqrt_bias2, s.epsilon);
  p = p * s.decay;
  p = p - s.step_size * m / denominator;
}

/// The same on a vector. Only where there are fma instructions (kVectorFma): without, MulAdd rounds twice.
[[maybe_unused]] void update_vector(const StepScalars& s, FloatVector gradient, FloatVector& p, FloatVector& m,
                                    FloatVector& v) {
  const auto all = [](float value) HWY_ATTR { return hn::Set(kFloats, value); };
  const FloatVector g = hn::Mul(gradient, all(s.clip_scale));
  m = hn::MulAdd(all(s.beta1), m, hn::Mul(all(s.one_minus_beta1), g));
  v = hn::MulAdd(all(s.beta2), v, hn::Mul(hn::Mul(all(s.one_minus_beta2), g), g));
  const FloatVector denominator = hn::MulAdd(hn::Sqrt(v), all(s.inverse_sqrt_bias2), all(s.epsilon));
  p = hn::Mul(p, all(s.decay));
  p = hn::Sub(p, hn::Div(hn::Mul(all(s.step_size), m), denominator));
}

// Highway's own word: it may target fewer instructions than the compiler was told of.
#if HWY_NATIVE_FMA
constexpr bool kVectorFma = true;
#else
constexpr bool kVectorFma = false;
#endif

template <class Parameter, class Moment, class Gradient>
void update_range(const OptimizerStates& states, const void* gradient, const StepScalars& scalars, std::int64_t begin,
                  std::int64_t end) {
  const Parameter parameter(states);
  const auto* const g = static_cast<const typename Gradient::Type*>(gradient);
  auto* const m = static_cast<typename Moment::Type*>(states.m);
  auto* const v = static_cast<typename Moment::Type*>(states.v);
  std::int64_t i = begin;
  if constexpr (kVectorFma) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(kFloats));
    const auto update = [&](std::int64_t at) HWY_ATTR {
      FloatVector p = parameter.load(at), first = Moment::load(m + at), second = Moment::load(v + at);
      update_vector(scalars, Gradient::load(g + at), p, first, second);
      parameter.store(p, at);
      Moment::store(first, m + at);
      Moment::store(second, v + at);
    };
    // A cache line of 16-bit elements at a time.
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const std::int64_t ahead = std::min(i + kPrefetch, end - 1);
      parameter.prefetch(ahead);
      prefetch(m, ahead);
      prefetch(v, ahead);
      prefetch(g, ahead);
      update(i);
      update(i + lanes);
    }
    for (; i + lanes <= end; i += lanes) update(i);
  }
  for (; i < end; ++i) {
    float p = parameter.load_one(i), first = Moment::load_one(m + i), second = Moment::load_one(v + i);
    update_one(scalars, Gradient::load_one(g + i), p, first, second);
    parameter.store_one(p, i);
    Moment::store_one(first, m + i);
    Moment::store_one(second, v + i);
  }
}

using UpdateRange = void (*)(const OptimizerStates&, const void*, const StepScalars&, std::int64_t, std::int64_t);

template <class Parameter>
UpdateRange select_update(ElementType moments, ElementType gradient) {
  const bool short_gradient = gradient == ElementType::bf16;
  if (moments == ElementType::bf16)
    return short_gradient ? update_range<Parameter, Bf16Array, Bf16Array>
                          : update_range<Parameter, Bf16Array, Fp32Array>;
  return short_gradient ? update_range<Parameter, Fp32Array, Bf16Array> : update_range<Parameter, Fp32Array, Fp32Array>;
}

}  // namespace

UpdateRange adamw_update(StateFormat format, ElementType moments, ElementType gradient) {
  switch (format) {
    case StateFormat::planes: return select_update<PlanesParameter>(moments, gradient);
    case StateFormat::master_and_copy: return select_update<MasterParameter>(moments, gradient);
    case StateFormat::bf16: break;
  }
  return select_update<Bf16Parameter>(moments, gradient);
}

}  // namespace HWY_NAMESPACE
}  // namespace penstock::exec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::exec {

HWY_EXPORT(adamw_update);

/// Ranges of threads begin at a multiple of this: whole cache lines of every plane.
constexpr std::int64_t kGranule = 1024;

StepScalars make_step_scalars(const AdamHyper& hyper, std::int64_t step, double sum_of_squares, bool clips) {
  const auto t = static_cast<double>(step);
  const double bias1 = 1.0 - std::pow(hyper.beta1, t), bias2 = 1.0 - std::pow(hyper.beta2, t);
  StepScalars s;
  s.learning_rate = static_cast<float>(hyper.learning_rate);
  s.step_size = static_cast<float>(hyper.learning_rate / bias1);
  s.inverse_sqrt_bias2 = static_cast<float>(1.0 / std::sqrt(bias2));
  s.decay = static_cast<float>(1.0 - hyper.learning_rate * hyper.weight_decay);
  s.beta1 = static_cast<float>(hyper.beta1);
  s.one_minus_beta1 = static_cast<float>(1.0 - hyper.beta1);
  s.beta2 = static_cast<float>(hyper.beta2);
  s.one_minus_beta2 = static_cast<float>(1.0 - hyper.beta2);
  s.epsilon = static_cast<float>(hyper.epsilon);
  if (clips) apply_norm(s, sum_of_squares, hyper.max_norm);
  return s;
}

void adamw_host(const OptimizerStates& states, const void* gradient, ElementType gradient_type, std::int64_t elements,
                const StepScalars& scalars, int threads, const UndecayedRanges& undecayed) {
  if (scalars.skip != 0) return;
  cpu_target();
  const auto update = HWY_DYNAMIC_DISPATCH(adamw_update)(states.format, states.moments, gradient_type);
  StepScalars plain = scalars;
  plain.decay = 1;
  for_ranges(elements, kGranule, threads, [&](std::int64_t begin, std::int64_t end) {
    // What lies in front of an undecayed range, then that range, as far as both are in [begin, end).
    for (int i = 0; i < undecayed.count; ++i) {
      const std::int64_t first = std::clamp(undecayed.begin[i], begin, end);
      const std::int64_t last = std::clamp(undecayed.end[i], begin, end);
      update(states, gradient, scalars, begin, first);
      update(states, gradient, plain, first, last);
      begin = last;
    }
    update(states, gradient, scalars, begin, end);
  });
}

}  // namespace penstock::exec
#endif  // HWY_ONCE
