// Safetensors files (https://huggingface.co/docs/safetensors): 8 bytes little-endian header length, JSON header with
// {name: {dtype, shape, data_offsets}}, then the data. Files are read and written piece by piece; nothing is held
// whole. Those written here also have a checksum of each tensor in the header's "__metadata__", which other readers
// pass over: "crc32.NAME" is zlib's CRC-32 of the tensor's bytes, as 8 hexadecimal digits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/files.h"

namespace penstock::exec {

enum class StoredType { f32, bf16, f16 };
inline std::int64_t stored_bytes(StoredType type) { return type == StoredType::f32 ? 4 : 2; }

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

/// Thread safety: reads may run side by side.
class SafetensorsFile {
 public:
  /// Throws InputError if the file is missing or not a safetensors file: header longer than the file, offsets outside
  /// the data or not what dtype and shape need. Tensors of a dtype other than F32, BF16 and F16 are passed over.
  explicit SafetensorsFile(const std::filesystem::path& path);

  bool has(const std::string& name) const { return tensors_.contains(name); }
  std::vector<std::string> names() const;
  /// Reads every tensor that has a checksum, on all cores. Throws InputError that names a tensor whose bytes have
  /// another one. Files without checksums (older ones, other programs') pass unread.
  void verify() const;
  /// Elements [first, first + out.size()) of the tensor, widened. Throws InputError if there is no such tensor or it
  /// does not have `elements` elements.
  void read(const std::string& name, std::int64_t elements, std::int64_t first, std::span<float> out) const;

 private:
  struct Tensor {
    StoredType type = StoredType::f32;
    std::int64_t offset = 0;  // from the start of the file
    std::int64_t elements = 0;
    std::optional<std::uint32_t> checksum;
  };
  std::filesystem::path path_;
  std::unique_ptr<FileHandle> file_;
  std::map<std::string, Tensor> tensors_;
};

/// One file, or several behind an index ("model.safetensors.index.json").
class SafetensorsSet {
 public:
  /// `path`: a .safetensors file, an index, or a folder that has either under Hugging Face's names.
  explicit SafetensorsSet(const std::filesystem::path& path);

  bool has(const std::string& name) const { return where_.contains(name); }
  /// As SafetensorsFile::verify, file by file.
  void verify() const;
  void read(const std::string& name, std::int64_t elements, std::int64_t first, std::span<float> out) const;

 private:
  void add(const std::filesystem::path& file);

  std::filesystem::path path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, std::size_t> where_;
};

/// Writes one file, whole or not at all: declare all tensors, then hand over their bytes in that order.
class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    StoredType type = StoredType::f32;
    std::vector<std::int64_t> shape;
  };
  /// Throws std::runtime_error with the system's reason, as `append` and `close` do.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<Entry>& entries);
  void append(std::span<const std::byte> bytes);
  /// Puts the checksums into the header and the file in its place. Throws std::logic_error if not all declared bytes
  /// came.
  void close();

 private:
  struct Tensor {
    Entry entry;
    std::int64_t bytes = 0, missing = 0;
    std::uint32_t checksum = 0;  // of the bytes that came
  };
  std::string header() const;

  OutputFile file_;
  std::vector<Tensor> tensors_;
  std::size_t next_ = 0;  // tensor that the next byte belongs to
};

/// IEEE half precision, widened exactly.
float widen_f16(std::uint16_t bits);

}  // namespace penstock::exec
