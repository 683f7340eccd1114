// The reading half of schedule_json.h. Strict: whatever is not exactly of the format is refused with its place.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "shared/error.h"
#include "shared/ir/limits.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/json_reader.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr std::int64_t kMaxElements = kMaxBytes / 16;
constexpr int kMaxDevices = 1024;
constexpr int kMaxThreads = 65536;

/// One place in the file, put into words only when something is wrong there.
struct Place {
  const JsonObject& object;
  const char* key;
  std::size_t index;

  template <typename... Args>
  [[noreturn]] void fail(const char* part, fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError(fmt::format("{}[{}]{}{}: {}", object.place(key), index, *part ? "." : "", part,
                                 fmt::format(format, std::forward<Args>(args)...)));
  }
};

std::int64_t whole_number(const json& value, const Place& place, const char* part, std::int64_t low,
                          std::int64_t high) {
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  if (!value.is_number_integer() || too_large || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    place.fail(part, "expected a whole number from {} to {}, found {}", low, high, shown(value));
  return value.get<std::int64_t>();
}

const json& row(const json& value, const Place& place, std::size_t size, const char* what) {
  if (!value.is_array() || value.size() != size) place.fail("", "expected {}, found {}", what, shown(value));
  return value;
}

class Reader {
 public:
  Reader(const json& document, const std::string& place) : place_(place), top_(document, place) {}

  Schedule read() {
    if (const std::string format = top_.text("format"); format != "penstock-schedule/1")
      top_.fail("format",
                fmt::format("this program reads \"penstock-schedule/1\", found \"{}\"", format.substr(0, 60)));
    schedule_.policy = top_.text("policy");
    read_model(top_.object("model"));
    read_head();
    each("tiers", kMaxDevices, [&](const json& item, std::string at) { schedule_.tiers.push_back(tier(item, at)); });
    each("lanes", kMaxLanes, [&](const json& item, std::string at) { schedule_.lanes.push_back(lane(item, at)); });
    each("buffers", kMaxOps, [&](const json& item, std::string at) { schedule_.buffers.push_back(buffer(item, at)); });
    schedule_.initial = accesses(top_, "initial");
    op_count_ = top_.array("ops").size();
    schedule_.ops.reserve(std::min(op_count_, kMaxOps));
    each("ops", kMaxOps, [&](const json& item, std::string at) { schedule_.ops.push_back(op(item, at)); });
    read_edges();
    top_.finish();
    return std::move(schedule_);
  }

 private:
  template <typename Read>
  void each(const char* key, std::size_t most, Read read) {
    const json& list = top_.array(key);
    if (list.size() > most) top_.fail(key, fmt::format("{} entries: expected at most {}", list.size(), most));
    for (std::size_t i = 0; i < list.size(); ++i) read(list[i], fmt::format("{}[{}]", top_.place(key), i));
  }

  static int small(JsonObject& object, const char* key, std::int64_t low, std::int64_t high) {
    return static_cast<int>(object.integer(key, low, high));
  }

  template <typename Enum>
  static Enum word(JsonObject& object, const char* key, std::span<const std::string_view> names) {
    return static_cast<Enum>(object.choice(key, names));
  }

  // --- the head

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
    c.tied_embeddings = object.boolean("tied_embeddings");
    c.qkv_bias = object.boolean("qkv_bias");
    c.qk_norm = object.boolean("qk_norm");
    object.finish();
    check_model_config(c, top_.place("model"));
  }

  void read_head() {
    JsonObject batch = top_.object("micro_batch");
    schedule_.micro_batch.sequences = batch.integer("sequences", 1, kMaxTokens);
    schedule_.micro_batch.sequence_length = batch.integer("sequence_length", 1, kMaxTokens);
    batch.finish();
    if (schedule_.micro_batch.sequences > kMaxTokens / schedule_.micro_batch.sequence_length)
      top_.fail("micro_batch", fmt::format("expected at most {} tokens, found {} sequences of {}", kMaxTokens,
                                           schedule_.micro_batch.sequences, schedule_.micro_batch.sequence_length));
    schedule_.micro_batches = small(top_, "micro_batches", 1, kMaxMicroBatches);
    schedule_.library_bytes = top_.integer("library_bytes", 0, kMaxBytes);

    JsonObject object = top_.object("numerics");
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

  /// An index that must be below `count`.
  static int index(JsonObject& object, const char* key, std::size_t count, const char* what) {
    const std::int64_t index = object.integer(key, 0, kMaxCount);
    if (index >= static_cast<std::int64_t>(count))
      object.fail(key, fmt::format("{}, but there are {} {}", index, count, what));
    return static_cast<int>(index);
  }

  Buffer buffer(const json& item, const std::string& at) const {
    JsonObject object(item, at);
    Buffer buffer;
    buffer.name = object.text("name");
    buffer.tier = index(object, "tier", schedule_.tiers.size(), "tiers");
    buffer.offset_bytes = object.integer("offset_bytes", 0, kMaxBytes);
    buffer.bytes = object.integer("bytes", 0, kMaxBytes);
    object.finish();
    return buffer;
  }

  // --- accesses

  std::vector<Access> accesses(JsonObject& object, const char* key) const {
    const json& list = object.array(key);
    std::vector<Access> found;
    found.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) found.push_back(access(list[i], {object, key, i}));
    return found;
  }

  Access access(const json& item, const Place& place) const {
    row(item, place, 4, "[buffer, offset_bytes, bytes, \"value\"]");
    Access access;
    const std::int64_t buffer = whole_number(item[0], place, "buffer", 0, kMaxCount);
    if (buffer >= static_cast<std::int64_t>(schedule_.buffers.size()))
      place.fail("buffer", "{}, but there are {} buffers", buffer, schedule_.buffers.size());
    access.buffer = static_cast<int>(buffer);
    access.offset_bytes = whole_number(item[1], place, "offset_bytes", 0, kMaxBytes);
    access.bytes = whole_number(item[2], place, "bytes", 0, kMaxBytes);
    const Buffer& within = schedule_.buffers[static_cast<std::size_t>(buffer)];
    if (access.offset_bytes + access.bytes > within.bytes)
      place.fail("bytes", "the range ends at byte {} of buffer '{}', which has {}", access.offset_bytes + access.bytes,
                 within.name, within.bytes);
    access.value = value(item[3], place);
    return access;
  }

  Value value(const json& item, const Place& place) const {
    const auto* label = item.get_ptr<const std::string*>();
    const std::optional<Value> value = label ? parse_value_label(*label) : std::nullopt;
    if (!value)
      place.fail("value", "expected a label such as \"weights/3@0\" or \"boundary/4@0#2\", found {}", shown(item));
    if (value->layer > schedule_.model.decoder_layers + 1)
      place.fail("value", "\"{}\", but the last layer is {}", *label, schedule_.model.decoder_layers + 1);
    if (value->micro_batch >= schedule_.micro_batches)
      place.fail("value", "\"{}\", but there are {} micro-batches", *label, schedule_.micro_batches);
    return *value;
  }

  // --- ops

  Op op(const json& item, const std::string& at) const {
    JsonObject object(item, at);
    Op op;
    op.id = small(object, "id", 0, kMaxCount);
    if (op.id != static_cast<int>(schedule_.ops.size()))
      object.fail("id", fmt::format("{}, but ids count from 0 in the order of the list: {} is right", op.id,
                                    schedule_.ops.size()));
    op.name = object.text("name");
    op.lane = index(object, "lane", schedule_.lanes.size(), "lanes");
    if (object.has("layer"))
      op.layer = index(object, "layer", static_cast<std::size_t>(schedule_.model.decoder_layers) + 2, "layers");
    if (object.has("micro_batch"))
      op.micro_batch = index(object, "micro_batch", static_cast<std::size_t>(schedule_.micro_batches), "micro-batches");
    op.phase = word<Phase>(object, "phase", phase_names());
    if (object.has("reads")) op.reads = accesses(object, "reads");
    if (object.has("writes")) op.writes = accesses(object, "writes");
    op.work = work(object, op);
    object.finish();
    return op;
  }

  Work work(JsonObject& object, const Op& op) const {
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
      case 8: return MemsetWork{};
      case 9: return WaitWork{index(object, "op", op_count_, "ops"), small(object, "distance", 0, 1)};
      default: return HostPassWork{object.integer("traffic_bytes", 0, kMaxBytes), threads()};
    }
  }

  static CopyWork copy(JsonObject& object, const Op& op) {
    CopyWork copy;
    const json& list = object.array("bursts");
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Place place{object, "bursts", i};
      row(list[i], place, 2, "[bytes, count]");
      const Burst burst{whole_number(list[i][0], place, "bytes", 1, kMaxBytes),
                        whole_number(list[i][1], place, "count", 1, kMaxCount)};
      if (burst.count > (kMaxBytes - sum) / burst.bytes) place.fail("count", "the bursts sum to more than 2^60 bytes");
      sum += burst.bytes * burst.count;
      copy.bursts.push_back(burst);
    }
    if (object.has("threads")) copy.threads = small(object, "threads", 1, kMaxThreads);
    const std::int64_t bytes = op.reads.empty() ? 0 : op.reads[0].bytes;
    if (sum != bytes) object.fail("bursts", fmt::format("they sum to {} bytes, but the op reads {}", sum, bytes));
    return copy;
  }

  void read_edges() {
    const json& list = top_.array("edges");
    schedule_.edges.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Place place{top_, "edges", i};
      row(list[i], place, 3, "[from, to, distance]");
      const auto end = [&](std::size_t which, const char* part) {
        const std::int64_t id = whole_number(list[i][which], place, part, 0, kMaxCount);
        if (id >= static_cast<std::int64_t>(op_count_)) place.fail(part, "{}, but there are {} ops", id, op_count_);
        return static_cast<int>(id);
      };
      schedule_.edges.push_back(
          {end(0, "from"), end(1, "to"), static_cast<int>(whole_number(list[i][2], place, "distance", 0, 1))});
    }
  }

  std::string place_;
  JsonObject top_;
  Schedule schedule_;
  std::size_t op_count_ = 0;
};

}  // namespace

Schedule parse_schedule(const std::string& text, const std::string& place) {
  const json document = parse_json(text, place);
  return Reader(document, place).read();
}

Schedule read_schedule(const std::filesystem::path& path) {
  const json document = read_json_file(path, kMaxFileBytes);
  return Reader(document, path.string()).read();
}

}  // namespace penstock
