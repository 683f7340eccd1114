#include "exec/numerics/cpu_target.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "exec/host/matmul.h"
#include "exec/host/scratch.h"
#include "exec/optimizer/adamw.h"
#include "exec/optimizer/norm.h"

namespace penstock::exec {
namespace {

/// Calls body for each instruction set that this processor has, and leaves the one that was.
template <class Body>
void on_every_target(const Body& body) {
  const CpuTarget before = cpu_target();
  for (const CpuTarget target : kCpuTargets) {
    if (!cpu_target_supported(target)) continue;
    force_cpu_target(target);
    SCOPED_TRACE(cpu_target_name(target));
    body(target);
  }
  force_cpu_target(before);
}

TEST(CpuTarget, IsTheBestUnlessTheEnvironmentSaysOtherwise) {
  const char* const wanted = std::getenv("PENSTOCK_CPU_TARGET");
  CpuTarget best = CpuTarget::baseline;
  for (const CpuTarget target : kCpuTargets)
    if (cpu_target_supported(target)) best = target;
  EXPECT_STREQ(cpu_target_name(cpu_target()), wanted == nullptr || *wanted == '\0' ? cpu_target_name(best) : wanted);
  EXPECT_TRUE(cpu_target_supported(CpuTarget::baseline));
}

/// 3001 elements: whole vectors of any length, and a rest.
TEST(CpuTarget, OptimizerAndNormHaveTheSameBitsOnAll) {
  constexpr std::int64_t kElements = 3001;
  std::vector<std::vector<std::uint16_t>> weights;
  std::vector<std::vector<float>> moments;
  std::vector<double> norms;
  on_every_target([&](CpuTarget) {
    std::vector<std::uint16_t> hi(kElements), lo(kElements), rounded(kElements);
    std::vector<float> m(kElements), v(kElements), gradient(kElements);
    for (std::int64_t i = 0; i < kElements; ++i) {
      const auto at = static_cast<std::size_t>(i);
      hi[at] = static_cast<std::uint16_t>(0x3C00 + i % 1000);
      lo[at] = static_cast<std::uint16_t>(i * 7919);
      gradient[at] =
          static_cast<float>(std::sin(static_cast<double>(i)) * std::pow(10.0, static_cast<double>(i % 30) - 25));
    }
    const double sum = finish_gradient_host(gradient.data(), ElementType::fp32, nullptr, rounded.data(),
                                            ElementType::bf16, kElements, 2);
    OptimizerStates states;
    states.weights = hi.data();
    states.low_bits = lo.data();
    states.m = m.data();
    states.v = v.data();
    for (int step = 1; step <= 3; ++step)
      adamw_host(states, rounded.data(), ElementType::bf16, kElements, make_step_scalars({}, step, sum, true), 2);
    hi.insert(hi.end(), lo.begin(), lo.end());
    m.insert(m.end(), v.begin(), v.end());
    weights.push_back(hi);
    moments.push_back(m);
    norms.push_back(sum);
  });
  EXPECT_GT(norms.front(), 0.0);
  for (std::size_t i = 1; i < weights.size(); ++i) {
    EXPECT_EQ(weights[i], weights[0]);
    EXPECT_EQ(moments[i], moments[0]);
    EXPECT_EQ(norms[i], norms[0]);
  }
}

/// Orders of additions differ, sums of 37 small whole numbers do not.
TEST(CpuTarget, EveryTargetMultiplies) {
  constexpr std::int64_t kRows = 19, kInner = 37, kColumns = 23;
  on_every_target([&](CpuTarget) {
    ScratchScope scratch;
    const Matrix<float> a(scratch.take<float>(kRows * kInner), kRows, kInner);
    const Matrix<float> b(scratch.take<float>(kInner * kColumns), kInner, kColumns);
    const Matrix<float> c(scratch.take<float>(kRows * kColumns), kRows, kColumns);
    for (std::int64_t i = 0; i < kRows * kInner; ++i) a.data[i] = static_cast<float>(i % 11 - 5);
    for (std::int64_t i = 0; i < kInner * kColumns; ++i) b.data[i] = static_cast<float>(i % 7 - 3);
    multiply(a, b, c);
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t j = 0; j < kColumns; ++j) {
        float expected = 0;
        for (std::int64_t k = 0; k < kInner; ++k) expected += a.row(r)[k] * b.row(k)[j];
        ASSERT_EQ(c.row(r)[j], expected) << r << " " << j;
      }
    float* const values = scratch.take<float>(kColumns);
    for (std::int64_t i = 0; i < pad_to_lanes(kColumns); ++i) values[i] = static_cast<float>(i) / 8 - 2;
    exponentials(values, kColumns);
    for (std::int64_t i = 0; i < kColumns; ++i)
      EXPECT_NEAR(values[i], std::exp(static_cast<double>(i) / 8 - 2), 1e-6 * values[i]);
  });
}

}  // namespace
}  // namespace penstock::exec
