#include "shared/model/mistyped_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shared/nearest_name.h"

namespace penstock {

void refuse_mistyped(const JsonObject& object, const nlohmann::json& document,
                     std::span<const std::string_view> known) {
  std::vector<std::string> strangers;
  for (const auto& [key, unused] : document.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) strangers.push_back(key);
  for (const std::string_view key : known) {
    if (document.contains(key)) continue;
    if (const std::string there = mistyped(key, strangers); !there.empty())
      object.fail(there.substr(0, 60).c_str(),
                  fmt::format("is not a key of config.json; did you mean {}? It would have its default", key));
  }
}

}  // namespace penstock
