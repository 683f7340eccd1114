// GPU and host must agree to the bit: the optimizer may be split between them by layer.
#include "exec/cuda/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gpu_test.h"

namespace penstock::exec {
namespace {

/// Patterns over all exponents, denormals included; finite. `positive` for second moments.
std::vector<float> random_patterns(const std::string& name, std::int64_t count, bool positive) {
  std::vector<float> values;
  const std::uint64_t key = random_key(3, name);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random64(key, static_cast<std::uint64_t>(i));
    std::uint32_t pattern = static_cast<std::uint32_t>(bits);
    // A fifth denormal, a fifth around 1, the rest anywhere below 2^64 so that squares stay finite.
    if (bits >> 32 & 1)
      pattern = (pattern & 0x807FFFFFu);
    else if (bits >> 33 & 1)
      pattern = (pattern & 0x807FFFFFu) | 0x3F800000u;
    else if ((pattern >> 23 & 0xFF) > 191)
      pattern &= 0xBFFFFFFFu;
    if (positive) pattern &= 0x7FFFFFFFu;
    values.push_back(std::bit_cast<float>(pattern));
  }
  return values;
}

std::vector<std::byte> encoded(const std::vector<float>& values, ElementType type) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(element_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::fp32) {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    } else {
      const std::uint16_t rounded = round_to_bf16(values[i]);
      std::memcpy(bytes.data() + 2 * i, &rounded, 2);
    }
  }
  return bytes;
}

struct AdamCase {
  StateFormat format;
  ElementType moments, gradient;
};

class AdamwCuda : public GpuTestWith<AdamCase> {};
INSTANTIATE_TEST_SUITE_P(Formats, AdamwCuda,
                         ::testing::Values(AdamCase{StateFormat::planes, ElementType::fp32, ElementType::bf16},
                                           AdamCase{StateFormat::planes, ElementType::fp32, ElementType::fp32},
                                           AdamCase{StateFormat::planes, ElementType::bf16, ElementType::bf16},
                                           AdamCase{StateFormat::master_and_copy, ElementType::fp32, ElementType::fp32},
                                           AdamCase{StateFormat::master_and_copy, ElementType::bf16, ElementType::bf16},
                                           AdamCase{StateFormat::bf16, ElementType::bf16, ElementType::bf16},
                                           AdamCase{StateFormat::bf16, ElementType::fp32, ElementType::bf16}));

/// All five planes one after the other, each padded to 256 bytes; those not of the format are there but not used.
struct Planes {
  std::int64_t elements;
  std::vector<std::byte> bytes;

  std::int64_t plane_bytes() const { return (4 * elements + 255) / 256 * 256; }
  OptimizerStates at(std::byte* base, const AdamCase& c) const {
    const auto place = [&](int plane) { return base + plane * plane_bytes(); };
    OptimizerStates states;
    states.format = c.format;
    states.moments = c.moments;
    states.weights = reinterpret_cast<std::uint16_t*>(place(0));
    if (c.format == StateFormat::planes) states.low_bits = reinterpret_cast<std::uint16_t*>(place(1));
    if (c.format == StateFormat::master_and_copy) states.master = reinterpret_cast<float*>(place(2));
    states.m = place(3);
    states.v = place(4);
    return states;
  }
};

Planes random_planes(std::int64_t elements, const AdamCase& c) {
  Planes planes{elements, {}};
  planes.bytes.resize(static_cast<std::size_t>(5 * planes.plane_bytes()));
  const auto put = [&](int plane, const std::vector<std::byte>& from) {
    std::copy(from.begin(), from.end(), planes.bytes.begin() + plane * planes.plane_bytes());
  };
  put(0, encoded(random_patterns("weights", elements, false), ElementType::bf16));
  put(1, encoded(random_patterns("low", elements, true), ElementType::bf16));
  put(2, encoded(random_patterns("master", elements, false), ElementType::fp32));
  put(3, encoded(random_patterns("m", elements, false), c.moments));
  put(4, encoded(random_patterns("v", elements, true), c.moments));
  return planes;
}

TEST_P(AdamwCuda, GivesTheBitsOfTheHost) {
  const AdamCase& c = GetParam();
  for (const std::int64_t elements : {1, 7, 8, 10007}) {
    Planes host = random_planes(elements, c);
    DeviceMemory device = to_device(host.bytes);
    for (int step = 1; step <= 3; ++step) {
      const auto gradient = encoded(random_patterns("gradient " + std::to_string(step), elements, false), c.gradient);
      const StepScalars scalars = make_step_scalars({}, step, 17.0, true);
      // None in the first step; later ones that do not decay in the middle and at the end.
      UndecayedRanges undecayed;
      if (step > 1) undecayed = {2, {0, 9920}, {elements < 64 ? elements : 64, elements}};
      if (step > 1 && elements < 10000) undecayed.count = 1;
      adamw_host(host.at(host.bytes.data(), c), gradient.data(), c.gradient, elements, scalars, 1, undecayed);
      const DeviceMemory device_gradient = to_device(gradient);
      const DeviceMemory device_scalars = to_device(std::vector<StepScalars>{scalars});
      adamw_cuda(host.at(device.data(), c), device_gradient.data(), c.gradient, elements,
                 device_scalars.as<StepScalars>(), nullptr, undecayed);
      synchronize_device();
      ASSERT_EQ(to_host<std::byte>(device, device.bytes()), host.bytes) << elements << " elements, step " << step;
    }
  }
}

