#include "shared/data/token_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <unordered_map>

#include "shared/data/token_file_header.h"
#include "shared/error.h"
#include "shared/files.h"

namespace penstock {
namespace {

constexpr std::int64_t kMostDocuments = UINT32_MAX;  // packing counts them in 32 bits
constexpr std::int64_t kMostVocabulary = std::int64_t{1} << 31;

std::uint64_t xxh3(const void* bytes, std::size_t size) { return XXH3_64bits(bytes, size); }

/// Of the whole file with the header's checksum taken as zero.
std::uint64_t checksum_of(std::span<const unsigned char> bytes) {
  TokenFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.checksum = 0;
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, &header, sizeof(header));
  XXH3_64bits_update(state, bytes.data() + sizeof(header), bytes.size() - sizeof(header));
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

std::optional<TokenFormat> format_of(std::span<const unsigned char> head) {
  if (head.size() >= sizeof(kTokenFileMagic) && std::memcmp(head.data(), kTokenFileMagic, sizeof(kTokenFileMagic)) == 0)
    return TokenFormat::penstock;
  std::int32_t magic = 0;
  if (head.size() < kLlmCHeaderBytes) return std::nullopt;
  std::memcpy(&magic, head.data(), sizeof(magic));
  if (magic == kLlmCMagic16 || magic == kLlmCMagic32) return TokenFormat::llm_c;
  return std::nullopt;
}

TokenFormat told_format(const MappedFile& file) {
  if (const auto format = format_of(file.bytes())) return *format;
  throw InputError(
      fmt::format("{}: is no file of tokens: it begins neither as those of scripts/prepare do nor as llm.c's",
                  file.path().string()));
}

template <typename Id>
std::int64_t first_outside(const void* ids, std::int64_t count, std::int64_t vocabulary) {
  const Id* all = static_cast<const Id*>(ids);
  constexpr std::int64_t kBlock = 4096;  // its maximum is found without a branch
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    Id largest = 0;
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, all[i]);
    if (static_cast<std::int64_t>(largest) < vocabulary) continue;
    return std::find_if(all + begin, all + end, [&](Id id) { return static_cast<std::int64_t>(id) >= vocabulary; }) -
           all;
  }
  return count;
}

}  // namespace

std::optional<TokenFormat> token_format(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  try {
    InputFile file(path, INT64_MAX);
    unsigned char head[kLlmCHeaderBytes];
    const std::size_t got = file.read(std::span(reinterpret_cast<char*>(head), sizeof(head)));
    return format_of(std::span(head, got));
  } catch (const InputError&) {
    return std::nullopt;  // whoever reads it as something else says why
  }
}

std::uint64_t file_hash(const std::filesystem::path& path) {
  const MappedFile file(path);
  return xxh3(file.bytes().data(), file.bytes().size());
}

TokenFile::TokenFile(const std::filesystem::path& path, std::int64_t vocabulary)
    : TokenFile(path, token_format(path).value_or(TokenFormat::penstock), vocabulary) {}

TokenFile::TokenFile(const std::filesystem::path& path, TokenFormat format, std::int64_t vocabulary,
                     TokenFileCheck check)
    : file_(path), format_(format), vocabulary_(vocabulary) {
  if (format == TokenFormat::nanogpt) {
    open_nanogpt();
  } else {
    format_ = told_format(file_);
    if (format_ == TokenFormat::penstock)
      open_penstock(vocabulary, check);
    else
      open_llm_c();
  }
  if (check == TokenFileCheck::whole) check_ids();
}

void TokenFile::refuse(const std::string& what) const {
  throw InputError(fmt::format("{}: {}", path().string(), what));
}

