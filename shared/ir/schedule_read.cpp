// The reading half of schedule_json.h. Strict: whatever is not exactly of the format is refused with its place.
#include <fmt/format.h>

#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "shared/error.h"
#include "shared/ir/limits.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/json_reader.h"
#include "shared/json_rows.h"
#include "shared/model/frozen_layers.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxFileBytes = std::int64_t{2} << 30;  // the largest that a policy writes has 1.3 GB
constexpr std::string_view kFormat = "penstock-schedule/1";
constexpr std::string_view kFormatOfRows = "penstock-schedule/2";  // says what the rows are
constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr std::int64_t kMaxElements = kMaxBytes / 16;
constexpr int kMaxDevices = 1024;
constexpr int kMaxThreads = 65536;

/// One place in a list of the file, put into words only when something is wrong there.
struct Place {
  const std::string& file;
  const char* list;  // "initial", "ops", ...
  std::size_t index;
  const char* within = "";  // "reads": of ops
  std::size_t within_index = 0;

  std::string text() const {
    const std::string row = fmt::format("{}.{}[{}]", file, list, index);
    return *within ? fmt::format("{}.{}[{}]", row, within, within_index) : row;
  }
  template <typename... Args>
  [[noreturn]] void fail(const char* part, fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError(
        fmt::format("{}{}{}: {}", text(), *part ? "." : "", part, fmt::format(format, std::forward<Args>(args)...)));
  }
};

std::int64_t whole_number(JsonValue value, const Place& place, const char* part, std::int64_t low, std::int64_t high) {
  if (const auto number = value.integer(low, high)) return *number;
  place.fail(part, "expected a whole number from {} to {}, found {}", low, high, shown(value.tree()));
}

/// The values of a list of `size`.
template <std::size_t size>
std::array<JsonValue, size> row(JsonValue value, const Place& place, const char* what) {
  if (!value.is_list() || value.size() != size) place.fail("", "expected {}, found {}", what, shown(value.tree()));
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    JsonValue at = value.begin();
    return std::array{(i == 0 ? at : at = at.next())...};
  }
  (std::make_index_sequence<size>());
}

/// Lists may stand in any order: what one says of another is looked at when all is there.
class Reader {
 public:
  explicit Reader(JsonInput& input) : input_(input), place_(input.place()) {}

  Schedule read() {
    const JsonList lists[] = {
        {"buffers", kMaxOps, [&](JsonValue item, std::size_t i) { add(schedule_.buffers, buffer(item, i)); }},
        {"initial", kMaxInitial,
         [&](JsonValue item, std::size_t i) {
           add(schedule_.initial, access(item, {place_, "initial", i}));
         }},
        {"ops", kMaxOps, [&](JsonValue item, std::size_t i) { add(schedule_.ops, op(item, i)); }},
        {"edges", kMaxEdges, [&](JsonValue item, std::size_t i) { add(schedule_.edges, edge(item, i)); }},
    };
    const json head = read_json_rows(input_, lists, [&](const json& top, const std::string& key) {
      if (key == "format") check_format(JsonObject(top, place_));  // before lists of another kind of file are blamed
    });
    JsonObject top(head, place_);
    check_format(top);
    read_head(top);
    for (const JsonList& list : lists) top.array(list.key);
    top.finish();
    check_references();
    return std::move(schedule_);
  }

 private:
  void check_format(JsonObject top) const {
    if (const std::string format = top.text("format"); format != kFormat && format != kFormatOfRows)
      top.fail("format", fmt::format("this program reads \"{}\" and \"{}\", found \"{}\"", kFormat, kFormatOfRows,
                                     format.substr(0, 60)));
  }

  void read_head(JsonObject& top) {
    top.text("format");
    schedule_.policy = top.text("policy");
    read_model(top.object("model"));
    read_batch(top);
    each(top, "tiers", kMaxDevices,
         [&](const json& item, std::string at) { schedule_.tiers.push_back(tier(item, at)); });
    each(top, "lanes", kMaxLanes, [&](const json& item, std::string at) { schedule_.lanes.push_back(lane(item, at)); });
  }

  template <typename Read>
  void each(JsonObject& top, const char* key, std::size_t most, Read read) {
    const json& list = top.array(key);
    if (list.size() > most) top.fail(key, fmt::format("{} entries: expected at most {}", list.size(), most));
    for (std::size_t i = 0; i < list.size(); ++i) read(list[i], fmt::format("{}[{}]", top.place(key), i));
  }

