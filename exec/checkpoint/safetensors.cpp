#include "exec/checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "exec/optimizer/thread_team.h"
#include "exec/runtime/bf16.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxHeaderBytes = std::int64_t{100} << 20;  // as the format's own library
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // bytes read at a time to be verified
constexpr std::string_view kChecksum = "crc32.";

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

const char* type_name(StoredType type) {
  switch (type) {
    case StoredType::f32: return "F32";
    case StoredType::bf16: return "BF16";
    case StoredType::f16: return "F16";
  }
  return "";
}

std::uint32_t crc32_of(std::uint32_t before, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Checksums by the names of tensors; empty if the file has none.
std::map<std::string, std::uint32_t> read_checksums(const nlohmann::json& header, const std::string& place) {
  std::map<std::string, std::uint32_t> checksums;
  const auto metadata = header.find("__metadata__");
  if (metadata == header.end() || !metadata->is_object()) return checksums;
  for (const auto& [key, value] : metadata->items()) {
    if (!key.starts_with(kChecksum)) continue;
    const std::string digits = value.is_string() ? value.get<std::string>() : "";
    if (digits.size() != 8 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw InputError(
          fmt::format("{}: __metadata__.{}: a checksum has 8 hexadecimal digits, found {}", place, key, shown(value)));
    checksums[key.substr(kChecksum.size())] = static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
  }
  return checksums;
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
  if (file_->get() < 0)
    throw InputError(fmt::format("{}: cannot be opened: {}", path.string(), why_not_read(path, errno)));
  struct stat status {};
  if (fstat(file_->get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: is not a regular file; name one", path.string()));
  const std::int64_t size = status.st_size;
  std::uint64_t header = 0;
  if (size < 8)
    throw InputError(
        fmt::format("{}: not a safetensors file: it has only {} bytes; take another copy", path.string(), size));
  read_exactly(file_->get(), 0, &header, 8, path);
  if (header > static_cast<std::uint64_t>(std::min(size - 8, kMaxHeaderBytes)))
    throw InputError(
        fmt::format("{}: not a safetensors file: its header would have {} bytes, the file has {}; take another copy",
                    path.string(), header, size));
  std::string text(header, '\0');
  read_exactly(file_->get(), 8, text.data(), static_cast<std::int64_t>(header), path);
  const std::int64_t data = 8 + static_cast<std::int64_t>(header);

  const nlohmann::json json = parse_json(text, path.string());
  if (!json.is_object())
    throw InputError(fmt::format("{}: the header is not a JSON object; take another copy", path.string()));
  const std::map<std::string, std::uint32_t> checksums = read_checksums(json, path.string());
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    JsonObject entry(value, path.string() + ": " + name);
    const std::string dtype = entry.text("dtype");
    const nlohmann::json& offsets = entry.array("data_offsets");
    const std::int64_t elements = product(entry.array("shape"), entry.place("shape"));
    entry.finish();
    Tensor tensor{StoredType::f32, 0, elements, std::nullopt};
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
    if (const auto found = checksums.find(name); found != checksums.end())
      tensor.checksum = found->second;
    else if (!checksums.empty())
      throw InputError(
          fmt::format("{}: {}: has no checksum, though others have: the header is damaged", path.string(), name));
    tensors_.emplace(name, tensor);
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

void SafetensorsFile::verify() const {
  std::vector<std::pair<std::string_view, const Tensor*>> checked;
  for (const auto& [name, tensor] : tensors_)
    if (tensor.checksum) checked.emplace_back(name, &tensor);
  const auto verify_one = [&](std::string_view name, const Tensor& tensor) {
    std::vector<std::byte> piece;
    std::uint32_t checksum = 0;
    const std::int64_t bytes = tensor.elements * stored_bytes(tensor.type);
    for (std::int64_t done = 0; done < bytes; done += kPiece) {
      piece.resize(static_cast<std::size_t>(std::min(kPiece, bytes - done)));
      read_exactly(file_->get(), tensor.offset + done, piece.data(), static_cast<std::int64_t>(piece.size()), path_);
      checksum = crc32_of(checksum, piece);
    }
    if (checksum != *tensor.checksum)
      throw InputError(fmt::format(
          "{}: {}: the bytes have checksum {:08x}, the header says {:08x}: the file was damaged after it was "
          "written; take another copy",
          path_.string(), name, checksum, *tensor.checksum));
  };
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for_ranges(static_cast<std::int64_t>(checked.size()), 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      verify_one(checked[i].first, *checked[i].second);
  });
}

void SafetensorsFile::read(const std::string& name, std::int64_t elements, std::int64_t first,
                           std::span<float> out) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw InputError(fmt::format("{}: has no tensor \"{}\" of type F32, BF16 or F16", path_.string(), name));
  const Tensor& tensor = found->second;
  if (tensor.elements != elements)
    throw InputError(fmt::format("{}: {} has {} elements, the model needs {}: the file is of another model",
                                 path_.string(), name, tensor.elements, elements));
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
          fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json; name the folder of a model "
                      "that was downloaded whole",
                      path.string()));
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

void SafetensorsSet::verify() const {
  for (const std::unique_ptr<SafetensorsFile>& file : files_) file->verify();
}

void SafetensorsSet::read(const std::string& name, std::int64_t elements, std::int64_t first,
                          std::span<float> out) const {
  const auto found = where_.find(name);
  if (found == where_.end())
    throw InputError(fmt::format("{}: has no tensor \"{}\" of type F32, BF16 or F16", path_.string(), name));
  files_[found->second]->read(name, elements, first, out);
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, const std::vector<Entry>& entries) : file_(path) {
  for (const Entry& entry : entries) {
    std::int64_t bytes = stored_bytes(entry.type);
    for (const std::int64_t size : entry.shape) bytes *= size;
    tensors_.push_back({entry, bytes, bytes, 0});
  }
  const std::string text = header();
  const std::uint64_t length = text.size();
  file_.write({reinterpret_cast<const char*>(&length), sizeof length});
  file_.write(text);
}

/// As long before the checksums are known as after.
std::string SafetensorsWriter::header() const {
  nlohmann::ordered_json metadata = {{"format", "pt"}};  // Hugging Face's loaders refuse metadata without it
  for (const Tensor& tensor : tensors_)
    metadata[std::string(kChecksum) + tensor.entry.name] = fmt::format("{:08x}", tensor.checksum);
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors_) {
    header[tensor.entry.name] = {{"dtype", type_name(tensor.entry.type)},
                                 {"shape", tensor.entry.shape},
                                 {"data_offsets", {begin, begin + tensor.bytes}}};
    begin += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8
  return text;
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  for (std::span<const std::byte> rest = bytes; !rest.empty();) {
    while (next_ < tensors_.size() && tensors_[next_].missing == 0) ++next_;
    if (next_ == tensors_.size()) throw std::logic_error("more bytes than declared");
    Tensor& tensor = tensors_[next_];
    const auto part = rest.first(std::min(rest.size(), static_cast<std::size_t>(tensor.missing)));
    tensor.checksum = crc32_of(tensor.checksum, part);
    tensor.missing -= static_cast<std::int64_t>(part.size());
    rest = rest.subspan(part.size());
  }
  file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void SafetensorsWriter::close() {
  for (const Tensor& tensor : tensors_)
    if (tensor.missing != 0) throw std::logic_error("fewer bytes than declared");
  file_.write_at(8, header());
  file_.commit();
}

}  // namespace penstock::exec
