// Strict reading of JSON objects: every error names the place and the value found, unknown keys are errors.
// Include only from .cpp files (it brings nlohmann-json along).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Throws InputError with line and column if `text` is not JSON, and if an object has a key twice.
nlohmann::json parse_json(const std::string& text, const std::string& place);
nlohmann::json read_json_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// One object and where it stands ("x.json: ops[17]"). Keys are asked for one by one; `finish` refuses the rest.
class JsonObject {
 public:
  /// Throws InputError if `value` is not an object. `value` must outlive the reader.
  JsonObject(const nlohmann::json& value, std::string place);

  bool has(const char* key) const;
  /// Inclusive bounds.
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high);
  /// Finite and within inclusive bounds.
  double number(const char* key, double low, double high);
  bool boolean(const char* key);
  std::string text(const char* key);
  /// Index into `names`.
  int choice(const char* key, std::span<const std::string_view> names);
  const nlohmann::json& array(const char* key);
  const nlohmann::json& value(const char* key);
  JsonObject object(const char* key);
  /// Throws InputError if the object has a key that was not asked for.
  void finish() const;

  std::string place(const char* key) const;
  [[noreturn]] void fail(const char* key, const std::string& what) const;

 private:
  /// nullptr if the key is not there.
  const nlohmann::json* find(const char* key);
  /// Says what was expected, and what was found or that nothing was.
  [[noreturn]] void refuse(const char* key, const std::string& expected) const;

  const nlohmann::json& value_;
  std::string place_;
  std::set<std::string, std::less<>> asked_;
};

/// A short rendering of what was found, for messages.
std::string shown(const nlohmann::json& value);

}  // namespace penstock
