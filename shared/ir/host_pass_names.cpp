#include "shared/ir/host_pass_names.h"

#include <fmt/format.h>

#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

std::string_view type_name(ElementType type) { return element_type_names()[static_cast<std::size_t>(type)]; }

}  // namespace

std::string adamw_pass_name(StateFormat states, ElementType moments, ElementType gradient) {
  return fmt::format("adamw {} {} {}", state_format_names()[static_cast<std::size_t>(states)], type_name(moments),
                     type_name(gradient));
}

std::string accumulate_pass_name(ElementType part, ElementType sum, bool first) {
  return fmt::format("{} {} {}", first ? "set" : "accumulate", type_name(part), type_name(sum));
}

std::string finish_pass_name(ElementType sum, ElementType out) {
  return fmt::format("finish {} {}", type_name(sum), type_name(out));
}

}  // namespace penstock
