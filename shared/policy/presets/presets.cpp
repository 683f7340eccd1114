#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "shared/error.h"
#include "shared/nearest_name.h"
#include "shared/policy/presets/preset.h"

namespace penstock {
namespace {

const std::vector<Preset>& all_presets() {
  static const std::vector<Preset> all{
      penstock_preset(),      resident_preset(),      megatrain_preset(),     megatrain_released_preset(),
      zero2_offload_preset(), zero3_offload_preset(), zero_infinity_preset(), fsdp2_offload_preset(),
      slideformer_preset(),   ml_dataflow_preset(),
  };
  return all;
}

}  // namespace

const std::vector<PresetInfo>& presets() {
  static const std::vector<PresetInfo> infos = [] {
    std::vector<PresetInfo> list;
    for (const Preset& preset : all_presets()) list.push_back(preset.info);
    return list;
  }();
  return infos;
}

bool is_planned(const std::string& name) {
  const auto& infos = presets();
  return std::any_of(infos.begin(), infos.end(),
                     [&](const PresetInfo& info) { return info.planned && info.name == name; });
}

std::string preset_software(const std::string& name) {
  for (const PresetInfo& info : presets())
    if (info.name == name) return info.software;
  return {};
}

PolicyParameters preset_parameters(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : all_presets()) {
    if (preset.info.name == name) return preset.parameters;
    names.push_back(preset.info.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw InputError(fmt::format("policy: there is no preset '{}'; {}there are: {}", name.substr(0, 60),
                               nearest.empty() ? "" : fmt::format("did you mean {}? ", nearest),
                               fmt::join(names, ", ")));
}

}  // namespace penstock
