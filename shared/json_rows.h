// Long lists in JSON files, element by element. Of a file nothing stays in memory but one element and what is not in
// such a list: a schedule of a gigabyte takes no more than what is kept of it. Include only from .cpp files.
//
// An element is a flat list of items, so that one costs no allocation; whatever is wrong with it is put into words by
// the readers of shared/json_reader.h, from the tree that it would have been.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/json_input.h"
#include "shared/json_reader.h"

namespace penstock {

struct JsonItem {
  enum class Kind : std::uint8_t { null, boolean, integer, large, number, text, list, object, key };
  struct Text {
    std::uint32_t begin, size;
  };

  Kind kind = Kind::null;
  std::uint32_t end = 0;  // of a list or object: the item behind its last
  union {
    std::int64_t integer = 0;  // also boolean
    std::uint64_t large;       // beyond std::int64_t
    double number;
    Text text;  // in the element's texts
  };
};

/// An element as it was read, until the next one is.
struct JsonElement {
  std::vector<JsonItem> items;
  std::string texts;
};

/// A value in an element.
class JsonValue {
 public:
  JsonValue(const JsonElement& element, std::uint32_t index) : element_(&element), index_(index) {}

  bool is_list() const { return item().kind == JsonItem::Kind::list; }
  bool is_object() const { return item().kind == JsonItem::Kind::object; }
  bool is_text() const { return item().kind == JsonItem::Kind::text; }
  /// REQUIRES: is_text(), or a key.
  std::string_view text() const { return {element_->texts.data() + item().text.begin, item().text.size}; }
  /// A whole number from `low` to `high`; none if it is something else.
  std::optional<std::int64_t> integer(std::int64_t low, std::int64_t high) const {
    if (item().kind != JsonItem::Kind::integer || item().integer < low || item().integer > high) return std::nullopt;
    return item().integer;
  }
  /// A number from `low` to `high`.
  std::optional<double> number(double low, double high) const;
  bool is_null() const { return item().kind == JsonItem::Kind::null; }

  /// What a list holds, from `begin` to `end` by `next`; of an object: key, value, key, value, ...
  JsonValue begin() const { return {*element_, index_ + 1}; }
  JsonValue next() const { return {*element_, is_list() || is_object() ? item().end : index_ + 1}; }
  JsonValue end() const { return {*element_, item().end}; }
  bool operator==(const JsonValue& other) const { return index_ == other.index_; }
  std::size_t size() const;

  nlohmann::json tree() const;

 private:
  const JsonItem& item() const { return element_->items[index_]; }

  const JsonElement* element_;
  std::uint32_t index_;
};

/// JsonObject for an element that is an object: the same strictness, the same messages.
class JsonRow {
 public:
  /// `list` is the place of the list ("x.json.ops") and must outlive the row.
  JsonRow(JsonValue value, const std::string& list, std::size_t index);

  bool has(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high);
  std::string_view text(const char* key);
  int choice(const char* key, std::span<const std::string_view> names);
  JsonValue list(const char* key);
  void finish() const;

  std::string place() const;
  [[noreturn]] void fail(const char* key, const std::string& what) const;

 private:
  std::optional<JsonValue> ask(const char* key);
  /// Has `question` answered by a JsonObject, which throws.
  [[noreturn]] void refuse(const std::function<void(JsonObject&)>& question) const;

  JsonValue value_;
  const std::string& list_;
  std::size_t index_;
  std::uint64_t asked_ = 0;  // bit by member; of more than 64 some are unknown
};

/// A list of the top object that may be long.
struct JsonList {
  const char* key;
  std::size_t most;  // elements
  std::function<void(JsonValue element, std::size_t index)> take;
};

/// Reads an object, hands the elements of `lists` over as they come, and returns the rest, with an empty list in the
/// place of each long one. `seen` is called for each key of the rest, after its value.
nlohmann::json read_json_rows(JsonInput& input, std::span<const JsonList> lists,
                              const std::function<void(const nlohmann::json& top, const std::string& key)>& seen = {});

/// Makes room for the rows of one list, of at most `most`. Doubling would hold them twice for a moment; instead the
/// room for all that are still to come is reserved, if they are as long as those of late.
class JsonRoom {
 public:
  JsonRoom(const JsonInput& input, std::size_t most) : input_(input), most_(most) {}

  template <typename Row>
  void make(std::vector<Row>& rows) {
    if (rows.size() == rows.capacity()) rows.reserve(wanted(rows.size()));
  }

 private:
  std::size_t wanted(std::size_t rows);

  const JsonInput& input_;
  std::size_t most_;
  std::size_t rows_ = 0;
  std::int64_t position_ = 0;  // when there were so many rows
};

}  // namespace penstock
