#include "exec/checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

#include "exec/runtime/bf16.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxHeaderBytes = std::int64_t{100} << 20;  // as the format's own library
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

void read_exactly(int fd, std::int64_t offset, void* to, std::int64_t bytes, const fs::path& path) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd, at, static_cast<std::size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw InputError(fmt::format("{}: cannot read {} bytes at {}: {}", path.string(), bytes, offset,
                                   got < 0 ? std::strerror(errno) : "the file ends"));
    at += got;
    offset += got;
    bytes -= got;
  }
}

void write_all(int fd, const void* from, std::size_t bytes, const fs::path& path) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t done = write(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0)
      throw std::runtime_error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

const char* type_name(StoredType type) {
  switch (type) {
    case StoredType::f32: return "F32";
    case StoredType::bf16: return "BF16";
    case StoredType::f16: return "F16";
  }
  return "";
}

std::int64_t product(const nlohmann::json& shape, const std::string& place) {
  std::int64_t elements = 1;
  for (const nlohmann::json& size : shape) {
    if (!size.is_number_integer() || size.get<std::int64_t>() < 0 || size.get<std::int64_t>() > kMaxBytes)
      throw InputError(fmt::format("{}: a shape is a list of sizes, found {}", place, shown(shape)));
    const auto n = size.get<std::int64_t>();
    if (n != 0 && elements > kMaxBytes / n) throw InputError(fmt::format("{}: absurd shape {}", place, shown(shape)));
    elements *= n;
  }
  return elements;
}

void widen(StoredType type, const std::vector<std::byte>& raw, std::span<float> out) {
  if (type == StoredType::f32) {
    std::memcpy(out.data(), raw.data(), raw.size());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + 2 * i, 2);
    out[i] = type == StoredType::bf16 ? widen_bf16(bits) : widen_f16(bits);
  }
}

}  // namespace

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const int exponent = (bits >> 10) & 0x1F;
  const std::uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 31 ? 0xFFu : static_cast<std::uint32_t>(exponent - 15 + 127);
  return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
}

