#include "exec/optimizer/adamw.h"

#include <gtest/gtest.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "exec/numerics/bf16.h"
#include "exec/optimizer/planes.h"
#include "exec/optimizer/step_scalars.h"

namespace penstock::exec {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// One layer's state in memory of its own, in any format, `shift` elements behind the start of each array.
struct State {
  StateFormat format;
  ElementType moments;
  std::size_t count, shift;
  std::vector<std::uint16_t> weights, low_bits, m_halves, v_halves;
  std::vector<float> master, m_floats, v_floats;

  State(StateFormat format_in, ElementType moments_in, const std::vector<float>& parameters,
        const std::vector<float>& m, const std::vector<float>& v, std::size_t shift_in = 0)
      : format(format_in), moments(moments_in), count(parameters.size()), shift(shift_in) {
    for (auto* halves : {&weights, &low_bits, &m_halves, &v_halves}) halves->resize(count + shift);
    for (auto* floats : {&master, &m_floats, &v_floats}) floats->resize(count + shift);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i + shift;
      const PlanePair planes = split_planes(bits_of(parameters[i]));
      weights[at] = format == StateFormat::planes ? planes.hi : round_to_bf16(parameters[i]);
      low_bits[at] = planes.lo;
      master[at] = parameters[i];
      m_floats[at] = m[i];
      v_floats[at] = v[i];
      m_halves[at] = round_to_bf16(m[i]);
      v_halves[at] = round_to_bf16(v[i]);
    }
  }

  OptimizerStates bound() {
    OptimizerStates states;
    states.format = format;
    states.moments = moments;
    states.weights = weights.data() + shift;
    if (format == StateFormat::planes) states.low_bits = low_bits.data() + shift;
    if (format == StateFormat::master_and_copy) states.master = master.data() + shift;
    const bool halves = moments == ElementType::bf16;
    states.m = halves ? static_cast<void*>(m_halves.data() + shift) : m_floats.data() + shift;
    states.v = halves ? static_cast<void*>(v_halves.data() + shift) : v_floats.data() + shift;
    return states;
  }

  float parameter(std::size_t i) const {
    const std::size_t at = i + shift;
    if (format == StateFormat::planes) return std::bit_cast<float>(join_planes(weights[at], low_bits[at]));
    return format == StateFormat::master_and_copy ? master[at] : widen_bf16(weights[at]);
  }
  float m(std::size_t i) const {
    return moments == ElementType::bf16 ? widen_bf16(m_halves[i + shift]) : m_floats[i + shift];
  }
  float v(std::size_t i) const {
    return moments == ElementType::bf16 ? widen_bf16(v_halves[i + shift]) : v_floats[i + shift];
  }
};

/// adamw.h's list of operations, one IEEE operation a line.
void documented_update(const StepScalars& s, float gradient, float& p, float& m, float& v) {
  const float g = gradient * s.clip_scale;
  const float m_part = s.one_minus_beta1 * g;
  m = std::fma(s.beta1, m, m_part);
  const float v_half = s.one_minus_beta2 * g;
  const float v_part = v_half * g;
  v = std::fma(s.beta2, v, v_part);
  const float root = std::sqrt(v);
  const float denominator = std::fma(root, s.inverse_sqrt_bias2, s.epsilon);
  p = p * s.decay;
  const float numerator = s.step_size * m;
  const float quotient = numerator / denominator;
  p = p - quotient;
}

struct Inputs {
  std::vector<float> parameters, m, v, gradient;
};

/// From 2^-70 (whose squares are denormal or vanish) to 2^10, and zeros.
Inputs wild_inputs(std::size_t count) {
  std::mt19937 random(5);
  const auto wild = [&random] {
    return random() % 50 == 0
               ? 0.0f
               : std::ldexp(static_cast<float>(random()) / 0x1p32f - 0.5f, static_cast<int>(random() % 80) - 70);
  };
  Inputs in;
  for (std::size_t i = 0; i < count; ++i) {
    in.parameters.push_back(wild());
    in.m.push_back(wild());
    in.v.push_back(std::abs(wild()) * 1e-10f);
    in.gradient.push_back(wild());
  }
  return in;
}

StepScalars some_scalars() {
  AdamHyper hyper;
  hyper.learning_rate = 0.01;
  hyper.max_norm = 1.0;
  return make_step_scalars(hyper, 3, 6.25, true);
}

