#include "exec/checkpoint/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::exec {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";  // git-lfs, docs/spec.md
constexpr std::size_t kShownText = 60;

struct Magic {
  std::size_t at;
  std::string_view bytes;
  std::string_view what;
};

constexpr std::string_view kUnpack = "is a compressed archive; unpack it and name what is in it";
constexpr std::string_view kOtherFramework =
    "; only safetensors are read: take the model's .safetensors files, or save it anew as such";

/// The marks are those that the formats' own documents give (and file(1) knows).
constexpr Magic kMagics[] = {{0, "GGUF", "is a GGUF file, llama.cpp's format, mostly of quantised weights"},
                             {0, "\x89HDF\r\n", "is an HDF5 file, as TensorFlow and Keras write"},
                             {0, "\x93NUMPY", "is a NumPy array"},
                             {0, "ggml", "is a GGML file, an old format of llama.cpp"},
                             {0, "lmgg", "is a GGML file, an old format of llama.cpp"},
                             {0, "tjgg", "is a GGML file, an old format of llama.cpp"}};
constexpr Magic kArchives[] = {{0, "\x1f\x8b", ""},
                               {0, "BZh", ""},
                               {0,
                                std::string_view("\xfd"
                                                 "7zXZ\0",
                                                 6),
                                ""},
                               {0, "\x28\xb5\x2f\xfd", ""},
                               {0, "7z\xbc\xaf\x27", ""},
                               {257, "ustar", ""}};

bool has(std::string_view head, const Magic& magic) {
  return head.size() >= magic.at && head.substr(magic.at).starts_with(magic.bytes);
}

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
}

/// The start of a text on one line, for a message.
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
  for (const Magic& magic : kMagics)
    if (has(head, magic)) return std::string(magic.what) + std::string(kOtherFramework);
  for (const Magic& magic : kArchives)
    if (has(head, magic)) return std::string(kUnpack);
  if (head.size() >= 8 && head.find_first_not_of('\0') == std::string_view::npos)
    return "begins with zeros: a download reserved the space and did not finish, or a disk lost it; get it again";
  return is_text(head) ? foreign_text(head) : "";
}

}  // namespace penstock::exec
