#include "sim/software/added_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shared/error.h"
#include "shared/ir/schedule_names.h"
#include "shared/model/activations.h"
#include "shared/nearest_name.h"
#include "shared/policy/parameters.h"
#include "shared/units.h"

namespace penstock::sim {
namespace {

using Phases = std::array<bool, kMemoryPhases>;
constexpr double kMostBytes = 1e15;  // of an item: sums stay whole numbers
constexpr MemoryPhase kOfStep[] = {MemoryPhase::forward, MemoryPhase::loss, MemoryPhase::backward,
                                   MemoryPhase::optimizer};

std::vector<std::string> phase_names() {
  std::vector<std::string> names;
  for (int phase = 0; phase < kMemoryPhases; ++phase)
    names.emplace_back(memory_phase_name(static_cast<MemoryPhase>(phase)));
  return names;
}

[[noreturn]] void refuse(const SoftwareMemory& software, const MemoryItem& item, const std::string& what) {
  throw InputError(fmt::format("{}: [memory.{}] {}", software.path.string(), item.name, what));
}

/// The file's settings, changed by the scenario's.
SoftwareSettings merged(const SoftwareMemory& software, const Scenario& scenario) {
  SoftwareSettings settings = software.settings;
  std::vector<std::string> known;
  for (const auto& [name, setting] : settings) known.push_back(name);
  for (const auto& [name, given] : scenario.software_settings) {
    const auto found = settings.find(name);
    if (found == settings.end())
      throw InputError(fmt::format("{}: is no setting of {} ({}); {}", given.place, software.name,
                                   software.path.string(), suggestion(name, known, "settings")));
    if (found->second.is_flag != given.setting.is_flag)
      throw InputError(
          fmt::format("{}: expected {}", given.place, found->second.is_flag ? "true or false" : "a whole number"));
    found->second.value = given.setting.value;
  }
  return settings;
}

/// Elements in the pieces that are allocated.
class Elements {
 public:
  Elements(const Scenario& scenario, const SoftwareSettings& settings) : scenario_(scenario), settings_(settings) {}

  double setting(const std::string& name) const { return static_cast<double>(settings_.find(name)->second.value); }
  double times(const MemoryItem::Times& times) const {
    return std::holds_alternative<std::string>(times) ? setting(std::get<std::string>(times))
                                                      : static_cast<double>(std::get<std::int64_t>(times));
  }

  /// Processes that have a share of each piece.
  double sharers(const MemoryItem& item) const {
    return item.shared_by.empty() ? 1 : std::max(1.0, setting(item.shared_by));
  }

  /// Of one process.
  std::vector<double> pieces(const MemoryItem& item) const {
    std::vector<double> pieces;
    const double share = 1 / sharers(item);
    if (item.counted != Counted::parameters) {
      pieces.push_back(count(item) * share);
    } else if (item.pieces == MemoryPieces::all) {
      pieces.push_back(static_cast<double>(scenario_.model.parameters) * share);
    } else {
      const double least = item.pieces == MemoryPieces::sub_group ? setting("sub_group_size") : 0;
      for (const Layer& layer : scenario_.model.layers) {
        if (item.pieces == MemoryPieces::layer) {
          if (is_decoder(layer.kind)) pieces.push_back(static_cast<double>(layer.parameters) * share);
          continue;
        }
        for (const ParameterTensor& tensor : layer.tensors) {
          // A group is closed by the tensor that reaches the size.
          if (pieces.empty() || pieces.back() >= least) pieces.push_back(0);
          pieces.back() += static_cast<double>(tensor.elements()) * share;
        }
      }
    }
    for (double& piece : pieces) {
      if (!item.at_most.empty()) piece = std::min(piece, setting(item.at_most));
      piece *= times(item.together);
    }
    return pieces;
  }

 private:
  double count(const MemoryItem& item) const {
    const Model& model = scenario_.model;
    const ModelConfig& config = model.config;
    const double sequences = scenario_.micro_batch, length = static_cast<double>(scenario_.sequence_length);
    switch (item.counted) {
      case Counted::largest_tensor: return largest_tensor();
      case Counted::largest_layer: return static_cast<double>(model.largest_decoder().parameters);
      case Counted::embedding:
      case Counted::head: return static_cast<double>(config.vocabulary * config.hidden);
      case Counted::logits: return sequences * length * static_cast<double>(config.vocabulary);
      case Counted::chunk_logits:
        return sequences * std::min(length, setting("loss_chunk_tokens")) * static_cast<double>(config.vocabulary);
      case Counted::activations: return held_layers() * sequences * length * static_cast<double>(config.hidden);
      case Counted::scores: return held_layers() * layer_scores();
      case Counted::layer_scores: return layer_scores();
      case Counted::layer_mlp:
        return static_cast<double>(
                   mlp_rows({scenario_.micro_batch, scenario_.sequence_length}, scenario_.policy.numerics.chunking)) *
               static_cast<double>(model.widest_mlp());
      case Counted::setting: return setting(item.setting);
      case Counted::nothing:
      case Counted::parameters: break;
    }
    return 0;
  }

