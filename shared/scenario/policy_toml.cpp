#include "shared/scenario/policy_toml.h"

#include <fmt/format.h>

#include <string_view>

#include "shared/error.h"
#include "shared/scenario/keep_layers_text.h"
#include "shared/units.h"

namespace penstock {
namespace {

// Names in the order of the enums.
constexpr std::string_view kKeeps[] = {"input", "input_attention", "everything"};
constexpr std::string_view kCopyLanes[] = {"per_direction", "shared"};
constexpr std::string_view kTiers[] = {"hbm", "dram", "nvme"};
constexpr std::string_view kStates[] = {"planes", "master_and_copy", "bf16"};
constexpr std::string_view kElementTypes[] = {"bf16", "fp32"};
constexpr std::string_view kPlaces[] = {"host", "gpu"};
constexpr std::string_view kTimes[] = {"end", "backward", "next_forward"};
constexpr std::string_view kHostWaits[] = {"none", "per_layer", "per_buffer", "on_compute"};

constexpr int kMostMicroBatches = 1'000'000;
constexpr int kMostLayers = 4096;
constexpr int kMostBuffers = 4096;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

/// Overwrites a parameter where its key is given.
class Overrides {
 public:
  explicit Overrides(TomlSection& section) : section_(section) {}

  template <typename Enum, std::size_t N>
  void choice(const char* key, Enum& parameter, const std::string_view (&names)[N]) {
    if (section_.has(key)) parameter = static_cast<Enum>(section_.choice(key, names));
  }
  template <typename Integer>
  void integer(const char* key, Integer& parameter, std::int64_t low, std::int64_t high) {
    if (section_.has(key)) parameter = static_cast<Integer>(section_.integer(key, low, high));
  }
  void boolean(const char* key, bool& parameter) {
    if (section_.has(key)) parameter = section_.boolean(key);
  }
  /// "all" stands for `all`.
  void integer_or_all(const char* key, int& parameter, int low, int high, int all) {
    if (!section_.has(key)) return;
    const TomlValue& found = section_.value(key);
    if (std::holds_alternative<std::string>(found.value)) {
      if (std::get<std::string>(found.value) != "all")
        section_.fail(
            key, fmt::format("expected \"all\" or a whole number from {} to {}, found {}", low, high, shown(found)));
      parameter = all;
    } else {
      parameter = static_cast<int>(section_.integer(key, low, high));
    }
  }

