#include "shared/nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace penstock {
namespace {

/// Long names are cut; nobody mistypes into 60 letters.
constexpr std::size_t kLongest = 60;

/// The fewest letters to insert, delete, replace, or exchange with their neighbour.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  from = from.substr(0, kLongest);
  to = to.substr(0, kLongest);
  std::vector<std::vector<std::size_t>> best(from.size() + 1, std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i)
    for (std::size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        best[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = best[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      best[i][j] = std::min({best[i - 1][j] + 1, best[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        best[i][j] = std::min(best[i][j], best[i - 2][j - 2] + 1);
    }
  return best[from.size()][to.size()];
}

/// Small letters and digits alone.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

/// The first of those that are nearest, and nearer than `limit`.
std::string nearest_within(std::string_view name, std::span<const std::string> known, std::size_t limit) {
  std::string nearest;
  for (const std::string& candidate : known)
    if (const std::size_t distance = edit_distance(name, candidate); distance < limit) {
      limit = distance;
      nearest = candidate;
    }
  return nearest;
}

std::string same_letters(std::string_view name, std::span<const std::string> known) {
  const std::string letters = letters_of(name);
  for (const std::string& candidate : known)
    if (!letters.empty() && letters_of(candidate) == letters) return candidate;
  return {};
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  if (std::string same = same_letters(name, known); !same.empty()) return same;
  // Half of the letters wrong is no longer a slip of the fingers.
  std::string nearest = nearest_within(name, known, std::max<std::size_t>(1, name.size() / 2) + 1);
  if (!nearest.empty() || name.size() < 3) return nearest;
  // "buffers" for "weight_buffers": half forgotten rather than mistyped.
  for (const std::string& candidate : known)
    if (candidate.find(name) != std::string::npos) return candidate;
  return {};
}

std::string suggestion(std::string_view name, std::span<const std::string> known, std::string_view noun) {
  if (const std::string nearest = nearest_name(name, known); !nearest.empty())
    return fmt::format("did you mean {}?", nearest);
  return fmt::format("known {} are {}", noun, fmt::join(known, ", "));
}

std::string meant_choice(std::string_view value, std::span<const std::string_view> names) {
  if (names.size() < 2) return "";  // what was expected has just been said
  const std::string nearest = nearest_name(value, std::vector<std::string>(names.begin(), names.end()));
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

std::string mistyped(std::string_view missing, std::span<const std::string> found) {
  if (std::string same = same_letters(missing, found); !same.empty()) return same;
  return nearest_within(missing, found, std::max<std::size_t>(1, missing.size() / 5) + 1);
}

}  // namespace penstock
