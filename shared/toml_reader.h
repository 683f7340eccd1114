// Strict reading of our TOML files (hardware, scenarios): tables of single values, every error names file, line and
// key.
//
// A document is a flat list of tables, "gpu" or "cpu.adamw_by_threads", each with single values (texts, whole numbers,
// numbers, booleans) and lists of texts. Other lists, dates and deeper nesting are refused: none of our files needs
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace penstock {

struct TomlValue {
  std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>> value;
  std::string place;  // "x.toml:12", or "--set policy.group=4"
};

struct TomlTable {
  std::string place;  // where its header stands
  std::map<std::string, TomlValue, std::less<>> values;
};

struct TomlDocument {
  std::string place;                                     // the file
  std::map<std::string, TomlTable, std::less<>> tables;  // "" holds the keys before the first header; always there
  std::string text;
  std::vector<std::string> notes;  // what is to be said of it and is no error
};

inline constexpr std::int64_t kMaxTomlBytes = 256 << 10;

/// Throws InputError: missing or oversized file, not TOML, a value of a kind that does not belong here.
TomlDocument read_toml(const std::filesystem::path& path);
TomlDocument parse_toml(const std::string& text, const std::string& place);
/// The value of `--set key=value`: TOML if it is a TOML value of a kind that belongs here, otherwise the text itself ("megatrain", "4 MiB").
TomlValue parse_toml_value(const std::string& text, const std::string& place);

/// One table. Keys are asked for one by one; `finish` refuses the rest. A table that is not there reads as an empty
/// one.
class TomlSection {
 public:
  /// `document` must outlive the section.
  TomlSection(const TomlDocument& document, std::string name);

  bool exists() const { return table_ != nullptr; }
  const std::string& name() const { return name_; }
  /// Asking makes the key a known one.
  bool has(const std::string& key);
  std::string text(const std::string& key);
  /// A text, or a list of one or more of them.
  std::vector<std::string> texts(const std::string& key);
  bool boolean(const std::string& key);
  /// Inclusive bounds.
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high);
  double number(const std::string& key, double low, double high);
  /// Index into `names`.
  int choice(const std::string& key, std::span<const std::string_view> names);
  /// Quantities with units (shared/units.h); those below `low` are refused.
  std::int64_t bytes(const std::string& key, std::int64_t low);
  double bandwidth(const std::string& key);  // positive
  double flops(const std::string& key);      // positive
  double seconds(const std::string& key);
  double rate(const std::string& key);  // positive
  double watts(const std::string& key);
  /// A whole number of at least 1, or a text such as "10B".
  std::int64_t count(const std::string& key);
  const TomlValue& value(const std::string& key);
  /// All keys of the table, for tables whose keys are data ("8 threads").
  std::vector<std::string> keys() const;

  /// Throws InputError for a key that was never asked for, with the nearest one that was.
  void finish() const;
  /// "x.toml:12: [gpu] hbm"
  std::string place(const std::string& key) const;
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

 private:
  /// nullptr if the key is not there.
  const TomlValue* find(const std::string& key);
  /// Says what was expected, and what was found or that nothing was.
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;
  /// "; there is sequence-length (in line 6): did you mean sequence_length?", or nothing.
  std::string there_instead(const std::string& missing) const;
  /// A quantity must be a text; a bare number has lost its unit.
  std::string quantity(const std::string& key, const char* expected);

  const TomlDocument& document_;
  std::string name_;
  const TomlTable* table_ = nullptr;
  std::set<std::string> known_;
};

/// Throws InputError for a table that is not in `known`. A known name that ends in "." admits every table below it.
void check_tables(const TomlDocument& document, const std::vector<std::string>& known);

/// `text` as a TOML basic string, to be given back to parse_toml_value.
std::string toml_quoted(std::string_view text);

/// A number that reads back as one, never as a whole number: "64.0", "1e-08".
std::string toml_number(double value);

/// The value as it was written, for messages.
std::string shown(const TomlValue& value);

}  // namespace penstock
