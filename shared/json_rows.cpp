#include "shared/json_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "shared/error.h"

namespace penstock {

using nlohmann::json;
using Kind = JsonItem::Kind;

// --- values -------------------------------------------------------------------------------------------------------

std::optional<double> JsonValue::number(double low, double high) const {
  const JsonItem& item = this->item();
  double number = 0;
  switch (item.kind) {
    case Kind::integer: number = static_cast<double>(item.integer); break;
    case Kind::large: number = static_cast<double>(item.large); break;
    case Kind::number: number = item.number; break;
    default: return std::nullopt;
  }
  if (!(number >= low && number <= high)) return std::nullopt;
  return number;
}

std::size_t JsonValue::size() const {
  std::size_t count = 0;
  for (JsonValue at = begin(); !(at == end()); at = at.next()) ++count;
  return count;
}

json JsonValue::tree() const {
  switch (item().kind) {
    case Kind::null: return nullptr;
    case Kind::boolean: return item().integer != 0;
    case Kind::integer:
      if (item().integer >= 0) return static_cast<std::uint64_t>(item().integer);
      return item().integer;
    case Kind::large: return item().large;
    case Kind::number: return item().number;
    case Kind::text:
    case Kind::key: return text();
    case Kind::list: {
      json list = json::array();
      for (JsonValue at = begin(); !(at == end()); at = at.next()) list.push_back(at.tree());
      return list;
    }
    case Kind::object: {
      json object = json::object();
      for (JsonValue key = begin(); !(key == end()); key = key.next().next())
        object.emplace(key.text(), key.next().tree());
      return object;
    }
  }
  return nullptr;
}

// --- objects ------------------------------------------------------------------------------------------------------

JsonRow::JsonRow(JsonValue value, const std::string& list, std::size_t index)
    : value_(value), list_(list), index_(index) {
  if (!value_.is_object()) refuse([](JsonObject&) {});
}

std::string JsonRow::place() const { return fmt::format("{}[{}]", list_, index_); }

void JsonRow::fail(const char* key, const std::string& what) const {
  throw InputError(fmt::format("{}.{}: {}", place(), key, what));
}

void JsonRow::refuse(const std::function<void(JsonObject&)>& question) const {
  const json tree = value_.tree();
  JsonObject object(tree, place());
  std::size_t member = 0;
  for (JsonValue key = value_.begin(); !(key == value_.end()); key = key.next().next(), ++member)
    if (member < 64 && (asked_ >> member & 1u)) object.value(std::string(key.text()).c_str());
  question(object);
  throw std::logic_error(place() + ": was refused for nothing");
}

bool JsonRow::has(const char* key) const {
  for (JsonValue at = value_.begin(); !(at == value_.end()); at = at.next().next())
    if (at.text() == key) return true;
  return false;
}

std::optional<JsonValue> JsonRow::ask(const char* key) {
  std::size_t member = 0;
  for (JsonValue at = value_.begin(); !(at == value_.end()); at = at.next().next(), ++member)
    if (at.text() == key) {
      if (member < 64) asked_ |= std::uint64_t{1} << member;
      return at.next();
    }
  return std::nullopt;
}

std::int64_t JsonRow::integer(const char* key, std::int64_t low, std::int64_t high) {
  if (const auto found = ask(key))
    if (const auto number = found->integer(low, high)) return *number;
  refuse([&](JsonObject& object) { object.integer(key, low, high); });
}

std::string_view JsonRow::text(const char* key) {
  if (const auto found = ask(key); found && found->is_text()) return found->text();
  refuse([&](JsonObject& object) { object.text(key); });
}

int JsonRow::choice(const char* key, std::span<const std::string_view> names) {
  if (const auto found = ask(key); found && found->is_text())
    if (const auto at = std::find(names.begin(), names.end(), found->text()); at != names.end())
      return static_cast<int>(at - names.begin());
  refuse([&](JsonObject& object) { object.choice(key, names); });
}

JsonValue JsonRow::list(const char* key) {
  if (const auto found = ask(key); found && found->is_list()) return *found;
  refuse([&](JsonObject& object) { object.array(key); });
}

void JsonRow::finish() const {
  std::size_t member = 0;
  for (JsonValue key = value_.begin(); !(key == value_.end()); key = key.next().next(), ++member) {
    if (member < 64 && (asked_ >> member & 1u)) continue;
    for (JsonValue earlier = value_.begin(); !(earlier == key); earlier = earlier.next().next())
      if (earlier.text() == key.text())
        throw InputError(fmt::format("{}: the key \"{}\" stands twice in one object; leave one of the two", place(),
                                     key.text().substr(0, 60)));
    refuse([](JsonObject& object) { object.finish(); });
  }
}

// --- reading ------------------------------------------------------------------------------------------------------

namespace {

/// Of what is not in a long list. Real files have some hundred.
constexpr std::size_t kMostInHead = 20'000;
/// Of one element: the norm of a model of 4096 layers reads as many values, each of five items.
constexpr std::size_t kMostItems = 1'000'000;
constexpr std::size_t kMostTextBytes = 16 << 20;

class RowReader : public JsonEvents<RowReader> {
 public:
  RowReader(JsonInput& input, std::span<const JsonList> lists,
            const std::function<void(const json&, const std::string&)>& seen)
      : JsonEvents(input), input_(input), lists_(lists), seen_(seen), head_(input, kMostInHead) {}