struct Case {
  StateFormat format;
  ElementType moments, gradient;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const StateFormat format : {StateFormat::planes, StateFormat::master_and_copy, StateFormat::bf16})
    for (const ElementType moments : {ElementType::fp32, ElementType::bf16})
      for (const ElementType gradient : {ElementType::fp32, ElementType::bf16})
        cases.push_back({format, moments, gradient});
  return cases;
}

std::vector<std::uint16_t> halves_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(round_to_bf16(value));
  return halves;
}

void run_case(const Case& c, State& state, const Inputs& in, const StepScalars& scalars, int threads) {
  const std::vector<std::uint16_t> halves = halves_of(in.gradient);
  const void* const gradient =
      c.gradient == ElementType::bf16 ? static_cast<const void*>(halves.data()) : in.gradient.data();
  adamw_host(state.bound(), gradient, c.gradient, static_cast<std::int64_t>(in.gradient.size()), scalars, threads);
}

/// Every format, whole vectors and the tail, one bit out is a failure.
TEST(AdamW, IsTheDocumentedListOfOperations) {
  const Inputs in = wild_inputs(5003);
  const StepScalars scalars = some_scalars();
  for (const Case& c : all_cases()) {
    State state(c.format, c.moments, in.parameters, in.m, in.v);
    const State before = state;
    run_case(c, state, in, scalars, 1);
    for (std::size_t i = 0; i < in.parameters.size(); ++i) {
      float p = before.parameter(i), m = before.m(i), v = before.v(i);
      const float g = c.gradient == ElementType::bf16 ? widen_bf16(round_to_bf16(in.gradient[i])) : in.gradient[i];
      documented_update(scalars, g, p, m, v);
      const bool halves = c.moments == ElementType::bf16;
      const float stored = c.format == StateFormat::bf16 ? widen_bf16(round_to_bf16(p)) : p;
      ASSERT_EQ(bits_of(state.parameter(i)), bits_of(stored)) << "element " << i;
      ASSERT_EQ(bits_of(state.m(i)), bits_of(halves ? widen_bf16(round_to_bf16(m)) : m)) << "element " << i;
      ASSERT_EQ(bits_of(state.v(i)), bits_of(halves ? widen_bf16(round_to_bf16(v)) : v)) << "element " << i;
      if (c.format == StateFormat::master_and_copy) {
        ASSERT_EQ(state.weights[i], round_to_bf16(p)) << "element " << i;
      }
    }
  }
}

/// Ranges that take no decay, whatever the threads: those elements get the bits of a step with a decay of 1.
TEST(AdamW, UndecayedRangesAreAsIfNothingDecayed) {
  const Inputs in = wild_inputs(10007);
  const StepScalars scalars = some_scalars();
  ASSERT_NE(scalars.decay, 1.0f);
  StepScalars plain = scalars;
  plain.decay = 1;
  UndecayedRanges ranges{3, {64, 2048, 9984}, {1088, 4096, 10007}};  // within a thread's part, over two, to the end
  for (const Case& c : all_cases()) {
    State decayed(c.format, c.moments, in.parameters, in.m, in.v), undecayed = decayed, mixed = decayed;
    run_case(c, decayed, in, scalars, 1);
    run_case(c, undecayed, in, plain, 1);
    for (const int threads : {1, 3}) {
      State state = mixed;
      const std::vector<std::uint16_t> halves = halves_of(in.gradient);
      const void* const gradient =
          c.gradient == ElementType::bf16 ? static_cast<const void*>(halves.data()) : in.gradient.data();
      adamw_host(state.bound(), gradient, c.gradient, 10007, scalars, threads, ranges);
      for (std::size_t i = 0; i < in.parameters.size(); ++i) {
        const bool in_range = (i >= 64 && i < 1088) || (i >= 2048 && i < 4096) || i >= 9984;
        ASSERT_EQ(bits_of(state.parameter(i)), bits_of((in_range ? undecayed : decayed).parameter(i))) << i;
        ASSERT_EQ(bits_of(state.m(i)), bits_of(decayed.m(i))) << i;
        ASSERT_EQ(bits_of(state.v(i)), bits_of(decayed.v(i))) << i;
      }
    }
  }
}

