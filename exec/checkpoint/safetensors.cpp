#include "exec/checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>

#include "exec/checkpoint/foreign_file.h"
#include "exec/numerics/bf16.h"
#include "exec/optimizer/thread_team.h"
#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // as the format's own library
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;
constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // bytes read at a time to be verified
constexpr std::size_t kMostShown = 120;                 // characters of a tensor's name
constexpr std::string_view kChecksum = "crc32.";

struct Dtype {
  std::string_view name;
  std::int64_t bits;
  std::optional<StoredType> type;
};
/// All that the format has (safetensors 0.8); sub-byte ones are packed.
constexpr Dtype kDtypes[] = {
    {"F32", 32, StoredType::f32},     {"BF16", 16, StoredType::bf16}, {"F16", 16, StoredType::f16},
    {"F64", 64, std::nullopt},        {"BOOL", 8, std::nullopt},      {"U8", 8, std::nullopt},
    {"I8", 8, std::nullopt},          {"I16", 16, std::nullopt},      {"U16", 16, std::nullopt},
    {"I32", 32, std::nullopt},        {"U32", 32, std::nullopt},      {"I64", 64, std::nullopt},
    {"U64", 64, std::nullopt},        {"C64", 64, std::nullopt},      {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},     {"F8_E8M0", 8, std::nullopt},   {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F4", 4, std::nullopt},        {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt}};

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

std::uint32_t crc32_of(std::uint32_t before, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Checksums by the names of tensors; empty if the file has none. As in the format, metadata are texts.
std::map<std::string, std::uint32_t> read_checksums(const nlohmann::json& header, const std::string& place) {
  std::map<std::string, std::uint32_t> checksums;
  const auto metadata = header.find("__metadata__");
  if (metadata == header.end() || metadata->is_null()) return checksums;
  if (!metadata->is_object())
    throw InputError(fmt::format("{}: __metadata__: must be an object, found {}", place, shown(*metadata)));
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string())
      throw InputError(
          fmt::format("{}: __metadata__.{}: must be a text, found {}", place, shown_name(key), shown(value)));
    if (!key.starts_with(kChecksum)) continue;
    const auto& digits = value.get_ref<const std::string&>();
    if (digits.size() != 8 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw InputError(fmt::format("{}: __metadata__.{}: a checksum has 8 hexadecimal digits, found {}", place,
                                   shown_name(key), shown(value)));
    const std::string name = key.substr(kChecksum.size());
    if (!header.contains(name))
      throw InputError(fmt::format("{}: has a checksum of {}, which it does not hold: the header is damaged", place,
                                   shown_name(name)));
    checksums[name] = static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
  }
  return checksums;
}

Shape read_shape(const nlohmann::json& json, const std::string& place) {
  Shape shape;
  std::int64_t elements = 1;
  for (const nlohmann::json& size : json) {
    if (!size.is_number_integer() || size.get<std::int64_t>() < 0 || size.get<std::int64_t>() > kMaxElements)
      throw InputError(fmt::format("{}: a shape is a list of sizes, found {}", place, shown(json)));
    const auto n = size.get<std::int64_t>();
    if (n != 0 && elements > kMaxElements / n) throw InputError(fmt::format("{}: absurd shape {}", place, shown(json)));
    elements *= n;
    shape.push_back(n);
  }
  return shape;
}

std::int64_t product(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

/// `data`: where the data begin in the file.
StoredTensor read_tensor(const nlohmann::json& json, const std::string& place, std::int64_t data) {
  JsonObject entry(json, place);
  StoredTensor tensor;
  tensor.dtype = entry.text("dtype");
  const auto dtype = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                  [&](const Dtype& known) { return known.name == tensor.dtype; });
  if (dtype == std::end(kDtypes))
    entry.fail("dtype", fmt::format("the format has no \"{}\"; take another copy", shown_name(tensor.dtype)));
  tensor.type = dtype->type;
  tensor.shape = read_shape(entry.array("shape"), entry.place("shape"));
  tensor.elements = product(tensor.shape);
  if (tensor.elements * dtype->bits % 8 != 0)
    entry.fail("shape", fmt::format("{} of {} fill no whole bytes", shape_text(tensor.shape), tensor.dtype));
  const nlohmann::json& offsets = entry.array("data_offsets");
  entry.finish();
  if (offsets.size() != 2 || !offsets[0].is_number_integer() || !offsets[1].is_number_integer())
    entry.fail("data_offsets", "must be [begin, end], found " + shown(offsets));
  const auto begin = offsets[0].get<std::int64_t>(), end = offsets[1].get<std::int64_t>();
  // Beyond what a file can have, so that nothing below leaves 64 bits; unsigned ones beyond 2^63 come out negative.
  if (begin < 0 || end < begin || end > 8 * kMaxElements)
    entry.fail("data_offsets", fmt::format("{} is no [begin, end] of bytes", shown(offsets)));
  tensor.offset = data + begin;
  tensor.bytes = end - begin;
  if (8 * tensor.bytes != tensor.elements * dtype->bits)
    entry.fail("data_offsets", fmt::format("{} bytes, dtype {} and shape {} need {}", tensor.bytes, tensor.dtype,
                                           shape_text(tensor.shape), tensor.elements * dtype->bits / 8));
  return tensor;
}

/// Throws InputError unless the tensors lie one behind the other, from where the data begin to the file's end.
void require_gapless(const StoredTensors& tensors, std::int64_t data, std::int64_t size, const std::string& place) {
  std::vector<std::pair<std::string_view, const StoredTensor*>> in_order;
  std::int64_t last = data;
  for (const auto& [name, tensor] : tensors) {
    in_order.emplace_back(name, &tensor);
    last = std::max(last, tensor.offset + tensor.bytes);
  }
  if (last > size)
    throw InputError(
        fmt::format("{}: has {} bytes, its header describes {}: it was cut off, as by a download that did not finish; "
                    "get the rest or take another copy",
                    place, size, last));
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second->offset, a.second->bytes) < std::tie(b.second->offset, b.second->bytes);
  });
  std::int64_t at = data;
  std::string_view before;
  for (const auto& [name, tensor] : in_order) {
    if (tensor->offset < at)
      throw InputError(fmt::format("{}: {} and {} overlap: [{}, ...] begins before {}; take another copy", place,
                                   shown_name(before), shown_name(name), tensor->offset - data, at - data));
    if (tensor->offset > at)
      throw InputError(fmt::format("{}: bytes {} to {} of the data, before {}, belong to no tensor; take another copy",
                                   place, at - data, tensor->offset - data, shown_name(name)));
    at = tensor->offset + tensor->bytes;
    before = name;
  }
  if (at != size)
    throw InputError(fmt::format("{}: has {} bytes behind the last tensor, which belong to none; take another copy",
                                 place, size - at));
}

