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

double optimizer_bytes_per_parameter(const Numerics& numerics) {
  const double moments = 4.0 * static_cast<double>(element_bytes(numerics.moments));  // m and v, read and written
  const double gradient = static_cast<double>(element_bytes(numerics.gradient_link));
  switch (numerics.states) {
    case StateFormat::planes: return 8 + moments + gradient;               // hi and lo, each 2 + 2
    case StateFormat::master_and_copy: return 8 + 2 + moments + gradient;  // master 4 + 4; the copy is only written
    case StateFormat::bf16: return 4 + moments + gradient;                 // 2 + 2
  }
  return 0;
}

}  // namespace penstock
