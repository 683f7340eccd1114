#include "shared/catalogue.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// Tests run in the build tree, where the source's catalogue is the one, or where `scenarios` is that too.
const fs::path kCatalogue = source_folder() / "scenarios";

/// Whether `name` means `file` of the catalogue.
bool means(CatalogueKind kind, const std::string& name, const std::string& file) {
  const auto found = in_catalogue(kind, name);
  return found && fs::equivalent(*found, kCatalogue / file);
}

TEST(Catalogue, OfABuildTreeIsTheSources) { EXPECT_TRUE(fs::equivalent(catalogue_folder(), kCatalogue)); }

TEST(Catalogue, NamesStandForFiles) {
  for (const char* name :
       {"qwen2.5-7b", "qwen2.5-7b.json", "models/qwen2.5-7b.json", "scenarios/models/qwen2.5-7b.json"})
    EXPECT_TRUE(means(CatalogueKind::model, name, "models/qwen2.5-7b.json")) << name;
  EXPECT_TRUE(means(CatalogueKind::hardware, "gh200", "hardware/gh200.toml"));
  EXPECT_TRUE(means(CatalogueKind::software, "deepspeed", "software/deepspeed.toml"));
  EXPECT_TRUE(means(CatalogueKind::prices, "machines", "prices/machines.toml"));
  EXPECT_TRUE(means(CatalogueKind::scenario, "quickstart", "quickstart.toml"));
  EXPECT_TRUE(
      means(CatalogueKind::scenario, "published/03-megatrain-7b-gh200", "published/03-megatrain-7b-gh200.toml"));
  for (const std::string& name :
       {std::string("gh2000"), std::string(), std::string("models"), (kCatalogue / "hardware/gh200.toml").string()})
    EXPECT_FALSE(in_catalogue(CatalogueKind::hardware, name)) << name;
  EXPECT_TRUE(fs::equivalent(named_folder("published"), kCatalogue / "published"));
  EXPECT_TRUE(fs::equivalent(named_folder("scenarios/measured"), kCatalogue / "measured"));
  EXPECT_EQ(named_folder("no such folder"), "no such folder");
}

TEST(Catalogue, TheEnvironmentMayNameAnother) {
  const TemporaryFolder folder;
  ::setenv("PENSTOCK_CATALOGUE", folder.path().c_str(), 1);
  EXPECT_MENTIONS(error_text([] { catalogue_folder(); }),
                  "PENSTOCK_CATALOGUE is " + folder.path().string() + ", which is no catalogue");
  for (const char* kind : {"models", "hardware"}) fs::create_directories(folder.path() / kind);
  EXPECT_EQ(catalogue_folder(), folder.path());
  EXPECT_FALSE(in_catalogue(CatalogueKind::hardware, "gh200"));
  ::unsetenv("PENSTOCK_CATALOGUE");
  EXPECT_TRUE(means(CatalogueKind::hardware, "gh200", "hardware/gh200.toml"));
}

TEST(Catalogue, WhatIsThereGoesFirst) {
  const TemporaryFolder folder;
  const fs::path own = folder.write("quickstart.toml", "");
  EXPECT_EQ(named_file(CatalogueKind::scenario, own), own);
  EXPECT_EQ(named_folder(folder.path()), folder.path());
  EXPECT_EQ(named_file(CatalogueKind::scenario, ""), "");
  // What cannot be read for another reason is said, or left to whoever reads it.
  EXPECT_MENTIONS(error_text([&] { named_file(CatalogueKind::scenario, own / "x.toml"); }), "Not a directory");
  EXPECT_EQ(named_file(CatalogueKind::scenario, folder.path()), folder.path());
}

TEST(Catalogue, ANameThatIsNowhereGetsTheNearest) {
  EXPECT_EQ(
      error_text([] { named_file(CatalogueKind::scenario, "quickstat"); }),
      "quickstat: cannot be read: No such file or directory; the current folder has no file of a similar name; did "
      "you mean quickstart of the catalogue?");
  EXPECT_MENTIONS(error_text([] { named_file(CatalogueKind::model, "qwen2.5-8b"); }), "did you mean qwen2.5-");
  const TemporaryFolder folder;
  folder.write("mine.toml", "");
  EXPECT_MENTIONS(error_text([&] { named_file(CatalogueKind::scenario, folder.path() / "mien.toml"); }),
                  "did you mean " + (folder.path() / "mine.toml").string());
  EXPECT_EQ(nearest_in_catalogue(CatalogueKind::hardware, "hardware/gh201.toml"),
            "; did you mean gh200 of the catalogue?");
  EXPECT_EQ(nearest_in_catalogue(CatalogueKind::hardware, "abacus of a century"), "");
}

}  // namespace
}  // namespace penstock