void widen(StoredType type, std::span<const std::byte> raw, std::span<float> out) {
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

std::vector<WrittenTensor> to_be_written(const std::vector<TensorEntry>& entries) {
  std::vector<WrittenTensor> tensors;
  for (const TensorEntry& entry : entries) {
    std::int64_t bytes = stored_bytes(entry.type);
    for (const std::int64_t size : entry.shape) bytes *= size;
    tensors.push_back({entry, bytes, bytes, 0});
  }
  return tensors;
}

/// As long before the checksums are known as after.
std::string header_of(const std::vector<WrittenTensor>& tensors) {
  nlohmann::ordered_json metadata = {{"format", "pt"}};  // Hugging Face's loaders refuse metadata without it
  for (const WrittenTensor& tensor : tensors)
    metadata[std::string(kChecksum) + tensor.entry.name] = fmt::format("{:08x}", tensor.checksum);
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  std::int64_t begin = 0;
  for (const WrittenTensor& tensor : tensors) {
    header[tensor.entry.name] = {{"dtype", type_name(tensor.entry.type)},
                                 {"shape", tensor.entry.shape},
                                 {"data_offsets", {begin, begin + tensor.bytes}}};
    begin += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8
  return text;
}

std::int64_t file_bytes(const std::string& header, const std::vector<WrittenTensor>& tensors) {
  std::int64_t bytes = 8 + static_cast<std::int64_t>(header.size());
  for (const WrittenTensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}

}  // namespace

std::int64_t safetensors_bytes(const std::vector<TensorEntry>& entries) {
  const std::vector<WrittenTensor> tensors = to_be_written(entries);
  return file_bytes(header_of(tensors), tensors);
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

const char* type_name(StoredType type) {
  switch (type) {
    case StoredType::f32: return "F32";
    case StoredType::bf16: return "BF16";
    case StoredType::f16: return "F16";
  }
  return "";
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string shown_name(std::string_view name) {
  std::string text(name.substr(0, kMostShown));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return name.size() > kMostShown ? text + "..." : text;
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
    // Not blocking: a pipe without a writer would hang the open, before anyone can say that it is not a regular file.
    : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_.get() < 0)
    throw InputError(fmt::format("{}: cannot be opened: {}", path.string(), why_not_read(path, errno)));
  struct stat status {};
  if (fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: is not a regular file{}", path.string(),
                                 S_ISDIR(status.st_mode) ? " but a folder; name a file in it" : "; name one"));
  read_header(status.st_size);
}

void SafetensorsFile::read_header(std::int64_t size) {
  const std::string place = path_.string();
  std::string head(static_cast<std::size_t>(std::min<std::int64_t>(size, kForeignHeadBytes)), '\0');
  read_exactly(file_.get(), 0, head.data(), static_cast<std::int64_t>(head.size()), path_);
  std::uint64_t length = 0;
  if (size >= 8) std::memcpy(&length, head.data(), 8);
  if (size < 9 || head[8] != '{') throw InputError(fmt::format("{}: {}", place, foreign_file(head)));
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes))
    throw InputError(
        fmt::format("{}: not a safetensors file, or damaged: its header would have {} bytes, more than {}; "
                    "take another copy",
                    place, length, kMaxHeaderBytes));
  const std::int64_t data = 8 + static_cast<std::int64_t>(length);
  if (data > size)
    throw InputError(
        fmt::format("{}: has {} bytes, its header alone {}: it was cut off, as by a download that did not "
                    "finish; get the rest or take another copy",
                    place, size, data));
  std::string text(length, '\0');
  read_exactly(file_.get(), 8, text.data(), static_cast<std::int64_t>(length), path_);
  identity_ = {size, crc32_of(0, std::as_bytes(std::span(text)))};
  const nlohmann::json json = parse_json(text, place);
  const std::map<std::string, std::uint32_t> checksums = read_checksums(json, place);
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor = read_tensor(value, place + ": " + shown_name(name), data);
    if (const auto found = checksums.find(name); found != checksums.end())
      tensor.checksum = found->second;
    else if (!checksums.empty())
      throw InputError(
          fmt::format("{}: {}: has no checksum, though others have: the header is damaged", place, shown_name(name)));
    tensors_.emplace(name, std::move(tensor));
  }
  require_gapless(tensors_, data, size, place);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsFile::require_exactly(std::span<const TensorEntry> entries) const {
  const auto fail = [&](std::string_view name, const std::string& what) {
    throw InputError(
        fmt::format("{}: {}: {}: the file is of another model or run", path_.string(), shown_name(name), what));
  };
  for (const TensorEntry& entry : entries) {
    const StoredTensor* tensor = find(entry.name);
    if (tensor == nullptr)
      fail(entry.name, fmt::format("is not there; {} {} is needed", type_name(entry.type), shape_text(entry.shape)));
    else if (tensor->type != entry.type || tensor->shape != entry.shape)
      fail(entry.name, fmt::format("is {} {}; {} {} is needed", tensor->dtype, shape_text(tensor->shape),
                                   type_name(entry.type), shape_text(entry.shape)));
  }
  if (entries.size() == tensors_.size()) return;
  std::set<std::string_view> needed;
  for (const TensorEntry& entry : entries) needed.insert(entry.name);
  for (const auto& [name, tensor] : tensors_)
    if (!needed.contains(name))
      fail(name, fmt::format("is not used ({} {}); {} tensors are needed, {} are there", tensor.dtype,
                             shape_text(tensor.shape), needed.size(), tensors_.size()));
}

