#include "exec/data/utf8.h"

#include <cstdint>

namespace penstock::exec {

std::size_t utf8_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) -> std::uint32_t { return static_cast<unsigned char>(bytes[i]); };
  const std::uint32_t lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (lead < 0xC2 || length == 0 || bytes.size() < length) return 0;
  std::uint32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (at(i) & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  return surrogate || overlong || code > 0x10FFFF ? 0 : length;
}

std::size_t valid_utf8_bytes(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t length = utf8_length(bytes.substr(done));
    if (length == 0) break;
    done += length;
  }
  return done;
}

}  // namespace penstock::exec
