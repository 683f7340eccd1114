// Sources include what they use, themselves or through headers of ours: precompiled headers (cmake/PenstockTargets.cmake)
// would hide what is missing until somebody compiles without them, as the page's preset does. Held by names in the text.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cctype>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/source_text.h"

namespace penstock {
namespace {

using Names = std::set<std::string>;

/// Headers that give a name: one of them is enough.
std::map<std::string, Names> headers_by_name() {
  const std::map<std::string, Names> names = {
      {"algorithm", {"all_of",      "any_of",      "clamp",       "copy",      "copy_n",      "count_if",
                     "equal",       "fill",        "fill_n",      "find",      "find_if",     "find_if_not",
                     "for_each",    "is_sorted",   "lower_bound", "max",       "max_element", "min",
                     "min_element", "none_of",     "nth_element", "remove_if", "replace",     "reverse",
                     "sort",        "stable_sort", "swap_ranges", "transform", "unique",      "upper_bound"}},
      {"array", {"array"}},
      {"atomic", {"atomic"}},
      {"chrono", {"chrono"}},
      {"cmath",
       {"ceil", "exp", "exp2", "floor", "fma", "hypot", "isfinite", "isinf", "isnan", "ldexp", "llround", "log", "log2",
        "lround", "nearbyint", "pow", "round", "sqrt", "tanh"}},
      {"cstdint", {"int16_t", "int32_t", "int64_t", "uint16_t", "uint32_t", "uint64_t", "uint8_t"}},
      {"cstdlib", {"_Exit", "abort", "exit", "getenv", "strtod", "system"}},
      {"cstring", {"memcmp", "memcpy", "memset", "strerror", "strlen"}},
      {"filesystem", {"filesystem"}},
      {"fstream", {"fstream", "ifstream", "ofstream"}},
      {"functional", {"function"}},
      {"iterator", {"back_inserter", "istreambuf_iterator"}},
      {"limits", {"numeric_limits"}},
      {"map", {"map", "multimap"}},
      {"memory", {"make_shared", "make_unique", "shared_ptr", "unique_ptr"}},
      {"mutex", {"lock_guard", "mutex", "scoped_lock"}},
      {"numeric", {"accumulate", "gcd", "iota", "lcm"}},
      {"optional", {"nullopt", "optional"}},
      {"random", {"mt19937", "mt19937_64"}},
      {"set", {"set"}},
      {"span", {"span"}},
      {"sstream", {"istringstream", "ostringstream", "stringstream"}},
      {"stdexcept", {"invalid_argument", "logic_error", "out_of_range", "runtime_error"}},
      {"string", {"string", "to_string"}},
      {"string_view", {"string_view"}},
      {"thread", {"jthread", "this_thread", "thread"}},
      {"tuple", {"make_tuple", "tie", "tuple"}},
      {"variant", {"get_if", "holds_alternative", "variant", "visit"}},
      {"vector", {"vector"}},
  };
  std::map<std::string, Names> headers;
  for (const auto& [header, given] : names)
    for (const std::string& name : given) headers["std::" + name].insert("<" + header);
  headers["std::abs"] = {"<cmath", "<cstdlib"};
  for (const char* name : {"format", "format_to", "join", "memory_buffer", "to_string"})
    headers[std::string("fmt::") + name] = {"<fmt/format.h", "<fmt/ranges.h"};
  for (const char* name : {"json", "ordered_json"})
    headers[std::string("nlohmann::") + name] = {"<nlohmann/json.hpp", "<nlohmann/json_fwd.hpp"};
  return headers;
}

/// "std::vector", ... as they stand in a line, its remark and its texts apart.
Names qualified_names(const std::string& line) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  Names found;
  bool quoted = false;
  std::string word, scope;  // the word that ends here; what stands before it, "std::"
  for (std::size_t i = 0; i <= line.size(); ++i) {
    const char c = i < line.size() ? line[i] : ' ';
    if (c == '\\' && quoted) {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == '/' && i + 1 < line.size() && line[i + 1] == '/') {
      i = line.size() - 1;
    } else if (!quoted && in_word(c)) {
      word += c;
      continue;
    }
    if (!word.empty() && !scope.empty()) found.insert(scope + word);
    const bool opens = !quoted && c == ':' && i + 1 < line.size() && line[i + 1] == ':';
    scope = opens && scope.empty() ? word + "::" : "";
    word.clear();
    if (opens) ++i;
  }
  return found;
}

class IncludedNames : public testing::Test {
 protected:
  IncludedNames() {
    for (const char* folder : {"shared", "sim", "exec", "tests", "bench"})
      for (SourceText& source : source_texts(folder)) sources_.emplace(source.path.string(), std::move(source));
  }
  /// All that `path` includes of other people's, through headers of ours too.
  void collect(const std::string& path, Names& seen, Names& headers) const {
    const auto source = sources_.find(path);
    if (source == sources_.end() || !seen.insert(path).second) return;
    for (const std::string& line : source->second.lines) {
      const std::string header = included(line);
      if (header.starts_with('<')) headers.insert(header);
      if (header.starts_with('"')) collect(header.substr(1), seen, headers);
    }
  }

  std::map<std::string, SourceText> sources_;  // by path
};

TEST_F(IncludedNames, AreIncluded) {
  const std::map<std::string, Names> known = headers_by_name();
  std::size_t uses = 0;
  for (const auto& [path, source] : sources_) {
    if (source.path.extension() == ".cu" || source.path.extension() == ".cuh") continue;  // compiled without
    Names seen, headers;
    collect(path, seen, headers);
    for (std::size_t i = 0; i < source.lines.size(); ++i)
      for (const std::string& name : qualified_names(source.lines[i])) {
        const auto giving = known.find(name);
        if (giving == known.end()) continue;
        ++uses;
        bool is_there = false;
        for (const std::string& header : giving->second) is_there |= headers.contains(header);
        EXPECT_TRUE(is_there) << path << ":" << i + 1 << ": uses " << name << " without #include "
                              << *giving->second.begin() << ">";
      }
  }
  EXPECT_GT(uses, 10000u);  // else the walk has missed the tree
}

TEST_F(IncludedNames, AreReadOffALine) {
  EXPECT_EQ(qualified_names("std::map<std::string, fmt::memory_buffer> x;  // std::set"),
            (Names{"std::map", "std::string", "fmt::memory_buffer"}));
  EXPECT_EQ(qualified_names(R"(say("std::set \" std::set", std::filesystem::path{}, penstock::std::set);)"),
            (Names{"std::filesystem", "penstock::std"}));
}

/// GCC 12 takes seconds to compile one, and under AddressSanitizer warns of what it has not initialised.
TEST_F(IncludedNames, NoRegularExpressions) {
  for (const auto& [path, source] : sources_)
    for (const std::string& line : source.lines) EXPECT_NE(included(line), "<regex") << path;
}

}  // namespace
}  // namespace penstock
