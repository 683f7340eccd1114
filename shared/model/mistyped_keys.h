// Keys of config.json that are ignored where they are unknown: a slip in one that counts would silently be its default.
#pragma once

#include <span>
#include <string_view>

#include "shared/json_reader.h"

namespace penstock {

/// Throws InputError if one of the optional keys `known` is missing in `document` and another that stands there is
/// probably meant for it. `object` says the place. Keys in `document` that are known are nobody's slip.
void refuse_mistyped(const JsonObject& object, const nlohmann::json& document, std::span<const std::string_view> known);

}  // namespace penstock
