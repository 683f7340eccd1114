// What a software file says of memory, read; and what is wrong in it, with its place.
#include "shared/machine/software_memory.h"

#include <gtest/gtest.h>

#include "shared/machine/machine.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

class MemoryFile : public testing::Test {
 protected:
  SoftwareMemory read(const std::string& text) const {
    return read_software_memory(folder_.write("s.toml", "name = \"other\"\n" + text));
  }
  std::string error_of(const std::string& text) const {
    return error_text([&] { read(text); });
  }
  TemporaryFolder folder_;
};

constexpr const char* kItem = "[memory.x]\ncause = \"c\"\ntier = \"dram\"\n";

TEST_F(MemoryFile, ANameAloneHasNothing) {
  const SoftwareMemory memory = read("");
  EXPECT_EQ(memory.name, "other");
  EXPECT_TRUE(memory.items.empty());
  EXPECT_TRUE(memory.settings.empty());
}

TEST_F(MemoryFile, EveryKeyIsRead) {
  const SoftwareMemory memory = read(R"([settings]
pinned = true
count = 3
size = 1000
[memory.buffers]
cause = "buffers"
tier = "hbm"
presets = "zero2-offload, zero3-offload"
phases = "loss, first step"
when = "pinned, not pinned"
elements = "size"
bytes_each = -2.5
at_most = "count"
together = "count"
times = 7
instead_of = "gradients"
power_of_two = true
rounding_only = true
[memory.parts]
cause = "parts"
tier = "dram"
elements = "parameters"
pieces = "layer"
bytes_each = 4
[memory.process]
cause = "process"
tier = "dram"
bytes = "3 GiB"
times = "count"
)");
  ASSERT_EQ(memory.settings.size(), 3u);
  EXPECT_TRUE(memory.settings.find("pinned")->second.is_flag);
  EXPECT_EQ(memory.settings.find("count")->second.value, 3);
  ASSERT_EQ(memory.items.size(), 3u);
  const MemoryItem& buffers = memory.items[0];
  EXPECT_EQ(buffers.name, "buffers");
  EXPECT_EQ(buffers.tier, "hbm");
  EXPECT_EQ(buffers.presets, (std::vector<std::string>{"zero2-offload", "zero3-offload"}));
  EXPECT_EQ(buffers.phases, (std::vector<std::string>{"loss", "first step"}));
  EXPECT_EQ(buffers.conditions, (std::vector<std::pair<std::string, bool>>{{"pinned", true}, {"pinned", false}}));
  EXPECT_EQ(buffers.counted, Counted::setting);
  EXPECT_EQ(buffers.setting, "size");
  EXPECT_EQ(buffers.bytes_each, -2.5);
  EXPECT_EQ(buffers.at_most, "count");
  EXPECT_EQ(std::get<std::string>(buffers.together), "count");
  EXPECT_EQ(std::get<std::int64_t>(buffers.times), 7);
  EXPECT_EQ(buffers.instead_of, "gradients");
  EXPECT_TRUE(buffers.power_of_two);
  EXPECT_TRUE(buffers.rounding_only);
  EXPECT_EQ(memory.items[1].counted, Counted::parameters);
  EXPECT_EQ(memory.items[1].pieces, MemoryPieces::layer);
  EXPECT_EQ(std::get<std::int64_t>(memory.items[1].times), 1);
  EXPECT_EQ(memory.items[2].counted, Counted::nothing);
  EXPECT_EQ(memory.items[2].bytes, std::int64_t{3} << 30);
}

