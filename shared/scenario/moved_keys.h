// Keys that stood in [run] once and stand in [init], [data] and [optimizer] now. They are read where they were, and a
// note says where they stand; whatever is made of a document has the new ones alone.
#pragma once

#include <string>
#include <vector>

#include "shared/toml_reader.h"

namespace penstock {

struct MovedKey {
  std::string_view old_key;  // of [run]
  std::string_view table, key;
};
/// A key that became two has two lines.
inline constexpr MovedKey kMovedKeys[] = {
    {"weights", "init", "weights"},
    {"seed", "init", "seed"},
    {"seed", "data", "seed"},
    {"data", "data", "file"},
    {"data_kind", "data", "kind"},
    {"learning_rate", "optimizer", "learning_rate"},
    {"learning_rate_warmup_steps", "optimizer", "warmup_steps"},
    {"beta1", "optimizer", "beta1"},
    {"beta2", "optimizer", "beta2"},
    {"epsilon", "optimizer", "epsilon"},
    {"weight_decay", "optimizer", "weight_decay"},
    {"max_norm", "optimizer", "max_norm"},
};

/// Of a file as it was read: puts each old key where it stands now, with its place, and a note into document.notes.
/// Throws InputError for one that stands in both places.
void move_keys(TomlDocument& document);

/// The keys ("data.file") that "run.data" means now; nothing for any other key.
std::vector<std::string> moved_names(const std::string& old_name);

}  // namespace penstock
