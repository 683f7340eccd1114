// Where JSON comes from: a text, or a file that is read window by window and never held. Include only from .cpp files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "shared/error.h"
#include "shared/files.h"

namespace penstock {

/// What the parser reads from. Refuses what would make it allocate without bound before it says a word: a text, a
/// number or blanks of more than kMostSilentBytes. And zero bytes, which the parser takes for the end.
class JsonInput final : public std::streambuf {
 public:
  /// `text` must outlive it.
  JsonInput(std::string_view text, std::string place);
  /// Throws as InputFile does.
  JsonInput(const std::filesystem::path& path, std::int64_t max_bytes);

  static constexpr std::int64_t kWindow = 64 << 10;
  static constexpr std::int64_t kMostSilentBytes = 4 << 20;

  const std::string& place() const { return place_; }
  std::int64_t size() const { return size_; }
  /// Bytes that the parser has taken so far.
  std::int64_t position() const { return position_ - (egptr() - gptr()); }
  /// The parser has said something.
  void heard() { silent_bytes_ = 0; }
  /// Whether the first thing in it is what JSON files begin with.
  bool begins_as_json() const { return begins_ == '{' || begins_ == '['; }

 protected:
  int_type underflow() override;

 private:
  std::string_view next_window();
  void look_at(std::string_view window);

  std::string place_;
  std::string_view rest_;  // of a text
  std::optional<InputFile> file_;
  std::vector<char> window_;
  std::int64_t size_ = 0, position_ = 0, silent_bytes_ = 0;  // position: of the window's end
  char begins_ = 0;
};

/// Throws InputError for what the parser said.
[[noreturn]] void refuse_json(const JsonInput& input, const nlohmann::json::exception& error);

/// Builds a tree from the parser's events. Objects with a key twice, more nesting than kMostDepth and more than `most`
/// values are refused.
class JsonTree {
 public:
  JsonTree(const JsonInput& input, std::size_t most) : input_(input), most_(most) {}

  static constexpr std::size_t kMostDepth = 100;

  void value(nlohmann::json scalar) { add(std::move(scalar)); }
  void open(nlohmann::json container);
  void close() { open_.pop_back(); }
  void key(const std::string& name);
  /// How many containers are open.
  std::size_t depth() const { return open_.size(); }
  const nlohmann::json& root() const { return root_; }
  nlohmann::json take() { return std::move(root_); }

 private:
  nlohmann::json* add(nlohmann::json value);

  const JsonInput& input_;
  std::size_t most_, values_ = 0;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  nlohmann::json* member_ = nullptr;  // the value that the last key waits for
};

/// What the parser calls, for a class with `on_scalar` (of null, bool, 64-bit integers, double and text), `on_open`
/// (of a list or not), `on_key` and `on_close`, which derives from this with itself as the argument.
template <typename Handler>
class JsonEvents {
 public:
  using json = nlohmann::json;

  explicit JsonEvents(JsonInput& input) : input_(input) {}

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(std::int64_t value) { return scalar(value); }
  bool number_unsigned(std::uint64_t value) { return scalar(value); }
  bool number_float(double value, const std::string&) { return scalar(value); }
  bool string(std::string& value) { return scalar(std::string_view(value)); }
  bool binary(json::binary_t&) { return false; }  // JSON has none
  bool start_object(std::size_t) { return open(false); }
  bool start_array(std::size_t) { return open(true); }
  bool key(std::string& name) {
    input_.heard();
    self().on_key(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) { refuse_json(input_, error); }

 private:
  Handler& self() { return static_cast<Handler&>(*this); }
  template <typename Value>
  bool scalar(Value value) {
    input_.heard();
    self().on_scalar(value);
    return true;
  }
  bool open(bool list) {
    input_.heard();
    self().on_open(list);
    return true;
  }
  bool close() {
    input_.heard();
    self().on_close();
    return true;
  }

  JsonInput& input_;
};

template <typename Handler>
void parse_events(JsonInput& input, Handler& handler) {
  std::istream stream(&input);
  nlohmann::json::sax_parse(stream, &handler);
}

}  // namespace penstock
