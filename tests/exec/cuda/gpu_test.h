// What the tests of the CUDA kernels share: skipping without a device, random tensors, errors in words.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/cuda/device_memory.h"
#include "exec/numerics/bf16.h"
#include "shared/random.h"

namespace penstock::exec {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_device(); !reason.empty()) GTEST_SKIP() << "needs a CUDA device: " << reason;
  }
};

template <class T>
class GpuTestWith : public ::testing::TestWithParam<T> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_device(); !reason.empty()) GTEST_SKIP() << "needs a CUDA device: " << reason;
  }
};

inline std::vector<std::uint16_t> random_bf16(const std::string& name, std::int64_t count, float mean,
                                              float deviation) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  const std::uint64_t key = random_key(1, name);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = round_to_bf16(mean + deviation * random_normal(key, i));
  return values;
}

template <class T>
DeviceMemory to_device(const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  DeviceMemory memory(bytes);
  if (bytes > 0) memory.upload(values.data(), bytes);
  return memory;
}

template <class T>
std::vector<T> to_host(const DeviceMemory& memory, std::int64_t count, std::int64_t offset_bytes = 0) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count > 0) memory.download(values.data(), count * static_cast<std::int64_t>(sizeof(T)), offset_bytes);
  return values;
}

inline double value_of(std::uint16_t value) { return static_cast<double>(widen_bf16(value)); }
inline double value_of(float value) { return static_cast<double>(value); }
inline double value_of(double value) { return value; }

/// ||actual - expected|| / ||expected||; NaN if either holds one, so that it never passes.
template <class T>
double relative_error(const std::vector<T>& actual, const std::vector<T>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = value_of(actual[i]) - value_of(expected[i]);
    difference += d * d;
    size += value_of(expected[i]) * value_of(expected[i]);
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

}  // namespace penstock::exec
