#include "shared/decimal.h"

namespace penstock {

std::from_chars_result decimal_from_chars(std::string_view text, double& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value);
}

}  // namespace penstock