 private:
  TomlSection& section_;
};

/// "layer", "tensor", or a size.
void read_burst(TomlSection& section, PolicyParameters& policy) {
  if (!section.has("burst")) return;
  const TomlValue& found = section.value("burst");
  const auto* text = std::get_if<std::string>(&found.value);
  if (text == nullptr)
    section.fail("burst",
                 fmt::format("expected \"layer\", \"tensor\" or a size such as \"4 MiB\", found {}", shown(found)));
  policy.burst_bytes = 0;
  if (*text == "layer") {
    policy.burst = BurstKind::layer;
  } else if (*text == "tensor") {
    policy.burst = BurstKind::tensor;
  } else {
    policy.burst = BurstKind::fixed;
    policy.burst_bytes = parse_bytes(*text, section.place("burst") + ": neither \"layer\" nor \"tensor\"");
    // Below a page a copy is all latency, and a layer would be cut into millions of them.
    if (policy.burst_bytes < 4096)
      section.fail("burst", fmt::format("expected at least 4 KiB, found {}", shown(found)));
  }
}

void read_optimizer_time(TomlSection& section, Overrides& overrides, PolicyParameters& policy) {
  if (section.has("optimizer_when") && section.has("optimizer_time"))
    section.fail("optimizer_time", "is another name of optimizer_when, which stands there too; keep one of the two");
  overrides.choice("optimizer_when", policy.optimizer_time, kTimes);
  overrides.choice("optimizer_time", policy.optimizer_time, kTimes);
}

void read_numerics(Overrides& overrides, Numerics& numerics) {
  overrides.choice("states", numerics.states, kStates);
  overrides.choice("moments", numerics.moments, kElementTypes);
  overrides.choice("gradient_sum", numerics.gradient_sum, kElementTypes);
  overrides.choice("gradient_link", numerics.gradient_link, kElementTypes);
  overrides.boolean("sum_on_host", numerics.sum_on_host);
  overrides.boolean("clip", numerics.clip);
  overrides.integer("mlp_chunk_tokens", numerics.chunking.mlp_tokens, 0, kMostTokens);
  overrides.integer("loss_chunk_tokens", numerics.chunking.loss_tokens, 0, kMostTokens);
}

PolicyParameters preset(TomlSection& section) {
  const std::string name = section.has("name") ? section.text("name") : PolicyParameters{}.name;
  try {
    return preset_parameters(name);
  } catch (const InputError& error) {
    section.fail("name", error.what());
  }
}

}  // namespace

PolicyParameters read_policy(const TomlDocument& document) {
  TomlSection section(document, "policy");
  PolicyParameters policy = preset(section);
  Overrides overrides(section);
  overrides.integer_or_all("group", policy.group, 1, kMostMicroBatches, 0);
  overrides.integer("first_group", policy.first_group, 0, kMostMicroBatches);
  overrides.integer("weight_buffers", policy.weight_buffers, 1, kMostBuffers);
  read_burst(section, policy);
  overrides.choice("copy_lanes", policy.copy_lanes, kCopyLanes);
  overrides.integer_or_all("resident_weights", policy.resident_weights, 0, kMostLayers, -1);
  overrides.integer_or_all("resident_states", policy.resident_states, 0, kMostLayers, -1);
  overrides.boolean("resident_edges", policy.resident_edges);
  overrides.integer_or_all("nvme_states", policy.nvme_states, 0, kMostLayers, -1);
  overrides.integer_or_all("nvme_weights", policy.nvme_weights, 0, kMostLayers, -1);
  overrides.integer("nvme_slots", policy.nvme_slots, 1, kMostBuffers);
  overrides.choice("keep", policy.keep, kKeeps);
  overrides.integer("checkpoint_every", policy.checkpoint_every, 1, kMostLayers);
  overrides.choice("activations", policy.activations, kTiers);
  overrides.integer("first_layers", policy.first_layers, 0, kMostLayers);
  overrides.choice("first_keep", policy.first_keep, kKeeps);
  overrides.choice("first_activations", policy.first_activations, kTiers);
  for (const char* key : {"first_keep", "first_activations"})
    if (section.has(key) && !section.has("first_layers"))
      section.fail(key, "says how the first first_layers layers are kept, but first_layers is not given; give it too");
  if (section.has("keep_layers"))
    policy.keep_layers = parse_keep_layers(section.text("keep_layers"), section.place("keep_layers"));
  overrides.integer("activation_slots", policy.activation_slots, 1, kMostBuffers);
  overrides.choice("gradients", policy.gradients, kTiers);
  overrides.choice("gradient_sums", policy.gradient_sums, kTiers);
  overrides.integer("gradient_slots", policy.gradient_slots, 1, kMostBuffers);
  read_numerics(overrides, policy.numerics);
  overrides.choice("optimizer_place", policy.optimizer_place, kPlaces);
  read_optimizer_time(section, overrides, policy);
  overrides.integer("optimizer_threads", policy.optimizer_threads, 0, kMostLayers);
  overrides.integer("recompute_loads", policy.recompute_loads, 0, 1);
  overrides.boolean("forward_twice", policy.forward_twice);
  if (section.has("host_pass_bytes_per_parameter"))
    policy.host_pass_bytes_per_parameter = section.number("host_pass_bytes_per_parameter", 0, 1000);
  overrides.boolean("upload_copies", policy.upload_copies);
  overrides.choice("host_waits", policy.host_waits, kHostWaits);
  section.finish();
  return policy;
}

std::set<std::string> given_parameters(const TomlDocument& document) {
  std::set<std::string> keys;
  const auto table = document.tables.find("policy");
  if (table == document.tables.end()) return keys;
  for (const auto& [key, value] : table->second.values)
    if (key != "name") keys.insert(key == "optimizer_time" ? "optimizer_when" : key);
  if (keys.contains("keep") || keys.contains("activations")) keys.insert({"first_layers", "keep_layers"});
  return keys;
}

std::string policy_text(const PolicyParameters& policy) {
  std::string text = "[policy]\n";
  const auto line = [&](const char* key, const std::string& value) { text += fmt::format("{} = {}\n", key, value); };
  const auto number = [&](const char* key, auto value) { line(key, fmt::format("{}", value)); };
  const auto choice = [&](const char* key, auto value, const auto& names) {
    line(key, fmt::format("\"{}\"", names[static_cast<std::size_t>(value)]));
  };
  const auto count_or_all = [&](const char* key, int value, int all) {
    line(key, value == all ? "\"all\"" : fmt::format("{}", value));
  };
  line("name", fmt::format("\"{}\"", policy.name));
  count_or_all("group", policy.group, 0);
  number("first_group", policy.first_group);
  number("weight_buffers", policy.weight_buffers);
  line("burst", policy.burst == BurstKind::layer    ? "\"layer\""
                : policy.burst == BurstKind::tensor ? "\"tensor\""
                                                    : fmt::format("\"{} B\"", policy.burst_bytes));
  choice("copy_lanes", policy.copy_lanes, kCopyLanes);
  count_or_all("resident_weights", policy.resident_weights, -1);
  count_or_all("resident_states", policy.resident_states, -1);
  number("resident_edges", policy.resident_edges);
  count_or_all("nvme_states", policy.nvme_states, -1);
  count_or_all("nvme_weights", policy.nvme_weights, -1);
  number("nvme_slots", policy.nvme_slots);
  choice("keep", policy.keep, kKeeps);
  number("checkpoint_every", policy.checkpoint_every);
  choice("activations", policy.activations, kTiers);
  number("first_layers", policy.first_layers);
  choice("first_keep", policy.first_keep, kKeeps);
  choice("first_activations", policy.first_activations, kTiers);
  line("keep_layers", fmt::format("\"{}\"", keep_layers_text(policy.keep_layers)));
  number("activation_slots", policy.activation_slots);
  choice("gradients", policy.gradients, kTiers);
  choice("gradient_sums", policy.gradient_sums, kTiers);
  number("gradient_slots", policy.gradient_slots);
  const Numerics& numerics = policy.numerics;
  choice("states", numerics.states, kStates);
  choice("moments", numerics.moments, kElementTypes);
  choice("gradient_sum", numerics.gradient_sum, kElementTypes);
  choice("gradient_link", numerics.gradient_link, kElementTypes);
  number("sum_on_host", numerics.sum_on_host);
  number("clip", numerics.clip);
  number("mlp_chunk_tokens", numerics.chunking.mlp_tokens);
  number("loss_chunk_tokens", numerics.chunking.loss_tokens);
  choice("optimizer_place", policy.optimizer_place, kPlaces);
  choice("optimizer_when", policy.optimizer_time, kTimes);
  number("optimizer_threads", policy.optimizer_threads);
  number("recompute_loads", policy.recompute_loads);
  number("forward_twice", policy.forward_twice);
  number("host_pass_bytes_per_parameter", policy.host_pass_bytes_per_parameter);
  number("upload_copies", policy.upload_copies);
  choice("host_waits", policy.host_waits, kHostWaits);
  return text;
}

}  // namespace penstock
