// Decimal numbers in text, the same on every platform and in every locale.
#pragma once

#include <charconv>
#include <string_view>

namespace penstock {

/// The number at the start of `text`, as std::from_chars reads one: digits, a point, an exponent; no hexadecimal. What it
/// returns is what that returns. A function of its own because libc++ has std::from_chars for whole numbers only: CMake
/// takes decimal_from_chars.cpp or decimal_strtod.cpp, whichever the standard library can compile.
std::from_chars_result decimal_from_chars(std::string_view text, double& value);

}  // namespace penstock