void SafetensorsFile::verify() const {
  std::vector<std::pair<std::string_view, const StoredTensor*>> checked;
  for (const auto& [name, tensor] : tensors_)
    if (tensor.checksum) checked.emplace_back(name, &tensor);
  const auto verify_one = [&](std::string_view name, const StoredTensor& tensor) {
    std::vector<std::byte> piece;
    std::uint32_t checksum = 0;
    for (std::int64_t done = 0; done < tensor.bytes; done += kPiece) {
      piece.resize(static_cast<std::size_t>(std::min(kPiece, tensor.bytes - done)));
      read_exactly(file_.get(), tensor.offset + done, piece.data(), static_cast<std::int64_t>(piece.size()), path_);
      checksum = crc32_of(checksum, piece);
    }
    if (checksum != *tensor.checksum)
      throw InputError(fmt::format(
          "{}: {}: the bytes have checksum {:08x}, the header says {:08x}: the file was damaged after it was "
          "written; take another copy",
          path_.string(), shown_name(name), checksum, *tensor.checksum));
  };
  for_ranges(static_cast<std::int64_t>(checked.size()), 1, usable_cores(), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      verify_one(checked[i].first, *checked[i].second);
  });
}

void SafetensorsFile::read(std::string_view name, std::int64_t first, std::span<float> out) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr || !tensor->type)
    throw InputError(
        fmt::format("{}: has no tensor \"{}\" of dtype F32, BF16 or F16", path_.string(), shown_name(name)));
  if (first < 0 || first + static_cast<std::int64_t>(out.size()) > tensor->elements)
    throw std::out_of_range(std::string(name));
  std::vector<std::byte> raw(out.size() * static_cast<std::size_t>(stored_bytes(*tensor->type)));
  read_exactly(file_.get(), tensor->offset + first * stored_bytes(*tensor->type), raw.data(),
               static_cast<std::int64_t>(raw.size()), path_);
  widen(*tensor->type, raw, out);
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, const std::vector<Entry>& entries, FileCalls& calls)
    : file_(path, calls), tensors_(to_be_written(entries)) {
  const std::string text = header_of(tensors_);
  const std::uint64_t length = text.size();
  file_.write({reinterpret_cast<const char*>(&length), sizeof length});
  file_.write(text);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  for (std::span<const std::byte> rest = bytes; !rest.empty();) {
    while (next_ < tensors_.size() && tensors_[next_].missing == 0) ++next_;
    if (next_ == tensors_.size()) throw std::logic_error("more bytes than declared");
    WrittenTensor& tensor = tensors_[next_];
    const auto part = rest.first(std::min(rest.size(), static_cast<std::size_t>(tensor.missing)));
    tensor.checksum = crc32_of(tensor.checksum, part);
    tensor.missing -= static_cast<std::int64_t>(part.size());
    rest = rest.subspan(part.size());
  }
  file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

FileIdentity SafetensorsWriter::close() {
  for (const WrittenTensor& tensor : tensors_)
    if (tensor.missing != 0) throw std::logic_error("fewer bytes than declared");
  const std::string text = header_of(tensors_);
  file_.write_at(8, text);
  file_.commit();
  return {file_bytes(text, tensors_), crc32_of(0, std::as_bytes(std::span(text)))};
}

}  // namespace penstock::exec
