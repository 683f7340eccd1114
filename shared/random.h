// Counter-based random numbers: a pure function of (key, counter), so that bits depend neither on order nor on threads
// nor on the schedule. The mixer is splitmix64's finalizer (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014), applied to key + counter x golden ratio.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t random64(std::uint64_t key, std::uint64_t counter) {
  return mix64(key + (counter + 1) * 0x9E3779B97F4A7C15u);
}

/// A key of its own for each (seed, name): FNV-1a of the name, mixed with the seed.
constexpr std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return mix64(mix64(seed) ^ hash);
}

/// Uniform in [0, bound): the high half of the 128-bit product; the bias is below bound / 2^64. REQUIRES: bound > 0.
constexpr std::uint64_t random_below(std::uint64_t key, std::uint64_t counter, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(random64(key, counter)) * bound) >> 64);
}

/// Standard normal up to 6 sigma, as the sum of twelve uniform 16-bit numbers (variance 1 to 2^-32): integer arithmetic
/// and one exact conversion, so the bits are the same on every machine, which logarithm and cosine of a C library do
/// not promise.
constexpr float random_normal(std::uint64_t key, std::uint64_t counter) {
  std::int32_t sum = 0;
  for (std::uint64_t word = 0; word < 3; ++word) {
    const std::uint64_t bits = random64(key, counter * 3 + word);
    for (int shift = 0; shift < 64; shift += 16) sum += static_cast<std::int32_t>((bits >> shift) & 0xFFFF);
  }
  // Twelve means of (2^16 - 1) / 2; the doubled difference is odd or even and below 2^21: exact in fp32.
  return static_cast<float>(2 * sum - 12 * 0xFFFF) * (1.0f / 131072.0f);
}

}  // namespace penstock
