#include "shared/ir/schedule_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace penstock {
namespace {

using namespace std::string_view_literals;

constexpr std::array kTiers{"hbm"sv, "dram"sv, "nvme"sv};
constexpr std::array kLaneKinds{"gpu_compute"sv, "copy_h2d"sv,  "copy_d2h"sv,   "copy_both"sv,
                                "host"sv,        "nvme_read"sv, "nvme_write"sv, "launch"sv};
constexpr auto kTensorNames = [] {
  std::array<std::string_view, kTensors.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kTensors[i].name;
  return names;
}();
constexpr std::array kBatchKinds{"windows"sv, "packed"sv};
constexpr std::array kPhases{"forward"sv, "loss"sv, "backward"sv, "optimizer"sv};
constexpr std::array kLayerKindNames{"embedding"sv, "decoder"sv, "head"sv, "experts"sv};
constexpr std::array kPassNames{"forward"sv,        "recompute"sv,  "backward"sv, "loss"sv,
                                "input_backward"sv, "input_loss"sv, "evaluate"sv};
static_assert(kPassNames.size() == kAllPasses.size());
constexpr std::array kKeepNames{"input"sv, "input_context"sv, "input_attention"sv, "everything"sv};
static_assert(kKeepNames.size() == kKeeps.size());
constexpr std::array kStateFormats{"planes"sv, "master_and_copy"sv, "bf16"sv};
constexpr std::array kElementTypes{"bf16"sv, "fp32"sv};
constexpr std::array kWorks{"copy"sv,         "template"sv, "optimizer"sv, "accumulate"sv, "finish_gradient"sv,
                            "step_scalars"sv, "input"sv,    "report"sv,    "wait"sv,       "host_pass"sv};
static_assert(kWorks.size() == std::variant_size_v<Work>);

constexpr int kLargestIndex = 1'000'000'000;

/// Takes a decimal number without leading zeros from the front of `text`.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kLargestIndex || text.front() == '-') return std::nullopt;
  const auto length = static_cast<std::size_t>(end - text.data());
  if (length > 1 && text.front() == '0') return std::nullopt;
  text.remove_prefix(length);
  return number;
}

bool take(std::string_view& text, std::string_view head) {
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  return true;
}

}  // namespace

std::span<const std::string_view> tier_names() { return kTiers; }
std::span<const std::string_view> lane_kind_names() { return kLaneKinds; }
std::span<const std::string_view> tensor_names() { return kTensorNames; }
std::span<const std::string_view> batch_kind_names() { return kBatchKinds; }
std::span<const std::string_view> phase_names() { return kPhases; }
std::span<const std::string_view> layer_kind_names() { return kLayerKindNames; }
std::span<const std::string_view> pass_names() { return kPassNames; }
std::span<const std::string_view> keep_names() { return kKeepNames; }
std::span<const std::string_view> state_format_names() { return kStateFormats; }
std::span<const std::string_view> element_type_names() { return kElementTypes; }
std::span<const std::string_view> work_names() { return kWorks; }

std::string value_label(const Value& value) {
  std::string label(facts(value.tensor).name);
  if (value.layer != -1) fmt::format_to(std::back_inserter(label), "/{}", value.layer);
  fmt::format_to(std::back_inserter(label), "@{}", value.version);
  if (value.micro_batch != -1) fmt::format_to(std::back_inserter(label), "#{}", value.micro_batch);
  return label;
}

std::optional<Value> parse_value_label(std::string_view label) {
  const std::string_view word = label.substr(0, std::min(label.find_first_of("/@"), label.size()));
  const auto found = std::find(kTensorNames.begin(), kTensorNames.end(), word);
  if (found == kTensorNames.end()) return std::nullopt;
  Value value;
  value.tensor = static_cast<TensorKind>(found - kTensorNames.begin());
  label.remove_prefix(word.size());
  if (take(label, "/")) {
    const auto layer = take_number(label);
    if (!layer) return std::nullopt;
    value.layer = *layer;
  }
  if (take(label, "@-1"))
    value.version = -1;
  else if (take(label, "@0"))
    value.version = 0;
  else if (take(label, "@1"))
    value.version = 1;
  else
    return std::nullopt;
  if (take(label, "#")) {
    const auto micro_batch = take_number(label);
    if (!micro_batch) return std::nullopt;
    value.micro_batch = *micro_batch;
  }
  if (!label.empty()) return std::nullopt;
  return value;
}

std::string op_title(const Op& op) { return fmt::format("'{}' (op {})", op.name, op.id); }

std::string range_title(const Schedule& schedule, const Access& access) {
  const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(access.buffer)];
  const Tier& tier = schedule.tiers[static_cast<std::size_t>(buffer.tier)];
  return fmt::format("bytes [{}, {}) of buffer '{}' ({})", access.offset_bytes, access.offset_bytes + access.bytes,
                     buffer.name, kTiers[static_cast<std::size_t>(tier.kind)]);
}

}  // namespace penstock
