// What was probably meant by a mistyped name: a key, a command, a file, a preset.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// The one of `known` that was probably meant; empty if none is close.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// "did you mean X?", or "known NOUN are A, B, C" if none is close.
std::string suggestion(std::string_view name, std::span<const std::string> known, std::string_view noun);

/// "; did you mean \"X\"?" for a value that is none of `names`; empty if none is close.
std::string meant_choice(std::string_view value, std::span<const std::string_view> names);

/// For a name that is missing: the one of `found` that is it with a slip of the fingers, other separators or other
/// capitals ("sequence-length" for "sequence_length"); empty if there is none. Stricter than nearest_name: what is
/// found may be right.
std::string mistyped(std::string_view missing, std::span<const std::string> found);

}  // namespace penstock
