#include "exec/data/file_kind.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "exec/data/utf8.h"

namespace penstock::exec {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kTextPerControl = 32;  // bytes of text for each control character that no text needs

constexpr FileKind kBinary{"binary (zero bytes)", ""};
constexpr FileKind kBinaryBehindText{"text at first, then binary (zero bytes)", ""};
constexpr FileKind kControls{"binary (control characters)", ""};
constexpr FileKind kSafetensors{"tensors (safetensors)", ""};
constexpr FileKind kUtf32{"UTF-32 text", "iconv -f UTF-32 -t UTF-8 {0} > {1}"};
constexpr FileKind kUtf32Little{"UTF-32 text without a byte order mark", "iconv -f UTF-32LE -t UTF-8 {0} > {1}"};
constexpr FileKind kUtf32Big{"UTF-32 text without a byte order mark", "iconv -f UTF-32BE -t UTF-8 {0} > {1}"};
constexpr FileKind kUtf16{"UTF-16 text", "iconv -f UTF-16 -t UTF-8 {0} > {1}"};
constexpr FileKind kUtf16Little{"UTF-16 text without a byte order mark", "iconv -f UTF-16LE -t UTF-8 {0} > {1}"};
constexpr FileKind kUtf16Big{"UTF-16 text without a byte order mark", "iconv -f UTF-16BE -t UTF-8 {0} > {1}"};

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  FileKind kind;
};

/// No text begins so, even where such a file has not one zero byte.
constexpr Magic kNeverText[] = {
    {0, "\x1f\x8b\x08"sv, {"gzip-compressed", "gunzip -c {0} > {1}"}},
    {0, "\x1f\x9d"sv, {"compressed (.Z)", "gunzip -c {0} > {1}"}},
    {4, "1AY&SY"sv, {"bzip2-compressed", "bunzip2 -c {0} > {1}"}},
    {0, "\xfd\x37zXZ\0"sv, {"xz-compressed", "xz -dc {0} > {1}"}},
    {0, "\x28\xb5\x2f\xfd"sv, {"zstd-compressed", "zstd -dc {0} > {1}"}},
    {0, "\x50\x2a\x4d\x18"sv, {"zstd-compressed", "zstd -dc {0} > {1}"}},  // a frame to be skipped comes first
    {0, "\x04\x22\x4d\x18"sv, {"lz4-compressed", "lz4 -dc {0} > {1}"}},
    {0, "LZIP\x01"sv, {"lzip-compressed", "lzip -dc {0} > {1}"}},
    {30, "[Content_Types].xml"sv, {"an Office document", "soffice --headless --convert-to txt:Text {0}"}},
    {30, "mimetypeapplication/epub"sv, {"an e-book (epub)", "pandoc -t plain -o {1} {0}"}},
    {0, "PK\x03\x04"sv, {"a zip archive (as docx, xlsx, epub, npz and torch files are)", "unzip {0}"}},
    {0, "PK\x05\x06"sv, {"an empty zip archive", ""}},
    {0, "7z\xbc\xaf\x27\x1c"sv, {"a 7z archive", "7z x {0}"}},
    {0, "Rar!\x1a\x07"sv, {"a rar archive", "unrar x {0}"}},
    {0, "!<arch>\n"sv, {"an ar archive (as libraries and Debian packages are)", ""}},
    {0, "%PDF-"sv, {"a PDF", "pdftotext {0} {1}"}},
    {0,
     "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv,
     {"an Office document of before 2007", "soffice --headless --convert-to txt:Text {0}"}},
    {0, "\x89PNG\r\n\x1a\n"sv, {"an image (PNG)", ""}},
    {0, "\xff\xd8\xff"sv, {"an image (JPEG)", ""}},
    {0, "\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", ""}},
    {0, "\x93NUMPY"sv, {"a NumPy array", ""}},
    {0, "Obj\x01"sv, {"an Avro file", ""}},
    {0,
     "\x7f"
     "ELF"sv,
     {"a program or library (ELF)", ""}},
    {0, "version https://git-lfs.github.com/spec/"sv, {"a Git LFS pointer, not the file itself", "git lfs pull"}},
    {0, "/annex/objects/"sv, {"a git-annex pointer, not the file itself", "git annex get {0}"}},
};

/// Names for what is known not to be text.
constexpr Magic kBinaries[] = {
    {257, "ustar"sv, {"a tar archive", "tar -xf {0}"}},
    {0, "SQLite format 3\0"sv, {"an SQLite database", "sqlite3 {0} .dump > {1}"}},
    {0, "PAR1"sv, {"a Parquet file", ""}},
    {0, "ARROW1"sv, {"an Arrow file", ""}},
    {0, "ORC"sv, {"an ORC file", ""}},
    {0, "GGUF"sv, {"weights (GGUF)", ""}},
    {0, "\x80\x02"sv, {"a Python pickle", ""}},
    {0, "\x80\x03"sv, {"a Python pickle", ""}},
    {0, "\x80\x04"sv, {"a Python pickle", ""}},
    {0, "\x80\x05"sv, {"a Python pickle", ""}},
    {0, "GIF8"sv, {"an image (GIF)", ""}},
    {0, "BM"sv, {"an image (BMP)", ""}},
    {0, "II*\0"sv, {"an image (TIFF)", ""}},
    {0, "MM\0*"sv, {"an image (TIFF)", ""}},
    {0, "RIFF"sv, {"an image, sound or film (RIFF)", ""}},
    {0, "OggS"sv, {"sound (Ogg)", ""}},
    {0, "fLaC"sv, {"sound (FLAC)", ""}},
    {0, "ID3"sv, {"sound (MP3)", ""}},
    {4, "ftyp"sv, {"a film (MP4)", ""}},
    {0, "\x1a\x45\xdf\xa3"sv, {"a film (Matroska)", ""}},
    {0, "MZ"sv, {"a program or library (Windows)", ""}},
    {0, "\xca\xfe\xba\xbe"sv, {"a program (Java or macOS)", ""}},
    {0, "\xcf\xfa\xed\xfe"sv, {"a program (macOS)", ""}},
};