  double largest_tensor() const {
    std::int64_t most = 0;
    for (const Layer& layer : scenario_.model.layers)
      for (const ParameterTensor& tensor : layer.tensors) most = std::max(most, tensor.elements());
    return static_cast<double>(most);
  }

  double layer_scores() const {
    const double length = static_cast<double>(scenario_.sequence_length);
    return scenario_.micro_batch * static_cast<double>(scenario_.model.config.heads) * length * length;
  }

  /// Decoder layers whose activations backward finds at a time: all if nothing is recomputed, else a block.
  double held_layers() const {
    const PolicyParameters& policy = scenario_.policy;
    const auto layers = scenario_.model.config.decoder_layers;
    return static_cast<double>(
        policy.keep == Keep::everything ? layers : std::min<std::int64_t>(layers, policy.checkpoint_every));
  }

  const Scenario& scenario_;
  const SoftwareSettings& settings_;
};

/// To a power of two.
double rounded_up(double bytes) {
  int exponent = 0;
  const double fraction = std::frexp(bytes, &exponent);  // in [0.5, 1)
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

std::int64_t bytes_of(const SoftwareMemory& software, const MemoryItem& item, const Elements& elements) {
  double sum = item.counted == Counted::nothing ? static_cast<double>(item.bytes) : 0;
  if (item.counted != Counted::nothing)
    for (const double piece : elements.pieces(item)) {
      const double exact = piece * item.bytes_each;
      const double taken = item.power_of_two && exact > 0 ? rounded_up(exact) : exact;
      sum += item.rounding_only ? taken - exact : taken;
    }
  const double processes = item.tier == "dram" ? elements.sharers(item) : 1;
  const double total = sum * processes * elements.times(item.times);
  if (!(std::abs(total) <= kMostBytes))
    refuse(software, item, fmt::format("makes {:.0e} bytes with these settings", total));
  return std::llround(total);
}

bool applies(const SoftwareMemory& software, const MemoryItem& item, const SoftwareSettings& settings,
             const std::string& policy) {
  for (const std::string& name : item.presets) {
    const auto& all = presets();
    if (std::none_of(all.begin(), all.end(), [&](const PresetInfo& info) { return info.name == name; }))
      refuse(software, item, fmt::format("presets: there is no preset '{}'", name));
  }
  if (!item.presets.empty() && std::find(item.presets.begin(), item.presets.end(), policy) == item.presets.end())
    return false;
  return std::all_of(item.conditions.begin(), item.conditions.end(), [&](const auto& condition) {
    return (settings.find(condition.first)->second.value != 0) == condition.second;
  });
}

/// Bytes of the schedule that an item stands for.
std::int64_t replaced_bytes(const SoftwareMemory& software, const MemoryItem& item, TierKind tier,
                            const std::vector<TierMemory>& schedule) {
  constexpr std::string_view kContents[] = {"weights",     "moments",     "master",   "gradients",
                                            "activations", "step inputs", "workspace"};
  if (item.instead_of.empty()) return 0;
  if (std::find(std::begin(kContents), std::end(kContents), item.instead_of) == std::end(kContents))
    refuse(software, item,
           fmt::format("instead_of: expected one of {}, found \"{}\"", fmt::join(kContents, ", "), item.instead_of));
  for (const TierMemory& memory : schedule)
    for (const auto& [what, bytes] : memory.contents)
      if (memory.tier.kind == tier && what == item.instead_of) return bytes;
  return 0;
}

Phases phases_of(const SoftwareMemory& software, const MemoryItem& item, const PolicyParameters& policy) {
  Phases phases;
  phases.fill(item.phases.empty());
  const std::vector<std::string> names = phase_names();
  for (const std::string& name : item.phases) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      refuse(software, item, fmt::format("phases: expected some of {}, found \"{}\"", fmt::join(names, ", "), name));
    phases[static_cast<std::size_t>(found - names.begin())] = true;
  }
  // The layer at work is done when the loss is.
  if ((item.counted == Counted::activations || item.counted == Counted::scores) && policy.keep != Keep::everything)
    phases[static_cast<std::size_t>(MemoryPhase::loss)] = false;
  return phases;
}

std::int64_t& at(std::array<std::int64_t, kMemoryPhases>& bytes, MemoryPhase phase) {
  return bytes[static_cast<std::size_t>(phase)];
}

SystemTier tier_of(const TierMemory& schedule, const std::vector<AddedMemory>& added) {
  SystemTier tier{schedule.tier, schedule.phase_bytes};
  for (std::size_t phase = 0; phase < kMemoryPhases; ++phase) {
    for (const AddedMemory& item : added)
      if (item.tier == tier.tier.kind && item.phases[phase]) tier.phase_bytes[phase] += item.bytes;
    tier.phase_bytes[phase] = std::max<std::int64_t>(0, tier.phase_bytes[phase]);
  }
  // The first step goes through the phases of any step; what it alone has comes on top.
  std::int64_t& first = at(tier.phase_bytes, MemoryPhase::first_step);
  first = 0;
  for (const MemoryPhase phase : kOfStep) first = std::max(first, at(tier.phase_bytes, phase));
  for (const AddedMemory& item : added)
    if (item.tier == tier.tier.kind && item.phases[static_cast<std::size_t>(MemoryPhase::first_step)] &&
        std::none_of(std::begin(kOfStep), std::end(kOfStep),
                     [&](MemoryPhase phase) { return item.phases[static_cast<std::size_t>(phase)]; }))
      first += item.bytes;
  for (int phase = 0; phase <= static_cast<int>(MemoryPhase::first_step); ++phase) {
    const auto index = static_cast<std::size_t>(phase);
    if (phase > 0 && tier.phase_bytes[index] <= tier.peak_bytes) continue;
    tier.peak_bytes = tier.phase_bytes[index];
    tier.peak_phase = static_cast<MemoryPhase>(phase);
  }
  return tier;
}

}  // namespace

std::int64_t SystemTier::most_until(MemoryPhase last) const {
  return std::max(peak_bytes, last > MemoryPhase::first_step ? phase_bytes[static_cast<std::size_t>(last)] : 0);
}

bool SystemMemory::fits() const {
  return std::all_of(tiers.begin(), tiers.end(),
                     [](const SystemTier& tier) { return tier.peak_bytes <= tier.tier.capacity_bytes; });
}

SystemMemory system_memory(const SoftwareMemory& software, const Scenario& scenario,
                           const std::vector<TierMemory>& schedule) {
  SystemMemory system{software.name, software.path, merged(software, scenario), {}, {}};
  const Elements elements(scenario, system.settings);
  for (const MemoryItem& item : software.items) {
    const Phases phases = phases_of(software, item, scenario.policy);
    if (!applies(software, item, system.settings, scenario.policy.name)) continue;
    const TierKind tier = item.tier == "hbm" ? TierKind::hbm : TierKind::dram;
    const std::int64_t replaced = replaced_bytes(software, item, tier, schedule);
    if (const std::int64_t bytes = bytes_of(software, item, elements); bytes != 0)
      system.added.push_back({tier, item.cause, phases, bytes - replaced, replaced});
  }
  std::stable_sort(system.added.begin(), system.added.end(), [](const AddedMemory& a, const AddedMemory& b) {
    return a.tier != b.tier ? a.tier < b.tier : a.bytes > b.bytes;
  });
  Machine theirs = scenario.machine;
  theirs.software.name = software.name;
  for (TierMemory tier : schedule) {
    if (tier.tier.kind == TierKind::dram) tier.tier.capacity_bytes = usable_memory(theirs).dram;
    system.tiers.push_back(tier_of(tier, system.added));
  }
  return system;
}

std::string excess_text(const SystemMemory& system) {
  std::string text;
  for (const SystemTier& tier : system.tiers) {
    const std::int64_t excess = tier.peak_bytes - tier.tier.capacity_bytes;
    if (excess <= 0) continue;
    text += fmt::format("{}{} needs {} of {}, {} too little, in phase {}", text.empty() ? "" : "; ",
                        tier_names()[static_cast<std::size_t>(tier.tier.kind)],
                        format_bytes(static_cast<double>(tier.peak_bytes)),
                        format_bytes(static_cast<double>(tier.tier.capacity_bytes)),
                        format_bytes(static_cast<double>(excess)), memory_phase_name(tier.peak_phase));
  }
  return text;
}

}  // namespace penstock::sim