  json take() { return head_.take(); }

  template <typename Value>
  void on_scalar(Value value) {
    if (list_ == nullptr) {
      head_.value(value);
      after_head_value();
      return;
    }
    set(add_item(), value);
    if (open_.empty()) finish_element();
  }

  void on_open(bool is_list) {
    if (list_ != nullptr) {
      if (open_.size() == JsonTree::kMostDepth) refuse("nests more than {} deep", JsonTree::kMostDepth);
      add_item().kind = is_list ? Kind::list : Kind::object;
      open_.push_back(static_cast<std::uint32_t>(element_.items.size()) - 1);
      return;
    }
    const bool in_top = head_.depth() == 1 && head_.root().is_object();
    head_.open(is_list ? json::array() : json::object());
    if (!is_list || !in_top) return;
    for (const JsonList& list : lists_)
      if (key_ == list.key) list_ = &list;
    count_ = 0;
  }

  void on_key(const std::string& name) {
    if (list_ != nullptr) {
      JsonItem& item = add_item();
      set(item, std::string_view(name));
      item.kind = Kind::key;
      return;
    }
    head_.key(name);
    if (head_.depth() == 1) key_ = name;
  }

  void on_close() {
    if (list_ == nullptr || open_.empty()) {
      list_ = nullptr;
      head_.close();
      after_head_value();
      return;
    }
    element_.items[open_.back()].end = static_cast<std::uint32_t>(element_.items.size());
    open_.pop_back();
    if (open_.empty()) finish_element();
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError(fmt::format("{}.{}[{}]: {}; no such list read here has an element like that", input_.place(),
                                 list_->key, count_, fmt::format(format, std::forward<Args>(args)...)));
  }

  JsonItem& add_item() {
    if (element_.items.size() == kMostItems) refuse("holds more than {} values", kMostItems);
    return element_.items.emplace_back();
  }

  static void set(JsonItem& item, std::nullptr_t) { item.kind = Kind::null; }
  static void set(JsonItem& item, bool value) {
    item.kind = Kind::boolean;
    item.integer = value ? 1 : 0;
  }
  static void set(JsonItem& item, std::int64_t value) {
    item.kind = Kind::integer;
    item.integer = value;
  }
  static void set(JsonItem& item, std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) return set(item, static_cast<std::int64_t>(value));
    item.kind = Kind::large;
    item.large = value;
  }
  static void set(JsonItem& item, double value) {
    item.kind = Kind::number;
    item.number = value;
  }
  void set(JsonItem& item, std::string_view value) {
    if (value.size() > kMostTextBytes - element_.texts.size())
      refuse("has texts of more than {} bytes", kMostTextBytes);
    item.kind = Kind::text;
    item.text = {static_cast<std::uint32_t>(element_.texts.size()), static_cast<std::uint32_t>(value.size())};
    element_.texts.append(value);
  }

  void finish_element() {
    if (count_ == list_->most)
      throw InputError(fmt::format("{}.{}: more than {} entries, which are the most that it may have", input_.place(),
                                   list_->key, list_->most));
    list_->take({element_, 0}, count_++);
    element_.items.clear();
    element_.texts.clear();
  }

  void after_head_value() {
    if (head_.depth() == 1 && head_.root().is_object() && seen_) seen_(head_.root(), key_);
  }

  JsonInput& input_;
  std::span<const JsonList> lists_;
  const std::function<void(const json&, const std::string&)>& seen_;
  JsonTree head_;
  std::string key_;                 // of the top object
  const JsonList* list_ = nullptr;  // whose elements are being read
  std::size_t count_ = 0;           // of them
  JsonElement element_;
  std::vector<std::uint32_t> open_;  // lists and objects of the element
};

}  // namespace

json read_json_rows(JsonInput& input, std::span<const JsonList> lists,
                    const std::function<void(const json&, const std::string&)>& seen) {
  RowReader reader(input, lists, seen);
  parse_events(input, reader);
  return reader.take();
}

std::size_t JsonRoom::wanted(std::size_t rows) {
  constexpr std::size_t kFirst = 4096, kMostGrowth = 8;  // another list may follow
  if (rows < kFirst) return kFirst;
  const auto bytes = static_cast<double>(std::max<std::int64_t>(1, input_.position() - position_));
  const auto left = static_cast<double>(input_.size() - input_.position());
  const auto to_come = static_cast<std::size_t>(static_cast<double>(rows - rows_) / bytes * left);
  rows_ = rows;
  position_ = input_.position();
  return std::min({rows + rows / 32 + to_come, kMostGrowth * rows, std::max(most_, rows + 1)});
}

}  // namespace penstock
