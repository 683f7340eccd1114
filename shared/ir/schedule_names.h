// The words for a schedule's parts, in files and in messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shared/ir/schedule.h"

namespace penstock {

// In the order of the enumerators.
std::span<const std::string_view> tier_names();
std::span<const std::string_view> lane_kind_names();
std::span<const std::string_view> tensor_names();
std::span<const std::string_view> batch_kind_names();
std::span<const std::string_view> phase_names();
std::span<const std::string_view> layer_kind_names();
std::span<const std::string_view> pass_names();
std::span<const std::string_view> keep_names();
std::span<const std::string_view> state_format_names();
std::span<const std::string_view> element_type_names();
/// In the order of Work's alternatives.
std::span<const std::string_view> work_names();

/// "weights/3@0", "boundary/4@0#2", "tokens@0": tensor, layer, version, micro-batch; parts that are -1 are left out.
std::string value_label(const Value& value);
/// The inverse; nothing else is accepted (no blanks, no leading zeros, versions -1, 0 and 1).
std::optional<Value> parse_value_label(std::string_view label);

/// "'forward 3 #0' (op 17)".
std::string op_title(const Op& op);
/// "bytes [0, 4096) of buffer 'slot 0' (hbm)". REQUIRES: indices in range.
std::string range_title(const Schedule& schedule, const Access& access);

}  // namespace penstock
