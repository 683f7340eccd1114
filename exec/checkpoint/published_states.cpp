// Weights that somebody published, held against the model name by name before one of them is read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "exec/checkpoint/packed_experts.h"
#include "exec/checkpoint/state_source.h"
#include "exec/checkpoint/weight_files.h"
#include "exec/checkpoint/weight_hints.h"
#include "exec/optimizer/thread_team.h"
#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/ir/schedule_names.h"
#include "shared/model/rotary_frequencies.h"

namespace penstock::exec {
namespace {

constexpr std::string_view kBaseModel = "model.";  // what transformers puts before the names of a model without head
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kRotaryTable = "rotary_emb.inv_freq";
constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements compared at a time
// A table may have been rounded to bf16 (2^-9 of a value) or, far down, to the steps of fp16 (2^-24).
constexpr double kTableShare = 1.0 / 128, kTableStep = 1.0 / (1 << 24);

class PublishedStates : public StateSource {
 public:
  PublishedStates(const std::filesystem::path& path, const Model& model) : model_(model), files_(path) {
    // A base model that was saved alone (AutoModel) has the same names without "model.".
    base_names_ = files_.find(kEmbedding) == nullptr && files_.find(kEmbedding.substr(kBaseModel.size())) != nullptr;
    require_all();
    require_no_other();
    require_dtypes();
    require_shapes();
    files_.verify();
    require_tables();
    require_equal_head();
  }

  void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const override {
    if (part != StatePart::master) return std::fill(out.begin(), out.end(), 0.0f);
    const PackedPlace stored = stored_place(tensor);
    files_.read(stored.name, stored.first + first, out);
  }
  std::string place(const ParameterTensor& tensor, StatePart, std::int64_t index) const override {
    const PackedPlace stored = stored_place(tensor);
    return fmt::format("{}: {}{}", files_.find(stored.name)->file->path().string(), stored.name,
                       element_text(stored.shape, stored.first + index));
  }
  std::string describe() const override {
    std::string text = files_.describe();
    if (base_names_) text += "; its names lack \"model.\", as those of a model without head";
    if (!tables_.empty()) text += fmt::format("; {} rotary tables agree with config.json", tables_.size());
    if (head_beside_) text += fmt::format("; {} is equal to the embedding that it is tied to", kHead);
    return text;
  }

 private:
  template <class Body>
  void for_each_tensor(const Body& body) const {
    for (const Layer& layer : model_.layers)
      for (const ParameterTensor& tensor : layer.tensors) body(tensor);
  }
  std::string_view stored_name(std::string_view name) const {
    return base_names_ && name.starts_with(kBaseModel) ? name.substr(kBaseModel.size()) : name;
  }
  /// Under its own name, unless the files have the experts of a layer as one.
  PackedPlace stored_place(const ParameterTensor& tensor) const {
    const std::string_view own = stored_name(tensor.name);
    if (files_.find(own) == nullptr)
      if (std::optional<PackedPlace> packed = packed_place(tensor, model_.config)) {
        packed->name = stored_name(packed->name);
        if (files_.find(packed->name) != nullptr) return *std::move(packed);
      }
    return {std::string(own), stored_shape(tensor), 0};
  }
  std::string path() const { return files_.path().string(); }

  /// Names in the files beyond the model's, in and outside the index.
  std::vector<std::string> other_names() const {
    std::set<std::string, std::less<>> needed;
    for_each_tensor([&](const ParameterTensor& tensor) { needed.insert(stored_place(tensor).name); });
    std::vector<std::string> others;
    for (const WeightFiles::Sources* sources : {&files_.tensors(), &files_.unlisted()})
      for (const auto& [name, source] : *sources)
        if (!needed.contains(name)) others.emplace_back(name);
    return others;
  }

  void require_all() const {
    std::vector<std::string> missing, unlisted, names;
    std::size_t needed = 0;
    for_each_tensor([&](const ParameterTensor& tensor) {
      ++needed;
      const std::string name = stored_place(tensor).name;
      if (files_.find(name) != nullptr) return;
      missing.push_back(name);
      if (files_.unlisted().contains(name)) unlisted.push_back(name);
    });
    if (missing.empty()) return;
    for (const auto& [name, source] : files_.tensors()) names.emplace_back(name);
    std::string why = why_missing(missing, other_names(), decoder_layers_of(names), model_.config);
    if (!unlisted.empty())
      why = fmt::format("{} has {}, which the index does not list; take index and files of one download",
                        files_.unlisted().at(unlisted[0]).file->path().string(), some_of(unlisted));
    if (const std::filesystem::path index = files_.index_of(missing[0]); !index.empty())
      why = fmt::format("this is one of several files; name the index of all, {}", index.string());
    throw InputError(fmt::format("{}: the weights lack {} of the {} tensors that {} needs: {}; {}", path(),
                                 missing.size(), needed, model_.config.name, some_of(missing), why));
  }

  /// What is in the files and would not be used changes the model's mathematics, unless it follows from the rest.
  void require_no_other() {
    std::vector<std::string> unused;
    for (const std::string& name : other_names())
      if (name.ends_with(kRotaryTable) && files_.find(name) != nullptr)
        tables_.push_back(name);
      else if (name == kHead && model_.config.tied_embeddings && files_.find(name) != nullptr)
        head_beside_ = true;
      else
        unused.push_back(name);
    if (unused.empty()) return;
    const WeightFiles::Source* listed = files_.find(unused[0]);
    const WeightFiles::Source& source = listed != nullptr ? *listed : files_.unlisted().at(unused[0]);
    const std::string why = listed != nullptr ? why_unused(unused, model_.config)
                                              : "the index does not list them; take index and files of one download";
    throw InputError(fmt::format("{}: of its {} tensors {} ({}) would not use {}: {}; {}", source.file->path().string(),
                                 source.file->tensors().size(), model_.config.name,
                                 model_family_names()[static_cast<std::size_t>(model_.config.family)], unused.size(),
                                 some_of(unused), why));
  }