void TokenFile::open_penstock(std::int64_t vocabulary, TokenFileCheck check) {
  const auto bytes = file_.bytes();
  const std::uint64_t size = bytes.size();
  TokenFileHeader header;
  if (size < sizeof(header))
    refuse(fmt::format("is truncated: {} bytes, of which the header alone takes {}", size, sizeof(header)));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kTokenFileVersion)
    refuse(fmt::format("byte 8: is of version {}; this program reads version {}", header.version, kTokenFileVersion));
  if (header.token_bytes != 2 && header.token_bytes != 4)
    refuse(fmt::format("byte 12: has {} bytes for each token; 2 or 4 would be right", header.token_bytes));
  // Each count against the file's size, so that no sum of them overflows.
  const auto bounded = [&](int place, const char* what, std::uint64_t count, std::uint64_t each) {
    if (count == 0) refuse(fmt::format("byte {}: has no {}", place, what));
    if (count > size / each)
      refuse(fmt::format("byte {}: is truncated: says that it has {} {}, which {} bytes do not hold", place, count,
                         what, size));
  };
  bounded(16, "tokens", header.tokens, header.token_bytes);
  bounded(24, "documents", header.documents, 8);
  bounded(56, "lengths of documents", header.lengths, 16);
  if (header.documents > header.tokens || header.documents > static_cast<std::uint64_t>(kMostDocuments))
    refuse(fmt::format("byte 24: has {} documents; at most one for each of its {} tokens, and {}, can be",
                       header.documents, header.tokens, kMostDocuments));
  if (header.name_bytes > kMostTokenizerNameBytes)
    refuse(fmt::format("byte 52: {} bytes for the tokenizer's name; at most {} can be", header.name_bytes,
                       kMostTokenizerNameBytes));
  if (header.vocabulary == 0 || header.vocabulary > kMostVocabulary)
    refuse(fmt::format("byte 48: a vocabulary of {} ids; 1 to 2^31 can be", header.vocabulary));
  for (std::size_t i = 0; i < sizeof(header.reserved); ++i)
    if (header.reserved[i] != 0)
      refuse(
          fmt::format("byte {}: is {}; 0 would be right", offsetof(TokenFileHeader, reserved) + i, header.reserved[i]));
  const TokenFileLayout at = token_file_layout(header);
  if (at.end != size)
    refuse(fmt::format("is {}: {} bytes, where its header asks for {}", size < at.end ? "truncated" : "too long", size,
                       at.end));
  if (check == TokenFileCheck::whole) require_checksum(header.checksum);
  tokenizer_.assign(reinterpret_cast<const char*>(bytes.data() + at.name), header.name_bytes);
  if (vocabulary > 0 && header.vocabulary != static_cast<std::uint64_t>(vocabulary))
    refuse(
        fmt::format("was made for a vocabulary of {} ids (tokenizer of {}), the model's has {}: prepare it with the "
                    "model's own tokenizer",
                    header.vocabulary, tokenizer_, vocabulary));
  token_bytes_ = static_cast<int>(header.token_bytes);
  tokens_ = static_cast<std::int64_t>(header.tokens);
  documents_ = static_cast<std::int64_t>(header.documents);
  trained_ = static_cast<std::int64_t>(header.trained_tokens);
  vocabulary_ = header.vocabulary;
  tokenizer_hash_ = header.tokenizer_hash;
  ids_ = bytes.data() + at.tokens;
  loss_ = bytes.data() + at.loss;
  starts_ = reinterpret_cast<const std::uint64_t*>(bytes.data() + at.starts);
  long_documents_ = bytes.data() + at.long_documents;
  check_documents();
  check_lengths(reinterpret_cast<const std::uint64_t*>(bytes.data() + at.lengths), header.lengths);
  check_loss_bits();
  checksum_ = fmt::format("xxh3:{:016x} of {} tokens", header.checksum, tokens_);
}

void TokenFile::require_checksum(std::uint64_t stored) const {
  if (const std::uint64_t found = checksum_of(file_.bytes()); found != stored)
    refuse(
        fmt::format("byte 120: its checksum is {:016x} and its content's {:016x}: it was damaged or changed; "
                    "prepare it again",
                    stored, found));
}

void TokenFile::check_documents() const {
  if (starts_[0] != 0) refuse(fmt::format("document 0 begins at token {}; 0 would be right", starts_[0]));
  for (std::int64_t i = 1; i < documents_; ++i)
    if (starts_[i] <= starts_[i - 1] || starts_[i] >= static_cast<std::uint64_t>(tokens_))
      refuse(fmt::format("document {} begins at token {}, the one before at {}, and there are {} tokens: starts ascend",
                         i, starts_[i], starts_[i - 1], tokens_));
  for (std::int64_t i = 0; i < documents_; ++i)
    if (long_documents_[i] > static_cast<unsigned char>(LongDocument::split))
      refuse(
          fmt::format("document {}: {} for what is done if it is long; 0 (refused), 1 (truncated) or 2 (split) "
                      "would be right",
                      i, long_documents_[i]));
}

void TokenFile::check_lengths(const std::uint64_t* stored, std::uint64_t count) {
  // At most sqrt(2 tokens) different ones.
  std::unordered_map<std::uint64_t, std::uint64_t> found;
  for (std::int64_t i = 0; i < documents_; ++i)
    ++found[static_cast<std::uint64_t>(document_start(i + 1) - document_start(i))];
  for (const auto& [tokens, documents] : found) lengths_.push_back({tokens, documents});
  std::sort(lengths_.begin(), lengths_.end(),
            [](const LengthCount& a, const LengthCount& b) { return a.tokens < b.tokens; });
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(count, lengths_.size()); ++i)
    if (i >= count || i >= lengths_.size() || lengths_[i] != LengthCount{stored[2 * i], stored[2 * i + 1]})
      refuse(fmt::format("entry {} of its histogram of lengths is not what its documents have", i));
}

