// Safetensors files (https://huggingface.co/docs/safetensors): 8 bytes little-endian header length, JSON header with
// {name: {dtype, shape, data_offsets}}, then the data, of which every byte belongs to one tensor. Files are read and
// written piece by piece; nothing is held whole. Those written here also have a checksum of each tensor in the header's
// "__metadata__", which other readers pass over: "crc32.NAME" is zlib's CRC-32 of the tensor's bytes, as 8 hexadecimal
// digits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/files.h"

namespace penstock::exec {

enum class StoredType { f32, bf16, f16 };
inline std::int64_t stored_bytes(StoredType type) { return type == StoredType::f32 ? 4 : 2; }
/// "F32", "BF16", "F16".
const char* type_name(StoredType type);

using Shape = std::vector<std::int64_t>;
/// "[40, 16]".
std::string shape_text(const Shape& shape);
/// A tensor's name out of a file, for messages: what a terminal might take for a command is replaced, and it is cut.
std::string shown_name(std::string_view name);

/// An open file; closed when it goes.
class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// What a writer is to write, and a reader may demand.
struct TensorEntry {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape;
};

/// A tensor as a file's header describes it.
struct StoredTensor {
  std::string dtype;               // one of the format's, of which those of StoredType can be read
  std::optional<StoredType> type;  // nothing: cannot be read
  Shape shape;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  // from the start of the file
  std::int64_t bytes = 0;
  std::optional<std::uint32_t> checksum;
};
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// Tells a file from every other: its header has the checksums of all its tensors, where their bytes are checked.
struct FileIdentity {
  std::int64_t bytes = 0;
  std::uint32_t header_checksum = 0;  // CRC-32 of the header

  bool operator==(const FileIdentity&) const = default;
};

/// Thread safety: reads may run side by side.
class SafetensorsFile {
 public:
  /// Throws InputError if the file is missing, not a regular file, or not a safetensors file (then with what it is, if
  /// that can be told); if it was cut off; if tensors overlap, or bytes of the data belong to none; if a name stands
  /// twice, a dtype is none of the format's, or offsets are not what dtype and shape need.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const StoredTensors& tensors() const { return tensors_; }
  const FileIdentity& identity() const { return identity_; }
  /// nullptr if there is none of that name.
  const StoredTensor* find(std::string_view name) const;
  /// Throws InputError unless the file has these tensors in these types and shapes, and no others: names the tensor,
  /// what was found and what should be there.
  void require_exactly(std::span<const TensorEntry> entries) const;
  /// Reads every tensor that has a checksum, on all cores. Throws InputError that names a tensor whose bytes have
  /// another one. Files without checksums (older ones, other programs') pass unread.
  void verify() const;
  /// Elements [first, first + out.size()) of the tensor in row-major order, widened. Throws InputError if there is no
  /// such tensor or its dtype is none of StoredType, std::out_of_range if it has fewer elements.
  void read(std::string_view name, std::int64_t first, std::span<float> out) const;

 private:
  void read_header(std::int64_t size);

  std::filesystem::path path_;
  FileHandle file_;
  FileIdentity identity_;
  StoredTensors tensors_;
};

struct WrittenTensor {
  TensorEntry entry;
  std::int64_t bytes = 0, missing = 0;
  std::uint32_t checksum = 0;  // of the bytes that came
};

/// Writes one file, whole or not at all: declare all tensors, then hand over their bytes in that order.
class SafetensorsWriter {
 public:
  using Entry = TensorEntry;
  /// Throws std::runtime_error with the system's reason, as `append` and `close` do.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<Entry>& entries,
                    FileCalls& calls = system_calls());
  void append(std::span<const std::byte> bytes);
  /// Puts the checksums into the header and the file in its place. Throws std::logic_error if not all declared bytes
  /// came.
  FileIdentity close();

 private:
  OutputFile file_;
  std::vector<WrittenTensor> tensors_;
  std::size_t next_ = 0;  // tensor that the next byte belongs to
};

/// Of the file that a SafetensorsWriter writes, header and all.
std::int64_t safetensors_bytes(const std::vector<TensorEntry>& entries);

/// IEEE half precision, widened exactly.
float widen_f16(std::uint16_t bits);

}  // namespace penstock::exec
