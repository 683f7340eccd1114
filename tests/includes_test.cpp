// Which folder may include which. Data flows one way: an arrow that is missing here is a wrong include, or a decision
// that belongs in this table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/source_text.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

/// Folder -> folders whose headers it includes, its own apart. Lowest first.
const std::map<std::string, Names>& allowed() {
  static const std::map<std::string, Names> arrows = {
      // The language that both halves speak. "shared" are the files that lie in it directly.
      {"shared", {}},
      {"shared/data", {"shared"}},
      {"shared/model", {"shared"}},
      {"shared/ir", {"shared", "shared/model"}},
      {"shared/machine", {"shared", "shared/model"}},
      {"shared/timeline", {"shared", "shared/ir"}},
      {"shared/policy", {"shared", "shared/ir", "shared/model"}},
      {"shared/policy/presets", {"shared", "shared/policy"}},
      {"shared/scenario", {"shared", "shared/data", "shared/ir", "shared/machine", "shared/model", "shared/policy"}},
      {"shared/report", {"shared", "shared/ir", "shared/timeline"}},
      {"shared/compare", {"shared", "shared/ir", "shared/report", "shared/scenario", "shared/timeline"}},
      // The simulator. "sim" is one simulation, whose result the bounds fill in, and main.cpp.
      {"sim/engine", {"shared/ir", "shared/machine", "shared/timeline"}},
      {"sim/cost", {"shared", "shared/ir", "shared/machine", "shared/model", "sim", "sim/engine"}},
      {"sim",
       {"shared", "shared/ir", "shared/machine", "shared/model", "shared/policy", "shared/scenario", "shared/timeline",
        "sim/cost", "sim/engine", "sim/planner", "sim/program"}},
      {"sim/software", {"shared", "shared/ir", "shared/machine", "shared/model", "shared/policy", "shared/scenario"}},
      {"sim/money", {"shared", "shared/machine", "shared/scenario", "sim/validate"}},
      {"sim/planner",
       {"shared", "shared/ir", "shared/machine", "shared/model", "shared/policy", "shared/scenario", "sim", "sim/cost",
        "sim/engine", "sim/money"}},
      {"sim/validate",
       {"shared", "shared/compare", "shared/ir", "shared/machine", "shared/scenario", "sim", "sim/planner",
        "sim/software"}},
      {"sim/program",
       {"shared", "shared/compare", "shared/ir", "shared/machine", "shared/model", "shared/policy", "shared/scenario",
        "shared/report", "shared/timeline", "sim", "sim/cost", "sim/money", "sim/planner", "sim/software",
        "sim/validate"}},
      // The executor: numbers, then what works on them, then runs, then training, then the program. Only the program
      // asks the simulator: it plans and prints a prediction.
      {"exec/numerics", {"shared"}},
      {"exec/memory", {"shared"}},
      {"exec/store", {"exec/memory", "shared"}},
      {"exec/data", {"shared", "shared/data", "shared/model"}},
      {"exec/optimizer", {"exec/numerics", "shared/ir"}},
      {"exec/runtime",
       {"exec/data", "exec/memory", "exec/optimizer", "exec/store", "shared", "shared/ir", "shared/model",
        "shared/timeline"}},
      {"exec/host",
       {"exec/memory", "exec/numerics", "exec/optimizer", "exec/runtime", "shared", "shared/ir", "shared/model"}},
      {"exec/cuda",
       {"exec/host", "exec/memory", "exec/numerics", "exec/optimizer", "exec/runtime", "shared", "shared/ir",
        "shared/model"}},
      {"exec/checkpoint",
       {"exec/data", "exec/memory", "exec/numerics", "exec/optimizer", "exec/runtime", "shared", "shared/ir",
        "shared/model", "shared/scenario"}},
      {"exec/training",
       {"exec/checkpoint", "exec/data", "exec/memory", "exec/optimizer", "exec/runtime", "shared", "shared/model",
        "shared/scenario"}},
      {"exec/calibrate",
       {"exec/checkpoint", "exec/cuda", "exec/data", "exec/host", "exec/memory", "exec/numerics", "exec/optimizer",
        "exec/runtime", "exec/store", "shared", "shared/data", "shared/ir", "shared/machine", "shared/model",
        "shared/scenario"}},
      {"exec/program", {"exec/calibrate",  "exec/checkpoint", "exec/cuda",     "exec/data",
                        "exec/host",       "exec/memory",     "exec/numerics", "exec/runtime",
                        "exec/store",      "exec/training",   "shared",        "shared/compare",
                        "shared/ir",       "shared/machine",  "shared/model",  "shared/policy",
                        "shared/scenario", "shared/timeline", "sim",           "sim/cost",
                        "sim/planner"}},
      {"exec", {"exec/program", "shared"}},  // main.cpp
  };
  return arrows;
}

struct Include {
  std::string from, to;  // folders
  std::string place;     // file:line
};

/// Every include of a file of ours, in shared, sim and exec.
std::vector<Include> includes() {
  std::vector<Include> found;
  for (const char* half : {"shared", "sim", "exec"})
    for (const SourceText& source : source_texts(half))
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        const std::string header = included(source.lines[i]);
        if (!header.starts_with('"')) continue;
        found.push_back({source.path.parent_path().string(), fs::path(header.substr(1)).parent_path().string(),
                         source.path.string() + ":" + std::to_string(i + 1)});
      }
  return found;
}

TEST(Includes, FollowTheAllowedArrowsOnly) {
  const std::vector<Include> all = includes();
  EXPECT_GT(all.size(), 1000u);  // else the walk has missed the tree
  for (const Include& include : all) {
    if (include.from == include.to) continue;
    const auto arrows = allowed().find(include.from);
    ASSERT_NE(arrows, allowed().end()) << include.place << ": the folder " << include.from << " is not in the table";
    EXPECT_TRUE(arrows->second.contains(include.to))
        << include.place << ": " << include.from << " must not include " << include.to;
  }
}

/// Whether `to` can be reached from `from`.
bool reaches(const std::string& from, const std::string& to, Names& seen) {
  if (from == to) return true;
  if (!seen.insert(from).second) return false;
  const Names& next = allowed().at(from);
  return std::any_of(next.begin(), next.end(), [&](const std::string& name) { return reaches(name, to, seen); });
}

/// The table itself: neither half of the language knows a half that speaks it, and no arrow leads back up, but for the
/// simulator's main.cpp, which lies where its library does.
TEST(Includes, TheTableHasNoWayBackUp) {
  for (const auto& [folder, arrows] : allowed())
    for (const std::string& to : arrows) {
      ASSERT_TRUE(allowed().contains(to)) << folder << " -> " << to;
      EXPECT_FALSE(folder.starts_with("shared") && !to.starts_with("shared")) << folder << " -> " << to;
      EXPECT_FALSE(folder.starts_with("sim") && to.starts_with("exec")) << folder << " -> " << to;
      EXPECT_FALSE(to.starts_with("sim") && folder.starts_with("exec") && folder != "exec/program")
          << folder << " -> " << to;
      Names seen;
      if (!folder.starts_with("sim")) {
        EXPECT_FALSE(reaches(to, folder, seen)) << folder << " -> " << to;
      }
    }
}

}  // namespace
}  // namespace penstock