  template <typename Item>
  void add(std::vector<Item>& items, Item&& item) {
    std::get<Room<Item>>(rooms_).room.make(items);
    items.push_back(std::move(item));
  }

  static int small(JsonObject& object, const char* key, std::int64_t low, std::int64_t high) {
    return static_cast<int>(object.integer(key, low, high));
  }
  static int small(JsonRow& object, const char* key, std::int64_t low, std::int64_t high) {
    return static_cast<int>(object.integer(key, low, high));
  }

  template <typename Enum, typename Object>
  static Enum word(Object& object, const char* key, std::span<const std::string_view> names) {
    return static_cast<Enum>(object.choice(key, names));
  }

  // --- the head

  /// Which ones a model can have is checked behind.
  static std::vector<int> layers(JsonObject& object, const char* key) {
    std::vector<int> found;
    for (const nlohmann::json& layer : object.array(key)) {
      if (!layer.is_number_integer() || layer < 0 || layer > largest_size("num_hidden_layers") + 1)
        object.fail(key, fmt::format("expected layers, found {}", shown(layer)));
      found.push_back(layer.get<int>());
    }
    return found;
  }

  static void read_experts(JsonObject object, Experts& experts) {
    experts.count = object.integer("count", 1, largest_size("num_experts"));
    experts.per_token = object.integer("per_token", 1, experts.count);
    experts.intermediate = object.integer("intermediate", 1, largest_size("moe_intermediate_size"));
    experts.normalised = object.boolean("normalised");
    experts.balance = object.number("balance", 0, 1e3);
    experts.every = object.integer("every", 1, largest_size("decoder_sparse_step"));
    experts.dense_layers = layers(object, "dense_layers");
    object.finish();
  }

