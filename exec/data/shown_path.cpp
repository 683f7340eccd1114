#include "exec/data/shown_path.h"

#include <fmt/format.h>

#include <string_view>

#include "exec/data/utf8.h"

namespace penstock::exec {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/+@%:,=").find(c) != std::string_view::npos;
}

/// A character that prints as itself: neither a control character (C0, DEL, C1) nor one that turns the direction of
/// what follows.
bool is_printable(std::string_view character) {
  if (character.size() == 1) return character[0] >= 0x20 && character[0] < 0x7f;
  const bool c1 = character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
  const bool direction = character >= "\u2028" && character <= "\u202E";
  const bool isolate = character >= "\u2066" && character <= "\u2069";
  return !c1 && !direction && !isolate;
}

std::string escaped(std::string_view character) {
  if (character == "\n") return "\\n";
  if (character == "\t") return "\\t";
  if (character == "\\" || character == "'") return fmt::format("\\{}", character);
  if (is_printable(character)) return std::string(character);
  std::string text;
  for (const char c : character) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

std::string shown_path(const std::filesystem::path& path) {
  const std::string& name = path.native();
  bool plain = !name.empty(), quotable = true;
  std::string in_quotes;
  for (std::size_t at = 0; at < name.size();) {
    const std::string_view rest = std::string_view(name).substr(at);
    const std::size_t length = utf8_length(rest);
    const std::string_view character = rest.substr(0, length == 0 ? 1 : length);
    const bool printable = length > 0 && is_printable(character);
    plain = plain && printable && (length > 1 || is_plain(character[0]));
    quotable = quotable && printable && character != "'";
    in_quotes += length == 0 ? fmt::format("\\x{:02x}", static_cast<unsigned char>(character[0])) : escaped(character);
    at += character.size();
  }
  if (plain) return name;
  return quotable ? fmt::format("'{}'", name) : fmt::format("$'{}'", in_quotes);
}

}  // namespace penstock::exec
