// What a row of the table of policy parameters (parameters.h) can say.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace penstock {

struct PolicyParameters;

// --- kinds of values, as they stand in [policy]; policy_toml.cpp reads and writes them

/// Whole numbers from `low` to `high`.
struct Count {
  std::int64_t low, high;
};
/// The same; the text "all" stands for the number `all`.
struct CountOrAll {
  int low, high, all;
};
struct Flag {};
/// An enumerator by its name; `names` in the order of the enum.
struct OneOf {
  std::span<const std::string_view> names;
};
struct Real {
  double low, high;
};
/// "layer", "tensor" or a size: BurstKind with its bytes.
struct BurstSize {};
/// keep_layers_text.h
struct LayerRanges {};

/// What another value of a parameter changes of a result's bits.
enum class Decides {
  nothing,             // a schedule moves data
  order_of_additions,  // the same mathematics, rounded elsewhere: `search` may choose it, a plan for a run may not
  numerics             // types and mathematics: no planner's to choose
};

/// As `Moves::high`: as many as the model has decoder layers, and at least 1.
inline constexpr std::int64_t kDecoderLayers = -1;

inline constexpr int kLastTurn = 100;

/// What the planner's local search tries instead of a value.
struct Moves {
  std::array<std::int64_t, 8> values{};  // differences to it, or values
  std::size_t count = 0;                 // of them; 0: it is no move of its own
  bool by_steps = false;
  std::int64_t low = 0, high = 0;  // of what steps lead to; none from a value below `low`
  /// Candidates stand in the order of their turns, which decides between equal bounds: another order may find another
  /// plan.
  int turn = kLastTurn;
  /// Whether the value is worth a try here; nullptr: always.
  bool (*where)(const PolicyParameters& from, std::int64_t value) = nullptr;
};

using MoveCondition = bool (*)(const PolicyParameters&, std::int64_t);

constexpr Moves others(int turn, std::initializer_list<std::int64_t> values, MoveCondition where = nullptr) {
  Moves moves;
  moves.turn = turn;
  for (const std::int64_t value : values) moves.values[moves.count++] = value;
  moves.where = where;
  return moves;
}

constexpr Moves steps(int turn, std::initializer_list<std::int64_t> by, std::int64_t low, std::int64_t high,
                      MoveCondition where = nullptr) {
  Moves moves = others(turn, by, where);
  moves.by_steps = true;
  moves.low = low;
  moves.high = high;
  return moves;
}

struct ParameterAbout {
  const char* key;                  // in [policy]
  const char* meaning;              // for people; code in backquotes
  const char* other_key = nullptr;  // read as well
  Decides decides = Decides::nothing;
  /// Without this key the parameter is refused, and has no effect where `counts` says so: then it is not compared.
  const char* needs = nullptr;
  bool (*counts)(const PolicyParameters&) = nullptr;
  /// Keys that are given with this one, since it speaks of all that they would make an exception of.
  std::array<const char*, 2> settles{};
  Moves moves{};
};

}  // namespace penstock