template <std::size_t N>
const FileKind* found(const Magic (&table)[N], std::string_view head) {
  for (const Magic& magic : table)
    if (head.size() > magic.offset && head.substr(magic.offset).starts_with(magic.bytes)) return &magic.kind;
  return nullptr;
}

std::uint32_t byte_at(std::string_view bytes, std::size_t i) { return static_cast<unsigned char>(bytes[i]); }

/// As `file` has it, whose text may also have bell, backspace, form feed and escape; and the end of file of DOS.
constexpr bool is_control(unsigned char byte) {
  return byte == 0x7f || (byte < 0x20 && !(byte >= 0x07 && byte <= 0x0d) && byte != 0x1a && byte != 0x1b);
}

bool many_controls(std::string_view bytes) {
  const auto count = static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char c) { return is_control(static_cast<unsigned char>(c)); }));
  return count * kTextPerControl > bytes.size();
}

/// Of a text; zero and what Unicode will never assign are none.
bool is_text_character(std::uint32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\f' || code == '\r';
  return code <= 0x10FFFF && (code & 0xFFFE) != 0xFFFE && !(code >= 0xD800 && code < 0xE000) &&
         !(code >= 0xFDD0 && code < 0xFDF0);
}

bool is_utf32(std::string_view head, bool little) {
  if (head.size() < 8) return false;
  for (std::size_t i = 0; i + 4 <= head.size(); i += 4) {
    std::uint32_t code = 0;
    for (std::size_t j = 0; j < 4; ++j) code |= byte_at(head, i + j) << (little ? 8 * j : 24 - 8 * j);
    if (!is_text_character(code)) return false;
  }
  return true;
}

/// Text but for zero bytes here and there: read as pairs of bytes it can pass for Chinese.
bool is_text_with_zeros(std::string_view head) {
  std::string rest(head);
  std::erase(rest, '\0');
  return !many_controls(rest) && valid_utf8_bytes(rest) + 3 >= rest.size();
}

bool is_utf16(std::string_view head, bool little) {
  std::size_t units = 0, small = 0;  // ASCII, if only spaces and ends of lines: their upper byte is zero
  bool second = false;               // of a surrogate pair
  for (std::size_t i = 0; i + 2 <= head.size(); i += 2, ++units) {
    const std::uint32_t code = byte_at(head, little ? i + 1 : i) << 8 | byte_at(head, little ? i : i + 1);
    const bool low_surrogate = code >= 0xDC00 && code < 0xE000;
    if (low_surrogate != second) return false;
    second = code >= 0xD800 && code < 0xDC00;
    if (!second && !low_surrogate && !is_text_character(code)) return false;
    small += code < 0x80 ? 1 : 0;
  }
  return small > 0 && (2 * small >= units || !is_text_with_zeros(head));
}

const FileKind* unicode_kind(std::string_view head) {
  if (head.starts_with("\xff\xfe\0\0"sv) || head.starts_with("\0\0\xfe\xff"sv)) return &kUtf32;
  if (head.starts_with("\xff\xfe"sv) || head.starts_with("\xfe\xff"sv)) return &kUtf16;
  if (head.find('\0') == std::string_view::npos) return nullptr;
  if (is_utf32(head, true)) return &kUtf32Little;
  if (is_utf32(head, false)) return &kUtf32Big;
  if (is_utf16(head, true)) return &kUtf16Little;
  if (is_utf16(head, false)) return &kUtf16Big;
  return nullptr;
}

/// The length of a JSON object, in 8 bytes of which the upper ones are zero, and the object.
bool is_safetensors(std::string_view head) { return head.size() > 8 && head.substr(5, 4) == "\0\0\0{"sv; }

}  // namespace

const FileKind* kind_unless_text(std::string_view head) {
  if (const FileKind* kind = found(kNeverText, head)) return kind;
  if (const FileKind* kind = unicode_kind(head)) return kind;
  const bool zeros = head.find('\0') != std::string_view::npos;
  if (!zeros && !many_controls(head)) return nullptr;
  if (is_safetensors(head)) return &kSafetensors;
  if (const FileKind* kind = found(kBinaries, head)) return kind;
  return zeros ? &kBinary : &kControls;
}

const FileKind& binary_behind_text() { return kBinaryBehindText; }

}  // namespace penstock::exec