TEST(AdamW, BitsDoNotDependOnThreadsOrAlignment) {
  const Inputs in = wild_inputs(10007);
  const StepScalars scalars = some_scalars();
  for (const Case& c : all_cases()) {
    State expected(c.format, c.moments, in.parameters, in.m, in.v);
    run_case(c, expected, in, scalars, 1);
    for (const std::size_t shift : {0, 1, 3, 8})
      for (int threads = 1; threads <= 4; ++threads) {
        State state(c.format, c.moments, in.parameters, in.m, in.v, shift);
        run_case(c, state, in, scalars, threads);
        for (std::size_t i = 0; i < in.parameters.size(); ++i) {
          ASSERT_EQ(bits_of(state.parameter(i)), bits_of(expected.parameter(i)));
          ASSERT_EQ(bits_of(state.m(i)), bits_of(expected.m(i)));
          ASSERT_EQ(bits_of(state.v(i)), bits_of(expected.v(i)));
        }
      }
  }
}

/// Two steps of one parameter, learning rate 0.1, beta 0.9 and 0.99, decay 0.1 (factor 0.99), by hand:
///   g = 0.5: m = 0.05, v = 0.0025; unbiased 0.5 and 0.25; p = 1 * 0.99 - 0.1 * 0.5 / 0.5 = 0.89.
///   g = -1: m = 0.9 * 0.05 - 0.1 = -0.055, v = 0.99 * 0.0025 + 0.01 = 0.012475; unbiased by 0.19 and 0.0199:
///   -0.2894737 and 0.6268844, root 0.7917603; p = 0.89 * 0.99 + 0.1 * 0.2894737 / 0.7917603 = 0.9176608.
TEST(AdamW, TwoStepsByHand) {
  AdamHyper hyper;
  hyper.learning_rate = 0.1;
  hyper.beta2 = 0.99;
  State state(StateFormat::planes, ElementType::fp32, {1.0f}, {0.0f}, {0.0f});
  float gradient = 0.5f;
  adamw_host(state.bound(), &gradient, ElementType::fp32, 1, make_step_scalars(hyper, 1, 0, false), 1);
  EXPECT_NEAR(state.parameter(0), 0.89, 1e-6);
  EXPECT_NEAR(state.m(0), 0.05, 1e-8);
  EXPECT_NEAR(state.v(0), 0.0025, 1e-9);
  gradient = -1.0f;
  adamw_host(state.bound(), &gradient, ElementType::fp32, 1, make_step_scalars(hyper, 2, 0, false), 1);
  EXPECT_NEAR(state.parameter(0), 0.9176608, 1e-6);
  EXPECT_NEAR(state.m(0), -0.055, 1e-8);
  EXPECT_NEAR(state.v(0), 0.012475, 1e-9);
}

/// g = 1e-20: g^2 (1 - beta2) = 5e-42 is denormal; flushing would leave v = 0 and divide by epsilon alone.
TEST(AdamW, KeepsDenormals) {
  const std::vector<float> zeros(16, 0.0f), ones(16, 1.0f), gradient(16, 1e-20f);
  State state(StateFormat::planes, ElementType::fp32, ones, zeros, zeros);
  adamw_host(state.bound(), gradient.data(), ElementType::fp32, 16, make_step_scalars({}, 1, 0, false), 1);
  EXPECT_NEAR(state.v(0) / 5e-42, 1.0, 1e-3);  // spacing of denormals: 1.4e-45
  EXPECT_GT(state.v(15), 0.0f);
}

#if defined(__SSE__)
/// A library that was loaded may have switched denormals off; helpers inherit it from the thread that makes them.
TEST(AdamW, KeepsDenormalsWhereTheCallerFlushes) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  const std::vector<float> zeros(65536, 0.0f), ones(65536, 1.0f), gradient(65536, 1e-20f);
  State state(StateFormat::planes, ElementType::fp32, ones, zeros, zeros);
  adamw_host(state.bound(), gradient.data(), ElementType::fp32, 65536, make_step_scalars({}, 1, 0, false), 3);
  const unsigned during = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(during & 0x8040, 0x8040u);  // the caller's own choice is given back
  EXPECT_GT(state.v(0), 0.0f);
  EXPECT_GT(state.v(65535), 0.0f);
}
#endif