TEST_F(MemoryFile, AnotherFilesTablesComeFirst) {
  folder_.write("other.toml", "name = \"first\"\n[settings]\non = true\nn = 3\n" + std::string(kItem) +
                                  "bytes = \"1 GiB\"\nwhen = \"on\"\n");
  const std::string own = "[settings]\non = false\n[memory.y]\ncause = \"y\"\ntier = \"hbm\"\nbytes = \"2 GiB\"\n";
  const SoftwareMemory memory = read("memory_of = \"other.toml\"\n" + own);
  EXPECT_EQ(memory.name, "other");
  ASSERT_EQ(memory.items.size(), 2u);
  EXPECT_EQ(memory.items[0].name, "x");
  EXPECT_EQ(memory.items[1].name, "y");
  EXPECT_EQ(memory.settings.find("on")->second.value, 0);
  EXPECT_EQ(memory.settings.find("n")->second.value, 3);
  const SoftwareMemory changed = read("memory_of = \"other.toml\"\n" + std::string(kItem) + "bytes = \"3 GiB\"\n");
  ASSERT_EQ(changed.items.size(), 1u);
  EXPECT_EQ(changed.items[0].bytes, 3LL << 30);
  EXPECT_TRUE(changed.items[0].conditions.empty());
  folder_.write("third.toml", "name = \"third\"\nmemory_of = \"other.toml\"\n");
  EXPECT_MENTIONS(error_of("memory_of = \"third.toml\"\n"), "third file");
  EXPECT_MENTIONS(error_of("memory_of = \"nowhere.toml\"\n"), "nowhere.toml");
}

TEST_F(MemoryFile, WhatIsWrongIsNamedWithItsPlace) {
  const std::string item = kItem;
  EXPECT_MENTIONS(error_of(item), "[memory.x] bytes");
  EXPECT_MENTIONS(error_of(item + "bytes = \"1 GiB\"\nelements = \"logits\"\n"), "one of the two");
  EXPECT_MENTIONS(error_of(item + "bytes = 3\n"), "s.toml:5: [memory.x] bytes");
  EXPECT_MENTIONS(error_of(item + "bytes = \"1 GiB\"\nbytes_eahc = 3\n"), "bytes_eahc");
  EXPECT_MENTIONS(error_of(item + "elements = \"logit\"\nbytes_each = 1\n"), "\"logit\"");
  EXPECT_MENTIONS(error_of(item + "elements = \"logits\"\nbytes_each = 1e9\n"), "bytes_each");
  EXPECT_MENTIONS(error_of(item + "elements = \"logits\"\nbytes_each = nan\n"), "bytes_each");
  EXPECT_MENTIONS(error_of(item + "elements = \"logits\"\nbytes_each = 1\npieces = \"tensor\"\n"), "pieces");
  EXPECT_MENTIONS(error_of(item + "elements = \"parameters\"\nbytes_each = 1\npieces = \"sub_group\"\n"),
                  "sub_group_size");
  EXPECT_MENTIONS(error_of(item + "elements = \"chunk_logits\"\nbytes_each = 1\n"), "loss_chunk_tokens");
  EXPECT_MENTIONS(error_of(item + "elements = \"parameters\"\nbytes_each = 1\nrounding_only = true\n"), "power_of_two");
  EXPECT_MENTIONS(error_of(item + "elements = \"parameters\"\nbytes_each = 1\ntimes = \"many\"\n"), "\"many\"");
  EXPECT_MENTIONS(error_of(item + "elements = \"parameters\"\nbytes_each = 1\ntimes = 0\n"), "times");
  EXPECT_MENTIONS(error_of("[settings]\nn = 3\n" + item + "bytes = \"1 GiB\"\nwhen = \"n\"\n"), "a flag of [settings]");
  EXPECT_MENTIONS(error_of("[settings]\nf = true\n" + item + "elements = \"f\"\nbytes_each = 1\n"), "a number of");
  EXPECT_MENTIONS(error_of("[settings]\nn = -3\n"), "[settings] n");
  EXPECT_MENTIONS(error_of("[settings]\nn = \"3\"\n"), "[settings] n");
  EXPECT_MENTIONS(error_of("[memory.x]\ncause = \"c\"\ntier = \"nvme\"\nbytes = \"1 GiB\"\n"), "tier");
}

// Times and memory stand in one file; whoever reads the times hears of errors in the rest.
TEST_F(MemoryFile, ApplyingTheTimesReadsTheMemoryToo) {
  Machine machine;
  EXPECT_MENTIONS(error_text([&] {
                    apply_software(folder_.write("t.toml", "name = \"n\"\n[memory.x]\ncause = \"c\"\n"), machine);
                  }),
                  "[memory.x] tier");
}

TEST(SoftwareCatalogue, EveryFileIsRead) {
  int with_memory = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "scenarios/software"))
    with_memory += read_software_memory(entry.path()).items.empty() ? 0 : 1;
  EXPECT_GE(with_memory, 5);
}

}  // namespace
}  // namespace penstock