SafetensorsFile::SafetensorsFile(const fs::path& path)
    : path_(path), file_(std::make_unique<FileHandle>(open(path.c_str(), O_RDONLY | O_CLOEXEC))) {
  if (file_->get() < 0) throw InputError(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  struct stat status {};
  if (fstat(file_->get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: not a regular file", path.string()));
  const std::int64_t size = status.st_size;
  std::uint64_t header = 0;
  if (size < 8) throw InputError(fmt::format("{}: not a safetensors file: it has only {} bytes", path.string(), size));
  read_exactly(file_->get(), 0, &header, 8, path);
  if (header > static_cast<std::uint64_t>(std::min(size - 8, kMaxHeaderBytes)))
    throw InputError(fmt::format("{}: not a safetensors file: its header would have {} bytes, the file has {}",
                                 path.string(), header, size));
  std::string text(header, '\0');
  read_exactly(file_->get(), 8, text.data(), static_cast<std::int64_t>(header), path);
  const std::int64_t data = 8 + static_cast<std::int64_t>(header);

  const nlohmann::json json = parse_json(text, path.string());
  if (!json.is_object()) throw InputError(fmt::format("{}: the header is not a JSON object", path.string()));
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    JsonObject entry(value, path.string() + ": " + name);
    const std::string dtype = entry.text("dtype");
    const nlohmann::json& offsets = entry.array("data_offsets");
    const std::int64_t elements = product(entry.array("shape"), entry.place("shape"));
    entry.finish();
    Tensor tensor{StoredType::f32, 0, elements};
    if (dtype == "BF16")
      tensor.type = StoredType::bf16;
    else if (dtype == "F16")
      tensor.type = StoredType::f16;
    else if (dtype != "F32")
      continue;
    if (offsets.size() != 2 || !offsets[0].is_number_integer() || !offsets[1].is_number_integer())
      entry.fail("data_offsets", "must be [begin, end], found " + shown(offsets));
    const auto begin = offsets[0].get<std::int64_t>(), end = offsets[1].get<std::int64_t>();
    if (begin < 0 || end < begin || end > size - data)
      entry.fail("data_offsets", fmt::format("[{}, {}] lies outside the {} bytes of data", begin, end, size - data));
    if (end - begin != elements * stored_bytes(tensor.type))
      entry.fail("data_offsets",
                 fmt::format("{} bytes, dtype and shape need {}", end - begin, elements * stored_bytes(tensor.type)));
    tensor.offset = data + begin;
    tensors_.emplace(name, tensor);
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

void SafetensorsFile::read(const std::string& name, std::int64_t elements, std::int64_t first,
                           std::span<float> out) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw InputError(fmt::format("{}: has no tensor \"{}\" of type F32, BF16 or F16", path_.string(), name));
  const Tensor& tensor = found->second;
  if (tensor.elements != elements)
    throw InputError(
        fmt::format("{}: {} has {} elements, the model needs {}", path_.string(), name, tensor.elements, elements));
  if (first < 0 || first + static_cast<std::int64_t>(out.size()) > elements) throw std::out_of_range(name);
  std::vector<std::byte> raw(out.size() * static_cast<std::size_t>(stored_bytes(tensor.type)));
  read_exactly(file_->get(), tensor.offset + first * stored_bytes(tensor.type), raw.data(),
               static_cast<std::int64_t>(raw.size()), path_);
  widen(tensor.type, raw, out);
}

SafetensorsSet::SafetensorsSet(const fs::path& path) : path_(path) {
  fs::path start = path;
  if (fs::is_directory(path)) {
    start = path / "model.safetensors";
    if (!fs::exists(start)) start = path / "model.safetensors.index.json";
    if (!fs::exists(start))
      throw InputError(
          fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json", path.string()));
  }
  if (start.extension() != ".json") {
    add(start);
    return;
  }
  const nlohmann::json index = read_json_file(start, kMaxHeaderBytes);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw InputError(fmt::format("{}: an index has an object \"weight_map\"", start.string()));
  std::set<std::string> shards;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() || fs::path(file.get<std::string>()).has_parent_path())
      throw InputError(fmt::format("{}: weight_map.{} must name a file beside the index, found {}", start.string(),
                                   name, shown(file)));
    shards.insert(file.get<std::string>());
  }
  for (const std::string& shard : shards) add(start.parent_path() / shard);
}

void SafetensorsSet::add(const fs::path& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const std::string& name : files_.back()->names()) where_.emplace(name, files_.size() - 1);
}

void SafetensorsSet::read(const std::string& name, std::int64_t elements, std::int64_t first,
                          std::span<float> out) const {
  const auto found = where_.find(name);
  if (found == where_.end())
    throw InputError(fmt::format("{}: has no tensor \"{}\" of type F32, BF16 or F16", path_.string(), name));
  files_[found->second]->read(name, elements, first, out);
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, const std::vector<Entry>& entries)
    : path_(path),
      file_(std::make_unique<FileHandle>(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666))) {
  if (file_->get() < 0)
    throw std::runtime_error(fmt::format("{}: cannot be created: {}", path.string(), std::strerror(errno)));
  nlohmann::ordered_json header;
  for (const Entry& entry : entries) {
    std::int64_t bytes = stored_bytes(entry.type);
    for (const std::int64_t size : entry.shape) bytes *= size;
    header[entry.name] = {
        {"dtype", type_name(entry.type)}, {"shape", entry.shape}, {"data_offsets", {missing_, missing_ + bytes}}};
    missing_ += bytes;
  }
  std::string text = entries.empty() ? "{}" : header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8
  const std::uint64_t length = text.size();
  write_all(file_->get(), &length, 8, path_);
  write_all(file_->get(), text.data(), text.size(), path_);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  missing_ -= static_cast<std::int64_t>(bytes.size());
  if (missing_ < 0) throw std::logic_error("more bytes than declared");
  write_all(file_->get(), bytes.data(), bytes.size(), path_);
}

void SafetensorsWriter::close() {
  if (missing_ != 0) throw std::logic_error("fewer bytes than declared");
  if (fsync(file_->get()) != 0)
    throw std::runtime_error(fmt::format("{}: cannot be written: {}", path_.string(), std::strerror(errno)));
  file_.reset();
}

}  // namespace penstock::exec