TEST(AdamW, SkipLeavesEverything) {
  const Inputs in = wild_inputs(100);
  for (const Case& c : all_cases()) {
    State state(c.format, c.moments, in.parameters, in.m, in.v);
    const State before = state;
    StepScalars scalars = some_scalars();
    scalars.skip = 1;
    run_case(c, state, in, scalars, 2);
    EXPECT_EQ(state.weights, before.weights);
    EXPECT_EQ(state.low_bits, before.low_bits);
    EXPECT_EQ(state.master, before.master);
    EXPECT_EQ(state.m_floats, before.m_floats);
    EXPECT_EQ(state.m_halves, before.m_halves);
    EXPECT_EQ(state.v_floats, before.v_floats);
    EXPECT_EQ(state.v_halves, before.v_halves);
  }
}

/// An update of nothing (learning rate 0, gradient 0) takes the planes apart and together: every finite pattern stays,
/// in the vector code as in planes.h.
TEST(AdamW, PlanesOfAnUnchangedParameterStay) {
  std::vector<float> parameters;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65521)  // a prime: all low halves occur
    if (const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits)); std::isfinite(value))
      parameters.push_back(value);
  const std::vector<float> zeros(parameters.size(), 0.0f);
  State state(StateFormat::planes, ElementType::fp32, parameters, zeros, zeros);
  const State before = state;
  AdamHyper hyper;
  hyper.learning_rate = 0;
  adamw_host(state.bound(), zeros.data(), ElementType::fp32, static_cast<std::int64_t>(zeros.size()),
             make_step_scalars(hyper, 1, 0, false), 1);
  EXPECT_EQ(state.weights, before.weights);
  EXPECT_EQ(state.low_bits, before.low_bits);
}

/// A NaN in the gradient makes one NaN, stored as 0x7FC00000, and leaves its neighbours.
TEST(AdamW, NanIsStoredAsOnePattern) {
  std::vector<float> gradient(20, 0.0f);
  gradient[3] = std::bit_cast<float>(0xFFC00001u);   // in a vector
  gradient[19] = std::bit_cast<float>(0xFFC00001u);  // in the tail
  const std::vector<float> zeros(20, 0.0f), ones(20, 1.0f);
  State state(StateFormat::planes, ElementType::fp32, ones, zeros, zeros);
  adamw_host(state.bound(), gradient.data(), ElementType::fp32, 20, make_step_scalars({}, 1, 0, false), 1);
  for (const std::size_t i : {3U, 19U}) {
    EXPECT_EQ(state.weights[i], 0x7FC0);
    EXPECT_EQ(state.low_bits[i], 0);
  }
  EXPECT_NEAR(state.parameter(4), 1.0, 1e-4);
}

/// Norm 5 above the limit 1: scale 1 / (5 + 1e-6). Norm 0.5: unchanged.
TEST(StepScalars, ClipsByTheNorm) {
  const StepScalars clipped = make_step_scalars({}, 1, 25.0, true);
  EXPECT_EQ(clipped.norm, 5.0);
  EXPECT_EQ(clipped.clip_scale, static_cast<float>(1.0 / 5.000001));
  EXPECT_EQ(clipped.skip, 0U);
  const StepScalars small = make_step_scalars({}, 1, 0.25, true);
  EXPECT_EQ(small.norm, 0.5);
  EXPECT_EQ(small.clip_scale, 1.0f);
}

TEST(StepScalars, SkipsWhenTheNormIsNotFinite) {
  for (const double sum : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_EQ(make_step_scalars({}, 1, sum, true).skip, 1U);
    const StepScalars unclipped = make_step_scalars({}, 1, sum, false);
    EXPECT_EQ(unclipped.skip, 0U);
    EXPECT_EQ(unclipped.clip_scale, 1.0f);
    EXPECT_EQ(unclipped.norm, 0.0);
  }
}

/// Step 2: 1 - 0.9^2 = 0.19, 1 - 0.95^2 = 0.0975.
TEST(StepScalars, CorrectsTheBiasOfBothMoments) {
  AdamHyper hyper;
  hyper.learning_rate = 1e-3;
  const StepScalars s = make_step_scalars(hyper, 2, 0, false);
  EXPECT_FLOAT_EQ(s.step_size, static_cast<float>(1e-3 / 0.19));
  EXPECT_FLOAT_EQ(s.inverse_sqrt_bias2, static_cast<float>(1.0 / std::sqrt(0.0975)));
  EXPECT_EQ(s.decay, static_cast<float>(1.0 - 1e-3 * 0.1));
  EXPECT_EQ(s.one_minus_beta2, static_cast<float>(1.0 - 0.95));  // of the fp64 difference, not of rounded betas
}

}  // namespace
}  // namespace penstock::exec