  void read_model(JsonObject object) {
    ModelConfig& c = schedule_.model;
    constexpr std::int64_t kMost = std::int64_t{1} << 40;  // check_model_config is stricter
    constexpr double kLargest = std::numeric_limits<double>::max();
    c.name = object.text("name");
    c.family = word<ModelFamily>(object, "family", model_family_names());
    for (auto [key, number] : {std::pair{"hidden", &c.hidden},
                               {"intermediate", &c.intermediate},
                               {"decoder_layers", &c.decoder_layers},
                               {"heads", &c.heads},
                               {"kv_heads", &c.kv_heads},
                               {"head_dim", &c.head_dim},
                               {"vocabulary", &c.vocabulary},
                               {"max_positions", &c.max_positions},
                               {"rope_original_positions", &c.rope_original_positions}})
      *number = object.integer(key, 0, kMost);
    for (auto [key, number] : {std::pair{"rms_epsilon", &c.rms_epsilon},
                               {"rope_theta", &c.rope_theta},
                               {"rope_factor", &c.rope_factor},
                               {"rope_low_freq_factor", &c.rope_low_freq_factor},
                               {"rope_high_freq_factor", &c.rope_high_freq_factor}})
      *number = object.number(key, -kLargest, kLargest);
    if (object.has("sliding_window")) {
      c.sliding_window = object.integer("sliding_window", 1, kMost);
      c.window_layers = layers(object, "window_layers");
    }
    if (object.has("rope_scaling")) {
      c.rope_scaling = word<RopeScaling>(object, "rope_scaling", rope_scaling_names());
      if (c.rope_scaling == RopeScaling::none) object.fail("rope_scaling", "\"none\" is said by leaving the key away");
      c.rope_attention_factor = object.number("rope_attention_factor", 0, kLargest);
      c.rope_truncate = object.boolean("rope_truncate");
    }
    c.tied_embeddings = object.boolean("tied_embeddings");
    c.qkv_bias = object.boolean("qkv_bias");
    c.qk_norm = object.boolean("qk_norm");
    if (object.has("qk_norm_whole")) c.qk_norm_whole = object.boolean("qk_norm_whole");
    if (object.has("experts")) read_experts(object.object("experts"), c.experts);
    if (object.has("frozen_layers")) c.frozen_layers = layers(object, "frozen_layers");
    object.finish();
    check_model_config(c, place_ + ".model");
    try {
      check_frozen_layers(c);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}.model.frozen_layers: {}", place_, error.what()));
    }
  }

  void read_batch(JsonObject& top) {
    JsonObject batch = top.object("micro_batch");
    schedule_.micro_batch.sequences = batch.integer("sequences", 1, kMaxTokens);
    schedule_.micro_batch.sequence_length = batch.integer("sequence_length", 1, kMaxTokens);
    if (top.text("format") == kFormatOfRows) read_rows(batch);
    if (batch.has("expert_skew")) schedule_.micro_batch.expert_skew = batch.number("expert_skew", 1, kMostExpertSkew);
    batch.finish();
    if (schedule_.micro_batch.sequences > kMaxTokens / schedule_.micro_batch.sequence_length)
      top.fail("micro_batch", fmt::format("expected at most {} tokens, found {} sequences of {}", kMaxTokens,
                                          schedule_.micro_batch.sequences, schedule_.micro_batch.sequence_length));
    schedule_.micro_batches = small(top, "micro_batches", 1, kMaxMicroBatches);
    check_chunks(top);
    schedule_.library_bytes = top.integer("library_bytes", 0, kMaxBytes);

    JsonObject object = top.object("numerics");
    Numerics& n = schedule_.numerics;
    n.states = word<StateFormat>(object, "states", state_format_names());
    n.moments = word<ElementType>(object, "moments", element_type_names());
    n.gradient_sum = word<ElementType>(object, "gradient_sum", element_type_names());
    n.gradient_link = word<ElementType>(object, "gradient_link", element_type_names());
    n.sum_on_host = object.boolean("sum_on_host");
    n.clip = object.boolean("clip");
    n.chunking.mlp_tokens = object.integer("mlp_tokens", 0, kMaxTokens);
    n.chunking.loss_tokens = object.integer("loss_tokens", 0, kMaxTokens);
    object.finish();
  }

  void read_rows(JsonObject& batch) {
    BatchShape& shape = schedule_.micro_batch;
    shape.kind = word<BatchKind>(batch, "rows", batch_kind_names());
    if (batch.has("chunk_tokens")) shape.chunk_tokens = batch.integer("chunk_tokens", 1, kMaxTokens);
    if (shape.kind == BatchKind::windows) return;
    const double most = static_cast<double>(shape.sequence_length) * static_cast<double>(shape.sequence_length);
    shape.squared_lengths = batch.number("squared_lengths", 0, most);
  }

  void check_chunks(JsonObject& top) const {
    const BatchShape& shape = schedule_.micro_batch;
    if (!shape.is_cut()) return;
    if (shape.sequences != 1 || shape.chunk_tokens >= shape.sequence_length)
      top.fail("micro_batch",
               fmt::format("expected one sequence that is longer than chunk_tokens = {}, found {} of {} tokens",
                           shape.chunk_tokens, shape.sequences, shape.sequence_length));
    if ((shape.sequence_length - 1) / shape.chunk_tokens >= kMaxChunks)
      top.fail("micro_batch", fmt::format("expected at most {} chunks of a sequence, found chunks of {} of {} tokens",
                                          kMaxChunks, shape.chunk_tokens, shape.sequence_length));
    if (schedule_.micro_batches % schedule_.chunks() != 0)
      top.fail("micro_batches", fmt::format("expected a multiple of the {} chunks of a sequence, found {}",
                                            schedule_.chunks(), schedule_.micro_batches));
  }

  static Tier tier(const json& item, const std::string& at) {
    JsonObject object(item, at);
    Tier tier;
    tier.kind = word<TierKind>(object, "kind", tier_names());
    tier.device = small(object, "device", 0, kMaxDevices);
    tier.capacity_bytes = object.integer("capacity_bytes", 0, kMaxBytes);
    object.finish();
    return tier;
  }

  static Lane lane(const json& item, const std::string& at) {
    JsonObject object(item, at);
    Lane lane;
    lane.name = object.text("name");
    lane.kind = word<LaneKind>(object, "kind", lane_kind_names());
    lane.device = small(object, "device", 0, kMaxDevices);
    object.finish();
    return lane;
  }

  // --- rows

  Buffer buffer(JsonValue item, std::size_t index) {
    JsonRow object(item, buffers_place_, index);
    Buffer buffer;
    buffer.name = object.text("name");
    buffer.tier = small(object, "tier", 0, kMaxCount);
    buffer.offset_bytes = object.integer("offset_bytes", 0, kMaxBytes);
    buffer.bytes = object.integer("bytes", 0, kMaxBytes);
    object.finish();
    return buffer;
  }

  Access access(JsonValue item, const Place& place) const {
    const auto [buffer, offset, bytes, label] = row<4>(item, place, "[buffer, offset_bytes, bytes, \"value\"]");
    Access access;
    access.buffer = static_cast<int>(whole_number(buffer, place, "buffer", 0, kMaxCount));
    access.offset_bytes = whole_number(offset, place, "offset_bytes", 0, kMaxBytes);
    access.bytes = whole_number(bytes, place, "bytes", 0, kMaxBytes);
    const auto value = label.is_text() ? parse_value_label(label.text()) : std::nullopt;
    if (!value)
      place.fail("value", "expected a label such as \"weights/3@0\" or \"boundary/4@0#2\", found {}",
                 shown(label.tree()));
    access.value = *value;
    return access;
  }

  std::vector<Access> accesses(JsonRow& object, const char* key, std::size_t op) const {
    std::vector<Access> found;
    if (!object.has(key)) return found;
    const JsonValue list = object.list(key);
    found.reserve(list.size());
    for (JsonValue item = list.begin(); !(item == list.end()); item = item.next())
      found.push_back(access(item, {place_, "ops", op, key, found.size()}));
    return found;
  }

  Op op(JsonValue item, std::size_t index) {
    JsonRow object(item, ops_place_, index);
    Op op;
    op.id = small(object, "id", 0, kMaxCount);
    if (op.id != static_cast<int>(index))
      object.fail("id", fmt::format("{}, but ids count from 0 in the order of the list: {} is right", op.id, index));
    op.name = object.text("name");
    op.lane = small(object, "lane", 0, kMaxCount);
    if (object.has("layer")) op.layer = small(object, "layer", 0, kMaxCount);
    if (object.has("micro_batch")) op.micro_batch = small(object, "micro_batch", 0, kMaxCount);
    op.phase = word<Phase>(object, "phase", phase_names());
    op.reads = accesses(object, "reads", index);
    op.writes = accesses(object, "writes", index);
    op.work = work(object, op);
    object.finish();
    return op;
  }

  Work work(JsonRow& object, const Op& op) const {
    const auto elements = [&] { return object.integer("elements", 0, kMaxElements); };
    const auto threads = [&] { return small(object, "threads", 1, kMaxThreads); };
    const int kind = object.choice("work", work_names());
    switch (kind) {
      case 0: return copy(object, op);
      case 1: {
        TemplateWork bound;
        bound.kind = word<LayerKind>(object, "template", layer_kind_names());
        bound.pass = word<Pass>(object, "pass", pass_names());
        bound.keep = word<Keep>(object, "keep", keep_names());
        return bound;
      }
      case 2: return OptimizerWork{elements(), threads()};
      case 3: return AccumulateWork{elements(), threads()};
      case 4: return FinishGradientWork{elements(), threads()};
      case 5: return StepScalarsWork{};
      case 6: return InputWork{};
      case 7: return ReportWork{};
      case 8: return WaitWork{small(object, "op", 0, kMaxCount), small(object, "distance", 0, 1)};
      default: return HostPassWork{object.integer("traffic_bytes", 0, kMaxBytes), threads()};
    }
  }

  CopyWork copy(JsonRow& object, const Op& op) const {
    CopyWork copy;
    const JsonValue list = object.list("bursts");
    copy.bursts.reserve(list.size());
    std::int64_t sum = 0;
    for (JsonValue item = list.begin(); !(item == list.end()); item = item.next()) {
      const Place place{place_, "ops", static_cast<std::size_t>(op.id), "bursts", copy.bursts.size()};
      const auto [bytes, count] = row<2>(item, place, "[bytes, count]");
      const Burst burst{whole_number(bytes, place, "bytes", 1, kMaxBytes),
                        whole_number(count, place, "count", 1, kMaxCount)};
      if (burst.count > (kMaxBytes - sum) / burst.bytes) place.fail("count", "the bursts sum to more than 2^60 bytes");
      sum += burst.bytes * burst.count;
      copy.bursts.push_back(burst);
    }
    if (object.has("threads")) copy.threads = small(object, "threads", 1, kMaxThreads);
    const std::int64_t bytes = op.reads.empty() ? 0 : op.reads[0].bytes;
    if (sum != bytes) object.fail("bursts", fmt::format("they sum to {} bytes, but the op reads {}", sum, bytes));
    return copy;
  }

  Edge edge(JsonValue item, std::size_t index) const {
    const Place place{place_, "edges", index};
    const auto [from, to, distance] = row<3>(item, place, "[from, to, distance]");
    return {static_cast<int>(whole_number(from, place, "from", 0, kMaxCount)),
            static_cast<int>(whole_number(to, place, "to", 0, kMaxCount)),
            static_cast<int>(whole_number(distance, place, "distance", 0, 1))};
  }

  // --- what one list says of another

  /// `index` must be below `count`.
  static void check_index(const Place& place, const char* part, int index, std::size_t count, const char* what) {
    if (index >= static_cast<std::int64_t>(count)) place.fail(part, "{}, but there are {} {}", index, count, what);
  }

  void check_references() const {
    const Schedule& s = schedule_;
    for (std::size_t i = 0; i < s.buffers.size(); ++i)
      check_index({place_, "buffers", i}, "tier", s.buffers[i].tier, s.tiers.size(), "tiers");
    for (std::size_t i = 0; i < s.initial.size(); ++i) check_access(s.initial[i], {place_, "initial", i});
    for (std::size_t i = 0; i < s.ops.size(); ++i) check_op(s.ops[i], {place_, "ops", i});
    for (std::size_t i = 0; i < s.edges.size(); ++i) {
      check_index({place_, "edges", i}, "from", s.edges[i].from, s.ops.size(), "ops");
      check_index({place_, "edges", i}, "to", s.edges[i].to, s.ops.size(), "ops");
    }
  }

  void check_op(const Op& op, const Place& place) const {
    const Schedule& s = schedule_;
    check_index(place, "lane", op.lane, s.lanes.size(), "lanes");
    check_index(place, "layer", op.layer, static_cast<std::size_t>(s.model.decoder_layers) + 2, "layers");
    check_index(place, "micro_batch", op.micro_batch, static_cast<std::size_t>(s.micro_batches), "micro-batches");
    for (std::size_t i = 0; i < op.reads.size(); ++i)
      check_access(op.reads[i], {place_, "ops", place.index, "reads", i});
    for (std::size_t i = 0; i < op.writes.size(); ++i)
      check_access(op.writes[i], {place_, "ops", place.index, "writes", i});
    if (const auto* wait = std::get_if<WaitWork>(&op.work)) check_index(place, "op", wait->op, s.ops.size(), "ops");
  }

  void check_access(const Access& access, const Place& place) const {
    check_index(place, "buffer", access.buffer, schedule_.buffers.size(), "buffers");
    const Buffer& within = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
    if (access.offset_bytes + access.bytes > within.bytes)
      place.fail("bytes", "the range ends at byte {} of buffer '{}', which has {}", access.offset_bytes + access.bytes,
                 within.name, within.bytes);
    const Value& value = access.value;
    if (value.layer > schedule_.model.decoder_layers + 1)
      place.fail("value", "\"{}\", but the last layer is {}", value_label(value), schedule_.model.decoder_layers + 1);
    if (value.micro_batch >= schedule_.micro_batches)
      place.fail("value", "\"{}\", but there are {} micro-batches", value_label(value), schedule_.micro_batches);
  }

  /// Of each long list its own.
  template <typename Item>
  struct Room {
    JsonRoom room;
  };

  JsonInput& input_;
  std::string place_, buffers_place_ = place_ + ".buffers", ops_place_ = place_ + ".ops";
  Schedule schedule_;
  std::tuple<Room<Buffer>, Room<Access>, Room<Op>, Room<Edge>> rooms_{{JsonRoom(input_, kMaxOps)},
                                                                      {JsonRoom(input_, kMaxInitial)},
                                                                      {JsonRoom(input_, kMaxOps)},
                                                                      {JsonRoom(input_, kMaxEdges)}};
};

}  // namespace

Schedule parse_schedule(const std::string& text, const std::string& place) {
  JsonInput input(text, place);
  return Reader(input).read();
}

Schedule read_schedule(const std::filesystem::path& path) {
  JsonInput input(path, kMaxFileBytes);
  return Reader(input).read();
}

}  // namespace penstock
