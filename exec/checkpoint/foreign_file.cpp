#include "exec/checkpoint/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/data/file_kind.h"

namespace penstock::exec {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";  // git-lfs, docs/spec.md
constexpr std::size_t kShownText = 60;

/// The start of a text on one line.
std::string first_words(std::string_view text) {
  std::string words(text.substr(0, kShownText));
  for (char& c : words)
    if (c < 0x20 || c == 0x7f) c = c == '\n' || c == '\t' ? ' ' : '?';
  return words;
}

/// "size N" of a pointer.
std::string pointed_size(std::string_view head) {
  const std::size_t at = head.find("\nsize ");
  if (at == std::string_view::npos) return "";
  std::string_view digits = head.substr(at + 6);
  digits = digits.substr(0, std::min(digits.find_first_not_of("0123456789"), std::size_t{19}));
  return digits.empty() ? "" : fmt::format(" of {} bytes", digits);
}

std::string foreign_text(std::string_view head) {
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return "is blank text; the download failed: get it again";
  if (head[start] == '<')
    return "is a web page or an error in XML, not weights; the download failed or needs a login: get it again";
  return fmt::format("is text that begins \"{}\", not weights; if that is a server's answer, get the file again",
                     first_words(head.substr(start)));
}

}  // namespace

std::string foreign_file(std::string_view head) {
  if (head.empty()) return "is empty; the download or copy failed: get it again";
  if (head.starts_with(kLfsPointer))
    return fmt::format("is a Git LFS pointer, which stands for a file{}; run `git lfs pull` in its folder",
                       pointed_size(head));
  if (head.starts_with("PK\x03\x04"))
    return fmt::format(
        "is a zip archive, as PyTorch writes (.bin, .pt, .pth): a pickle, which can run code when it is read; {}",
        kConvertPickle);
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return fmt::format("is a pickle, as old versions of PyTorch write, which can run code when it is read; {}",
                       kConvertPickle);
  if (head.find_first_not_of('\0') == std::string_view::npos)
    return "begins with zeros: a download reserved the space and did not finish, or a disk lost it; get it again";
  if (const FileKind* kind = kind_unless_text(head))
    return fmt::format("is no safetensors file but {}; take the model's .safetensors files, unpacked", kind->what);
  return foreign_text(head);
}

}  // namespace penstock::exec
