#include "shared/machine/part_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/harmless_text.h"
#include "shared/nearest_name.h"
#include "shared/toml_reader.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 80;

/// "NVIDIA A100-SXM4-80GB": nvidia, a, 100, sxm, 4, 80, gb.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  char before = ' ';
  for (const char c : name.substr(0, kLongestName)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) {
      const bool joins = std::isalnum(static_cast<unsigned char>(before)) &&
                         (std::isdigit(byte) != 0) == (std::isdigit(static_cast<unsigned char>(before)) != 0);
      if (!joins) words.emplace_back();
      words.back() += static_cast<char>(std::tolower(byte));
    }
    before = c;
  }
  return words;
}

bool is_number(const std::string& word) { return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])); }

template <std::size_t N>
bool is_one_of(const std::string& word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// What a name says of a card.
struct Meant {
  std::vector<std::string> chip;  // in alphabetical order: "RTX PRO 6000" is "6000 pro"
  std::string spoken;             // the same as it was said: "pro6000"
  std::string memory, form;       // "80", "sxm"; empty: not said
};

Meant meant_by(std::string_view name) {
  // Words that are in the name of every such card, or say what the chip's name says already.
  static constexpr std::array<std::string_view, 17> kPlain{
      "nvidia", "geforce", "tesla",     "quadro", "rtx",    "gpu",         "graphics", "card", "tensor",
      "core",   "edition", "blackwell", "hopper", "ampere", "workstation", "server",   "the"};
  static constexpr std::array<std::string_view, 3> kForms{"pcie", "sxm", "nvl"};
  static constexpr std::array<std::string_view, 3> kGigabytes{"gb", "gib", "g"};
  const std::vector<std::string> words = words_of(name);
  Meant meant;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool number_follows = i + 1 < words.size() && is_number(words[i + 1]) && words[i + 1].size() == 1 &&
                                (i + 2 == words.size() || !is_one_of(words[i + 2], kGigabytes));
    if (is_one_of(word, kPlain)) continue;
    if (is_one_of(word, kForms)) {
      meant.form = word;
      if (number_follows) ++i;  // SXM4, PCIe 5
    } else if ((word == "hbm" || word == "gddr") && number_follows) {
      ++i;
      if (i + 1 < words.size() && (words[i + 1] == "e" || words[i + 1] == "x")) ++i;
    } else if (is_number(word) && i + 1 < words.size() && is_one_of(words[i + 1], kGigabytes)) {
      meant.memory = word;
      ++i;
    } else {
      meant.chip.push_back(word);
      meant.spoken += word;
    }
  }
  std::sort(meant.chip.begin(), meant.chip.end());
  return meant;
}

/// A card of the catalogue.
struct Card {
  std::string stem, name;
  fs::path file;
  Meant meant;
  std::vector<std::string> aliases;
};

std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> entries;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    entries.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return entries;
}

std::vector<Card> catalogue_cards() {
  std::vector<Card> cards;
  for (const std::string& stem : catalogue_names(CatalogueKind::card)) {
    Card card{stem, {}, *in_catalogue(CatalogueKind::card, stem), {}, {}};
    const TomlDocument document = read_toml(card.file);
    TomlSection top(document, ""), gpu(document, "gpu");
    card.name = top.text("name");
    if (top.has("aliases")) card.aliases = listed(top.text("aliases"));
    card.meant = meant_by(card.name);
    if (card.meant.memory.empty()) card.meant.memory = words_of(gpu.text("hbm")).front();
    if (const Meant file = meant_by(stem); card.meant.form.empty()) card.meant.form = file.form;
    cards.push_back(std::move(card));
  }
  return cards;
}

/// "A100 40 GB PCIe (a100-40gb-pcie), ..."
std::string names_text(const std::vector<Card>& cards) {
  std::string text;
  for (const Card& card : cards) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", card.name, card.stem);
  return text;
}

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const std::string& word : words_of(name)) letters += word;
  return letters;
}