  void require_dtypes() const {
    std::vector<std::string> unreadable;
    for_each_tensor([&](const ParameterTensor& tensor) {
      const std::string name = stored_place(tensor).name;
      if (!files_.find(name)->tensor->type && (unreadable.empty() || unreadable.back() != name))
        unreadable.push_back(name);
    });
    if (unreadable.empty()) return;
    const WeightFiles::Source& first = *files_.find(unreadable[0]);
    const std::string more =
        unreadable.size() > 1 ? fmt::format(" ({} more in this or another that cannot be read)", unreadable.size() - 1)
                              : "";
    throw InputError(fmt::format("{}: {} is stored as {}{}; {} needs F32, BF16 or F16: {}", first.file->path().string(),
                                 unreadable[0], first.tensor->dtype, more, model_.config.name,
                                 what_about_dtype(first.tensor->dtype)));
  }

  void require_shapes() const {
    const ParameterTensor* first = nullptr;
    std::size_t others = 0;
    for_each_tensor([&](const ParameterTensor& tensor) {
      const PackedPlace stored = stored_place(tensor);
      if (files_.find(stored.name)->tensor->shape == stored.shape) return;
      others += first != nullptr ? 1 : 0;
      if (first == nullptr) first = &tensor;
    });
    if (first == nullptr) return;
    const PackedPlace stored = stored_place(*first);
    const WeightFiles::Source& source = *files_.find(stored.name);
    throw InputError(fmt::format("{}: {} has shape {}, {} needs {}{}; {}", source.file->path().string(), stored.name,
                                 shape_text(source.tensor->shape), model_.config.name, shape_text(stored.shape),
                                 others > 0 ? fmt::format(" (others that differ: {})", others) : "",
                                 stored.shape == stored_shape(*first)
                                     ? why_other_shape(*first, source.tensor->shape, model_.config)
                                     : "take the config.json that belongs to the weights"));
  }

  /// Old files have the inverse frequencies of the rotary embedding, which follow from config.json.
  void require_tables() const {
    const std::vector<double> frequencies = rotary_frequencies(model_.config, 1);  // a short sequence's
    const Shape shape{static_cast<std::int64_t>(frequencies.size())};
    for (const std::string& name : tables_) {
      const WeightFiles::Source& source = *files_.find(name);
      const std::string place = fmt::format("{}: {}", source.file->path().string(), name);
      if (source.tensor->shape != shape || !source.tensor->type)
        throw InputError(
            fmt::format("{} is {} {}, but config.json (head_dim) makes it {}: take the config.json that "
                        "belongs to the weights",
                        place, source.tensor->dtype, shape_text(source.tensor->shape), shape_text(shape)));
      std::vector<float> table(frequencies.size());
      files_.read(name, 0, table);
      for (std::size_t i = 0; i < table.size(); ++i)
        if (!(std::abs(table[i] - frequencies[i]) <= kTableShare * frequencies[i] + kTableStep))
          throw InputError(
              fmt::format("{}[{}] is {:.6g}, by config.json it is {:.6g} (rope_theta, rope_scaling): take "
                          "the config.json that belongs to the weights",
                          place, i, table[i], frequencies[i]));
    }
  }

  /// A head beside the embedding that it is tied to may be there, as a copy.
  void require_equal_head() const {
    if (!head_beside_) return;
    const WeightFiles::Source& head = *files_.find(kHead);
    const std::string_view embedding = stored_name(kEmbedding);
    const auto fail = [&](const std::string& how) {
      throw InputError(
          fmt::format("{}: {} {}, but config.json ties the two; tie_word_embeddings = false there uses both",
                      head.file->path().string(), kHead, how));
    };
    const StoredTensor& tied = *files_.find(embedding)->tensor;
    if (head.tensor->shape != tied.shape || !head.tensor->type)
      fail(fmt::format("is {} {}, the embedding {} {}", head.tensor->dtype, shape_text(head.tensor->shape), tied.dtype,
                       shape_text(tied.shape)));
    for_ranges(tied.elements, kPiece, usable_cores(), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> one, other;
      for (std::int64_t first = begin; first < end; first += kPiece) {
        one.resize(static_cast<std::size_t>(std::min(kPiece, end - first)));
        other.resize(one.size());
        files_.read(embedding, first, one);
        files_.read(kHead, first, other);
        const auto difference = std::mismatch(one.begin(), one.end(), other.begin(), [](float a, float b) {
          return a == b || (std::isnan(a) && std::isnan(b));  // those are found when they are loaded
        });
        if (difference.first == one.end()) continue;
        const std::int64_t at = first + (difference.first - one.begin());
        fail(fmt::format("differs from {} at [{}, {}] ({} and {})", embedding, at / tied.shape[1], at % tied.shape[1],
                         *difference.second, *difference.first));
      }
    });
  }

  const Model model_;
  WeightFiles files_;
  bool base_names_ = false;          // names lack "model."
  bool head_beside_ = false;         // a head stands beside the embedding that it is tied to
  std::vector<std::string> tables_;  // rotary tables in the files
};

}  // namespace

std::unique_ptr<StateSource> published_states(const std::filesystem::path& path, const Model& model) {
  return std::make_unique<PublishedStates>(path, model);
}

}  // namespace penstock::exec
