#include "shared/json_input.h"

#include <fmt/format.h>

#include <cstring>

namespace penstock {

using nlohmann::json;

JsonInput::JsonInput(std::string_view text, std::string place)
    : place_(std::move(place)), rest_(text), size_(static_cast<std::int64_t>(text.size())) {}

JsonInput::JsonInput(const std::filesystem::path& path, std::int64_t max_bytes)
    : place_(path.string()), file_(std::in_place, path, max_bytes), window_(kWindow), size_(file_->size()) {}

JsonInput::int_type JsonInput::underflow() {
  const std::string_view window = next_window();
  if (window.empty()) return traits_type::eof();
  look_at(window);
  position_ += static_cast<std::int64_t>(window.size());
  char* begin = const_cast<char*>(window.data());  // a streambuf only reads from its get area
  setg(begin, begin, begin + window.size());
  return traits_type::to_int_type(*begin);
}

std::string_view JsonInput::next_window() {
  if (file_) return {window_.data(), file_->read(window_)};
  const std::string_view window = rest_.substr(0, kWindow);
  rest_.remove_prefix(window.size());
  return window;
}

void JsonInput::look_at(std::string_view window) {
  if (const auto zero = window.find('\0'); zero != std::string_view::npos)
    throw InputError(
        fmt::format("{}: is not JSON: byte {} is zero; the file is damaged or of another kind: take another copy, or "
                    "the right file",
                    place_, position_ + static_cast<std::int64_t>(zero)));
  if (begins_ == 0)
    if (const auto start = window.find_first_not_of("\xef\xbb\xbf \t\r\n"); start != std::string_view::npos)
      begins_ = window[start];
  if (silent_bytes_ > kMostSilentBytes)
    throw InputError(
        fmt::format("{}: the {} bytes before byte {} are one text, one number or blank; no JSON file read "
                    "here has one so long",
                    place_, silent_bytes_, position_));
  silent_bytes_ += static_cast<std::int64_t>(window.size());
}

void refuse_json(const JsonInput& input, const json::exception& error) {
  // The library's text has line and column behind its own tag "[json.exception.…] ".
  std::string_view what = error.what();
  if (const auto tag = what.find("] "); tag != std::string_view::npos) what.remove_prefix(tag + 2);
  throw InputError(fmt::format("{}: is not JSON: {}; {}", input.place(), what.substr(0, 300),
                               input.begins_as_json() ? "mend it there, or have the file written anew"
                                                      : "a JSON file begins with {: was another file meant?"));
}

json* JsonTree::add(json value) {
  if (++values_ > most_)
    throw InputError(fmt::format("{}: holds more than {} values; was another file meant?", input_.place(), most_));
  if (open_.empty()) {
    root_ = std::move(value);
    return &root_;
  }
  if (open_.back()->is_object()) {
    *member_ = std::move(value);
    return member_;
  }
  open_.back()->push_back(std::move(value));
  return &open_.back()->back();
}

void JsonTree::open(json container) {
  if (open_.size() == kMostDepth)
    throw InputError(
        fmt::format("{}: nests more than {} deep; no JSON file read here does", input_.place(), kMostDepth));
  open_.push_back(add(std::move(container)));
}

void JsonTree::key(const std::string& name) {
  const auto [at, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name);
  if (!is_new)
    throw InputError(fmt::format("{}: the key \"{}\" stands twice in one object; leave one of the two", input_.place(),
                                 name.substr(0, 60)));
  member_ = &at->second;
}

}  // namespace penstock