/// The cards of the nearest chips, at most three, the nearest first.
std::string nearest_cards(const Meant& meant, const std::vector<Card>& cards) {
  std::vector<std::string> chips;
  for (const Card& card : cards)
    if (const std::string& chip = card.meant.spoken; std::find(chips.begin(), chips.end(), chip) == chips.end())
      chips.push_back(chip);
  std::vector<Card> nearest;
  for (int count = 0; count < 3; ++count) {
    const std::string chip = nearest_name(meant.spoken, chips);
    if (chip.empty()) break;
    chips.erase(std::find(chips.begin(), chips.end(), chip));
    std::copy_if(cards.begin(), cards.end(), std::back_inserter(nearest),
                 [&](const Card& card) { return card.meant.spoken == chip; });
  }
  return nearest.empty() ? "the catalogue has " + names_text(cards) : "the nearest are " + names_text(nearest);
}

bool is_path(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".toml"); }

/// A file that somebody named by its path.
fs::path named_by_path(CatalogueKind kind, const std::string& name, const fs::path& folder, const std::string& place) {
  std::error_code ignored;
  const fs::path file = file_beside(kind, folder, name);
  if (!fs::exists(file, ignored))
    throw InputError(fmt::format("{}: there is no file {}: {}", place, file.string(), why_not_read(file, ENOENT)));
  return file;
}

std::string shown_name(const std::string& name) {
  return harmless(name.substr(0, kLongestName)) + (name.size() > kLongestName ? "..." : "");
}

}  // namespace

fs::path find_card(const std::string& name, const fs::path& folder, const std::string& place) {
  if (is_path(name)) return named_by_path(CatalogueKind::card, name, folder, place);
  if (const auto own = in_catalogue(CatalogueKind::card, name)) return *own;
  const std::vector<Card> cards = catalogue_cards();
  const std::string letters = letters_of(name);
  for (const Card& card : cards) {
    if (letters == letters_of(card.stem)) return card.file;
    for (const std::string& alias : card.aliases)
      if (letters == letters_of(alias)) return card.file;
  }
  const Meant meant = meant_by(name);
  std::vector<Card> of_chip, found;
  for (const Card& card : cards) {
    if (meant.chip.empty() || name.size() > kLongestName || meant.chip != card.meant.chip) continue;
    of_chip.push_back(card);
    const bool memory = meant.memory.empty() || meant.memory == card.meant.memory;
    if (memory && (meant.form.empty() || meant.form == card.meant.form)) found.push_back(card);
  }
  if (found.size() == 1) return found.front().file;
  if (found.size() > 1)
    throw InputError(fmt::format("{}: \"{}\" may be {}; name one of them", place, shown_name(name), names_text(found)));
  if (!of_chip.empty())
    throw InputError(fmt::format("{}: there is no \"{}\" in the catalogue, of this chip it has {}", place,
                                 shown_name(name), names_text(of_chip)));
  throw InputError(
      fmt::format("{}: there is no card \"{}\"; {}; `penstock-sim list cards` has all, and a file of your "
                  "own may be named (my/card.toml)",
                  place, shown_name(name), nearest_cards(meant, cards)));
}

fs::path find_host(const std::string& name, const fs::path& folder, const std::string& place) {
  if (is_path(name)) return named_by_path(CatalogueKind::host, name, folder, place);
  if (const auto own = in_catalogue(CatalogueKind::host, name)) return *own;
  const std::vector<std::string> names = catalogue_names(CatalogueKind::host);
  const std::string letters = letters_of(name);
  for (const std::string& host : names)
    if (letters == letters_of(host) && !letters.empty()) return *in_catalogue(CatalogueKind::host, host);
  throw InputError(
      fmt::format("{}: there is no host \"{}\"; {}", place, shown_name(name), suggestion(name, names, "hosts")));
}

}  // namespace penstock
