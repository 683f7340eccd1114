// UTF-8, as far as names and kinds of files need it.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::exec {

/// Length of the well-formed character that `bytes` begins with; 0 if it does not begin with one. REQUIRES: not empty.
std::size_t utf8_length(std::string_view bytes);

/// How many bytes there are before the first that belongs to no well-formed character.
std::size_t valid_utf8_bytes(std::string_view bytes);

}  // namespace penstock::exec
