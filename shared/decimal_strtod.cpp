// For standard libraries without std::from_chars of a double. strtod reads less narrowly (blanks, signs, hexadecimal), so it
// is given exactly the digits. REQUIRES: the C locale, which a program has that never sets another.
#include <cmath>
#include <cstdlib>
#include <string>

#include "shared/decimal.h"

namespace penstock {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits_end(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

/// Where the number ends; 0: there is none.
std::size_t number_end(std::string_view text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  std::size_t end = digits_end(text, sign);
  bool has_digits = end > sign;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = digits_end(text, end + 1);
    has_digits = has_digits || fraction > end + 1;
    end = fraction;
  }
  if (!has_digits) return 0;
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const std::size_t signed_at = end + 1;
    const bool is_signed = signed_at < text.size() && (text[signed_at] == '+' || text[signed_at] == '-');
    const std::size_t exponent = signed_at + (is_signed ? 1 : 0);
    if (digits_end(text, exponent) > exponent) end = digits_end(text, exponent);
  }
  return end;
}

}  // namespace

std::from_chars_result decimal_from_chars(std::string_view text, double& value) {
  const std::string number(text.substr(0, number_end(text)));
  if (number.empty()) return {text.data(), std::errc::invalid_argument};
  const char* end = text.data() + number.size();
  const double read = std::strtod(number.c_str(), nullptr);
  const std::size_t exponent = number.find_first_of("eE");
  const bool is_zero = number.substr(0, exponent).find_first_of("123456789") == std::string::npos;
  if (std::isinf(read) || (read == 0 && !is_zero)) return {end, std::errc::result_out_of_range};
  value = read;
  return {end, std::errc{}};
}

}  // namespace penstock
