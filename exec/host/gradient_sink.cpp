#include "exec/host/gradient_sink.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "exec/numerics/bf16.h"

namespace penstock::exec {

void BoundGradient::add(std::int64_t offset, const float* part, std::int64_t count) {
  covered_.emplace_back(offset, offset + count);
  if (type_ == ElementType::fp32) {
    float* const sum = static_cast<float*>(gradient_) + offset;
    if (accumulates_)
      for (std::int64_t i = 0; i < count; ++i) sum[i] = sum[i] + part[i];
    else
      std::copy_n(part, count, sum);
  } else {
    std::uint16_t* const sum = static_cast<std::uint16_t*>(gradient_) + offset;
    if (accumulates_)
      for (std::int64_t i = 0; i < count; ++i) sum[i] = round_to_bf16(widen_bf16(sum[i]) + part[i]);
    else
      for (std::int64_t i = 0; i < count; ++i) sum[i] = round_to_bf16(part[i]);
  }
}

void BoundGradient::finish() {
  if (accumulates_) return;
  std::sort(covered_.begin(), covered_.end());
  covered_.emplace_back(elements_, elements_);
  const auto bytes = static_cast<std::size_t>(element_bytes(type_));
  std::int64_t end = 0;
  for (const auto& [begin, next_end] : covered_) {
    if (begin > end)
      std::memset(static_cast<std::byte*>(gradient_) + static_cast<std::size_t>(end) * bytes, 0,
                  static_cast<std::size_t>(begin - end) * bytes);
    end = std::max(end, next_end);
  }
}

}  // namespace penstock::exec
