#include "shared/scenario/moved_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "shared/error.h"

namespace penstock {
namespace {

constexpr const char* kOldTable = "run";

}  // namespace

std::vector<std::string> moved_names(const std::string& old_name) {
  std::vector<std::string> names;
  for (const MovedKey& moved : kMovedKeys)
    if (old_name == fmt::format("{}.{}", kOldTable, moved.old_key))
      names.push_back(fmt::format("{}.{}", moved.table, moved.key));
  return names;
}

void move_keys(TomlDocument& document) {
  const auto run = document.tables.find(kOldTable);
  if (run == document.tables.end()) return;
  std::set<std::string_view> done;
  for (const MovedKey& moved : kMovedKeys) {
    const auto old = run->second.values.find(moved.old_key);
    if (old == run->second.values.end()) continue;
    TomlTable& table = document.tables[std::string(moved.table)];
    if (const auto now = table.values.find(moved.key); now != table.values.end())
      throw InputError(fmt::format("{}: [{}] {}: stands beside {}: [{}] {}, which says the same; keep that",
                                   old->second.place, kOldTable, moved.old_key, now->second.place, moved.table,
                                   moved.key));
    if (table.place.empty()) table.place = old->second.place;
    table.values.emplace(moved.key, old->second);
    if (done.insert(moved.old_key).second)
      document.notes.push_back(
          fmt::format("{}: [{}] {} stands in {} now", old->second.place, kOldTable, moved.old_key,
                      fmt::join(moved_names(fmt::format("{}.{}", kOldTable, moved.old_key)), " and ")));
  }
  for (const std::string_view key : done) run->second.values.erase(run->second.values.find(key));
}

}  // namespace penstock
