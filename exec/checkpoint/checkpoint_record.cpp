#include "exec/checkpoint/checkpoint_record.h"

#include <fmt/format.h>
#include <zlib.h>

#include <optional>
#include <string_view>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"

namespace penstock::exec {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "penstock-checkpoint/2";
constexpr const char* kFirstFormat = "penstock-checkpoint/1";
constexpr std::string_view kAnyFormat = "penstock-checkpoint/";
constexpr std::int64_t kMostBytes = 1 << 20;
constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 50;
constexpr std::string_view kNoChecksum = "00000000";
constexpr std::string_view kBeforeChecksum = "\"crc32\": \"", kAfterChecksum = "\"\n}\n";  // at the end of the file

std::string hexadecimal(std::uint32_t value) { return fmt::format("{:08x}", value); }

/// Where the digits of the file's own checksum begin; nothing if it does not end as record_text does.
std::optional<std::size_t> checksum_place(std::string_view text) {
  const std::size_t tail = kBeforeChecksum.size() + kNoChecksum.size() + kAfterChecksum.size();
  if (text.size() < tail || !text.ends_with(kAfterChecksum)) return std::nullopt;
  if (text.substr(text.size() - tail, kBeforeChecksum.size()) != kBeforeChecksum) return std::nullopt;
  return text.size() - kAfterChecksum.size() - kNoChecksum.size();
}

std::string checksum_at(std::string text, std::size_t place) {
  return record_checksum(text.replace(place, kNoChecksum.size(), kNoChecksum));
}

std::string read_digits(JsonObject& object, const char* key) {
  const std::string digits = object.text(key);
  if (digits.size() != kNoChecksum.size() || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    object.fail(key, fmt::format("a checksum has 8 hexadecimal digits, found \"{}\"", digits.substr(0, 60)));
  return digits;
}

FileIdentity read_identity(JsonObject file) {
  FileIdentity identity;
  identity.bytes = file.integer("bytes", 0, kMostFileBytes);
  identity.header_checksum = static_cast<std::uint32_t>(std::stoul(read_digits(file, "header_crc32"), nullptr, 16));
  file.finish();
  return identity;
}

RunDescription read_description(JsonObject decides) {
  RunDescription description = described_keys();
  for (DescribedValue& value : description.values) {
    const bool is_there = decides.has(value.key.c_str());
    if (!is_there && value.is_later) continue;
    if (!is_there) decides.fail(value.key.c_str(), "is missing");
    value.value = decides.value(value.key.c_str()).dump();
  }
  decides.finish();
  return description;
}

/// Throws InputError unless the text is as it was written.
void require_undamaged(const std::string& text, const std::string& place) {
  const auto checksum = checksum_place(text);
  if (checksum && text.compare(*checksum, kNoChecksum.size(), checksum_at(text, *checksum)) == 0) return;
  // The one case in which what stands there is worth reading.
  const json other = parse_json(text, place);
  const json format = other.is_object() ? other.value("format", json()) : json();
  if (format == kFirstFormat)
    throw OtherVersion(
        fmt::format("{}: is a {}, which does not say what it was trained as (heads, batch, numerics, learning rate, "
                    "data), so that it cannot be gone on with; its weights can: leave out --resume and give "
                    "--set init.weights=FOLDER (AdamW's moments then start at 0)",
                    place, kFirstFormat));
  if (format != kFormat && !checksum) {
    const std::string found =
        fmt::format("{}: format: found {}, this program reads \"{}\"", place, shown(format), kFormat);
    if (format.is_string() && format.get<std::string>().starts_with(kAnyFormat)) throw OtherVersion(found);
    throw InputError(found);
  }
  throw InputError(
      fmt::format("{}: was damaged, or changed by hand, after it was written: its bytes do not have the checksum that "
                  "it ends with; take another copy (what a run may change is said with --allow-changed)",
                  place));
}

CheckpointRecord read_record(const json& parsed, const std::string& place) {
  JsonObject object(parsed, place);
  if (object.text("format") != kFormat)
    object.fail("format", fmt::format("found {}, this program reads \"{}\"", shown(parsed["format"]), kFormat));
  CheckpointRecord record;
  record.step = object.integer("step", 0, std::int64_t{1} << 40);
  record.description = read_description(object.object("decides"));
  if (!object.text("replaces").empty()) record.replaces = read_digits(object, "replaces");
  JsonObject files = object.object("files");
  for (const char* name : {kWeightsFile, kStatesFile}) record.files[name] = read_identity(files.object(name));
  files.finish();
  object.text("crc32");
  object.finish();
  return record;
}

}  // namespace

std::string record_checksum(const std::string& text) {
  return hexadecimal(static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size())));
}

std::string record_text(const CheckpointRecord& record) {
  ordered_json decides = ordered_json::object(), files = ordered_json::object();
  for (const DescribedValue& value : record.description.values) decides[value.key] = ordered_json::parse(value.value);
  for (const auto& [name, identity] : record.files)
    files[name] = {{"bytes", identity.bytes}, {"header_crc32", hexadecimal(identity.header_checksum)}};
  const ordered_json json = {{"format", kFormat},           {"step", record.step}, {"decides", decides},
                             {"replaces", record.replaces}, {"files", files},      {"crc32", kNoChecksum}};
  std::string text = json.dump(2) + "\n";
  const std::size_t place = checksum_place(text).value();
  return text.replace(place, kNoChecksum.size(), checksum_at(text, place));
}

CheckpointRecord parse_record(const std::string& text, const std::string& place) {
  require_undamaged(text, place);
  try {
    return read_record(parse_json(text, place), place);
  } catch (const InputError& error) {
    throw OtherVersion(fmt::format("{}; it is as it was written, so by another version of Penstock", error.what()));
  }
}

std::string read_record_text(const std::filesystem::path& folder) {
  return read_text_file(folder / kRecordFile, kMostBytes);
}

}  // namespace penstock::exec