void TokenFile::check_loss_bits() const {
  for (std::int64_t i = 0; i < documents_; ++i)
    if (const auto first = static_cast<std::int64_t>(starts_[i]); trained(first))
      refuse(fmt::format("token {}, the first of document {}, is marked as trained on: nothing predicts it", first, i));
  for (std::int64_t i = tokens_; i % 8 != 0; ++i)
    if (trained(i)) refuse(fmt::format("a loss bit is set behind the last of the {} tokens", tokens_));
  const std::int64_t counted = trained_in(0, tokens_);
  if (counted == 0)
    refuse("not one of its tokens is trained on: everything is masked; look at it with scripts/prepare --show 3");
  if (counted != trained_)
    refuse(fmt::format("byte 32: says that {} tokens are trained on; its loss bits say {}", trained_, counted));
}

std::int64_t TokenFile::trained_in(std::int64_t begin, std::int64_t end) const {
  if (loss_ == nullptr) return end - begin - (begin == 0 && end > 0 ? 1 : 0);
  std::int64_t count = 0;
  for (; begin < end && begin % 64 != 0; ++begin) count += trained(begin) ? 1 : 0;
  for (; end - begin >= 64; begin += 64) {
    std::uint64_t word = 0;
    std::memcpy(&word, loss_ + begin / 8, sizeof(word));
    count += std::popcount(word);
  }
  for (; begin < end; ++begin) count += trained(begin) ? 1 : 0;
  return count;
}

void TokenFile::open_llm_c() {
  const auto bytes = file_.bytes();
  LlmCHeader header{};
  std::memcpy(&header, bytes.data(), sizeof(header));  // told_format has seen all of it
  token_bytes_ = header.magic == kLlmCMagic16 ? 2 : 4;
  const std::int32_t version = header.magic == kLlmCMagic16 ? kLlmCVersion16 : kLlmCVersion32;
  if (header.version != version)
    refuse(fmt::format("byte 4: is llm.c's, of version {}; with magic {} version {} can be read", header.version,
                       header.magic, version));
  const auto size = static_cast<std::int64_t>(bytes.size() - kLlmCHeaderBytes);
  if (header.tokens < 2 || std::int64_t{header.tokens} * token_bytes_ != size)
    refuse(
        fmt::format("byte 8: is llm.c's and says that it has {} tokens of {} bytes; {} bytes stand behind its "
                    "header: it is truncated or damaged",
                    header.tokens, token_bytes_, size));
  tokens_ = header.tokens;
  ids_ = bytes.data() + kLlmCHeaderBytes;
  trained_ = tokens_ - 1;
  lengths_ = {{static_cast<std::uint64_t>(tokens_), 1}};
  checksum_ = fmt::format("xxh3:{:016x} of {} tokens", xxh3(bytes.data(), bytes.size()), tokens_);
}

void TokenFile::open_nanogpt() {
  const auto bytes = file_.bytes();
  if (format_of(bytes))
    refuse("begins with a header, which nanoGPT's files have not; read it without asking for those");
  if (bytes.size() % 2 != 0 || bytes.size() < 4)
    refuse(fmt::format("has {} bytes; nanoGPT's files have 2 for each token, and at least 2 tokens are needed",
                       bytes.size()));
  tokens_ = static_cast<std::int64_t>(bytes.size() / 2);
  ids_ = bytes.data();
  trained_ = tokens_ - 1;
  lengths_ = {{static_cast<std::uint64_t>(tokens_), 1}};
  checksum_ = fmt::format("xxh3:{:016x} of {} tokens", xxh3(bytes.data(), bytes.size()), tokens_);
}

void TokenFile::check_ids() const {
  const std::int64_t limit = vocabulary_ > 0 ? vocabulary_ : kMostVocabulary;
  const std::int64_t at = token_bytes_ == 2 ? first_outside<std::uint16_t>(ids_, tokens_, limit)
                                            : first_outside<std::uint32_t>(ids_, tokens_, limit);
  if (at == tokens_) return;
  const std::int64_t id =
      token_bytes_ == 2 ? static_cast<const std::uint16_t*>(ids_)[at] : static_cast<const std::uint32_t*>(ids_)[at];
  const std::int64_t byte = static_cast<const unsigned char*>(ids_) - file_.bytes().data() + at * token_bytes_;
  refuse(fmt::format("token {} (byte {}) is id {}; ids below {} would be right{}", at, byte, id, limit,
                     format_ == TokenFormat::nanogpt ? ". Are these uint16 ids, and of this model's tokenizer?" : ""));
}

}  // namespace penstock