TEST_P(AdamwCuda, SkippedStepChangesNothing) {
  const AdamCase& c = GetParam();
  const Planes host = random_planes(1000, c);
  DeviceMemory device = to_device(host.bytes);
  const DeviceMemory gradient = to_device(encoded(random_patterns("gradient", 1000, false), c.gradient));
  const DeviceMemory scalars = to_device(std::vector<StepScalars>{make_step_scalars({}, 1, INFINITY, true)});
  adamw_cuda(host.at(device.data(), c), gradient.data(), c.gradient, 1000, scalars.as<StepScalars>(), nullptr);
  EXPECT_EQ(to_host<std::byte>(device, device.bytes()), host.bytes);
}

using NormCuda = GpuTest;

// Sizes around a lane row, a leaf, a level of leaves, and two levels (2^20 + 1).
constexpr std::int64_t kSizes[] = {0, 1, 31, 33, 1023, 1024, 1025, 70001, (1 << 20) + 1};

TEST_F(NormCuda, GivesTheBitsOfTheHost) {
  for (const ElementType type : {ElementType::bf16, ElementType::fp32})
    for (const std::int64_t size : kSizes) {
      const auto values = encoded(random_patterns("norm", size, false), type);
      const DeviceMemory device = to_device(values);
      DeviceMemory scratch(8 * norm_scratch_elements(size) + 8), sum(8);
      sum.fill(0xFF);
      sum_of_squares_cuda(device.data(), type, size, scratch.as<double>(), sum.as<double>(), nullptr);
      EXPECT_EQ(to_host<double>(sum, 1).front(), sum_of_squares_host(values.data(), type, size, 1)) << size;
    }
}

TEST_F(NormCuda, FinishedGradientGivesTheBitsOfTheHost) {
  for (const ElementType sum_type : {ElementType::bf16, ElementType::fp32})
    for (const ElementType out_type : {ElementType::bf16, ElementType::fp32})
      for (const bool tied : {false, true})
        for (const std::int64_t size : kSizes) {
          const auto sum = encoded(random_patterns("sum", size, false), sum_type);
          const auto other = encoded(random_patterns("tied", size, false), sum_type);
          std::vector<std::byte> out(static_cast<std::size_t>(size * element_bytes(out_type)));
          const double squares =
              finish_gradient_host(sum.data(), sum_type, tied ? other.data() : nullptr, out.data(), out_type, size, 1);
          const DeviceMemory d_sum = to_device(sum), d_other = to_device(other);
          DeviceMemory d_out(static_cast<std::int64_t>(out.size())), scratch(8 * norm_scratch_elements(size) + 8),
              d_squares(8);
          finish_gradient_cuda(d_sum.data(), sum_type, tied ? d_other.data() : nullptr, d_out.data(), out_type, size,
                               scratch.as<double>(), d_squares.as<double>(), nullptr);
          EXPECT_EQ(to_host<std::byte>(d_out, d_out.bytes()), out) << size;
          EXPECT_EQ(to_host<double>(d_squares, 1).front(), squares) << size;
          finish_gradient_cuda(d_sum.data(), sum_type, nullptr, d_out.data(), out_type, size, nullptr, nullptr,
                               nullptr);
          finish_gradient_host(sum.data(), sum_type, nullptr, out.data(), out_type, size, 1);
          EXPECT_EQ(to_host<std::byte>(d_out, d_out.bytes()), out) << "without a norm, " << size;
        }
}

TEST_F(NormCuda, AccumulatedGradientGivesTheBitsOfTheHost) {
  for (const ElementType part_type : {ElementType::bf16, ElementType::fp32})
    for (const ElementType sum_type : {ElementType::bf16, ElementType::fp32})
      for (const bool first : {true, false}) {
        const auto part = encoded(random_patterns("part", 5003, false), part_type);
        auto sum = encoded(random_patterns("sum", 5003, false), sum_type);
        const DeviceMemory d_part = to_device(part), d_sum = to_device(sum);
        accumulate_host(part.data(), part_type, sum.data(), sum_type, first, 5003, 1);
        accumulate_cuda(d_part.data(), part_type, d_sum.data(), sum_type, first, 5003, nullptr);
        EXPECT_EQ(to_host<std::byte>(d_sum, d_sum.bytes()), sum);
      }
}

TEST_F(NormCuda, StepScalarsGiveTheBitsOfTheHost) {
  const std::vector<double> partials = {1.0 / 3, 2e-7, 4.5, 1e3};
  double total = 0;
  for (const double partial : partials) total += partial;
  const DeviceMemory device = to_device(partials);
  std::vector<const double*> places;
  for (std::size_t i = 0; i < partials.size(); ++i) places.push_back(device.as<double>() + i);
  DeviceMemory out(sizeof(StepScalars));
  const AdamHyper hyper;
  step_scalars_cuda(make_step_scalars(hyper, 5, 0, true), hyper.max_norm, places.data(), 4, nullptr,
                    out.as<StepScalars>(), nullptr);
  const StepScalars expected = make_step_scalars(hyper, 5, total, true);
  const auto actual = to_host<StepScalars>(out, 1).front();
  EXPECT_EQ(std::memcmp(&actual, &expected, sizeof expected), 0);
  EXPECT_EQ(actual.norm, std::sqrt(total));
}

}  // namespace
}  // namespace penstock::exec
