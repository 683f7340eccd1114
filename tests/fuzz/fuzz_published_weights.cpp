// Weights of a model whose header was changed in a few places, as the input's bytes choose: they are accepted if and
// only if they are still the model's, by rules that are written down here once more.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "exec/checkpoint/state_source.h"
#include "shared/error.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/fuzz/input_file.h"

namespace {

using namespace penstock;

constexpr std::size_t kMostEdits = 4;
constexpr std::pair<const char*, std::int64_t> kDtypes[] = {{"F32", 4}, {"BF16", 2}, {"F16", 2},
                                                            {"F64", 8}, {"I8", 1},   {"F8_E4M3", 1}};

struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;

  std::int64_t bytes_by_shape() const {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    for (const auto& [known, bytes] : kDtypes)
      if (dtype == known) return elements * bytes;
    return -1;
  }
};

/// The input's bytes one by one; zeros behind its end.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool done() const { return at_ >= size_; }
  std::size_t below(std::size_t bound) { return done() ? 0 : data_[at_++] % bound; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

std::vector<Entry> right_entries(const Model& model) {
  std::vector<Entry> entries;
  std::int64_t at = 0;
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      entries.push_back({tensor.name, "F32", exec::stored_shape(tensor), at, at + 4 * tensor.elements()});
      at = entries.back().end;
    }
  return entries;
}

void edit(std::vector<Entry>& entries, Choices& choices) {
  const std::size_t at = choices.below(entries.size());
  Entry& entry = entries[at];
  switch (choices.below(10)) {
    case 0: std::reverse(entry.shape.begin(), entry.shape.end()); break;
    case 1: entry.dtype = kDtypes[choices.below(std::size(kDtypes))].first; break;
    case 2: entry.shape.push_back(1); break;
    case 3:
      if (!entry.shape.empty()) entry.shape.pop_back();
      break;
    case 4:
      if (!entry.shape.empty()) entry.shape[0] += static_cast<std::int64_t>(choices.below(3)) - 1;
      break;
    case 5: entry.begin += static_cast<std::int64_t>(choices.below(9)) - 4; break;
    case 6: entry.end += static_cast<std::int64_t>(choices.below(9)) - 4; break;
    case 7: entry.name = entries[choices.below(entries.size())].name; break;
    case 8: entry.name += choices.below(2) == 0 ? "_scale" : ""; break;
    default:
      if (entries.size() > 1) entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

bool is_right(std::vector<Entry> entries, const std::vector<Entry>& needed, std::int64_t data_bytes) {
  std::set<std::string> names;
  for (const Entry& entry : entries) {
    const auto same = std::find_if(needed.begin(), needed.end(), [&](const Entry& e) { return e.name == entry.name; });
    const bool is_read = entry.dtype == "F32" || entry.dtype == "BF16" || entry.dtype == "F16";
    if (!names.insert(entry.name).second || same == needed.end() || same->shape != entry.shape || !is_read)
      return false;
    if (entry.begin < 0 || entry.end - entry.begin != entry.bytes_by_shape()) return false;
  }
  if (names.size() != needed.size()) return false;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  std::int64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) return false;
    at = entry.end;
  }
  return at == data_bytes;
}

/// By hand, so that a name may stand twice.
std::string header_of(const std::vector<Entry>& entries) {
  std::string text = "{";
  for (const Entry& entry : entries) {
    const nlohmann::json tensor = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
    if (text.size() > 1) text += ',';
    text += nlohmann::json(entry.name).dump();
    text += ':';
    text += tensor.dump();
  }
  return text + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const InputFolder folder;
  static const Model model = make_model(exec::published_config());
  static const std::vector<Entry> needed = right_entries(model);
  Choices choices(data, size);
  std::vector<Entry> entries = needed;
  for (std::size_t i = 0; i < kMostEdits && !choices.done(); ++i) edit(entries, choices);
  // As long as the last one ends, or as the right ones do.
  std::int64_t bytes = needed.back().end;
  if (choices.below(2) == 1) bytes = std::max<std::int64_t>(0, entries.back().end);
  const auto path =
      folder.write("model.safetensors",
                   exec::safetensors_text(header_of(entries), std::string(static_cast<std::size_t>(bytes), '\0')));
  bool accepted = true;
  try {
    exec::published_states(path, model);
  } catch (const InputError&) {
    accepted = false;
  }
  if (accepted != is_right(entries, needed, bytes)) std::abort();
  return 0;
}
