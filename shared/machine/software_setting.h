// How another system was configured: one setting of a software file ([settings]) or of a scenario ([software]).
#pragma once

#include <cstdint>

namespace penstock {

struct SoftwareSetting {
  std::int64_t value = 0;  // of a flag: 0 or 1
  bool is_flag = false;
};

}  // namespace penstock
