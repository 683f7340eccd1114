#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "shared/error.h"
#include "shared/machine/machine.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

const std::string kSmall = R"(name = "small"
[gpu]
name = "G"
hbm = "24 GiB"
hbm_bandwidth = "1008 GB/s"
matmul = "145 TFLOP/s"
launch = "4 us"
[dram]
capacity = "128 GiB"
bandwidth = "70 GB/s"
[cpu]
cores = 16
adamw = "2.7 Gparam/s"
host_op = "10 us"
[link]
h2d = "25 GB/s"
d2h = "26 GB/s"
latency = "8 us"
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Machine read(const std::string& text) {
  const TemporaryFolder folder;
  return read_hardware(folder.write("small.toml", text));
}

/// The message, from the file's name on.
std::string refusal(const std::string& text) {
  const std::string what = error_text([&] { read(text); });
  return what.substr(std::min(what.size(), what.find("small.toml")));
}

TEST(HardwareToml, WhatIsKeptOfTheMemoryMayBeGiven) {
  EXPECT_FALSE(read(kSmall).gpu.context_bytes);
  EXPECT_FALSE(read(kSmall).reserve_bytes);
  const Machine machine = read(replaced(replaced(kSmall, "[dram]\n", "[dram]\nreserve = \"4 GiB\"\n"), "[gpu]\n",
                                        "[gpu]\ncontext = \"600 MiB\"\n"));
  EXPECT_EQ(machine.gpu.context_bytes, 600LL << 20);
  EXPECT_EQ(machine.reserve_bytes, 4LL << 30);
  EXPECT_EQ(refusal(replaced(kSmall, "[dram]\n", "[dram]\nreserve = \"128 GiB\"\n")),
            "small.toml:9: [dram] reserve: expected less than capacity = \"128 GiB\"; found \"128 GiB\"");
  EXPECT_NE(refusal(replaced(kSmall, "[gpu]\n", "[gpu]\ncontext = \"30 GB\"\n")).find("less than hbm"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kSmall, "[gpu]\n", "[gpu]\ncontext = \"-1 GB\"\n")).find("[gpu] context"),
            std::string::npos);
}

TEST(HardwareToml, ReadsEveryFigureInBaseUnits) {
  const Machine machine = read(kSmall + R"([nvme]
capacity = "2 TB"
read = "6.5 GB/s"
write = "5 GB/s"
latency = "100 us"
)");
  EXPECT_EQ(machine.name, "small");
  EXPECT_FALSE(machine.measured);
  EXPECT_EQ(machine.gpu.name, "G");
  EXPECT_EQ(machine.gpu.hbm_bytes, 24LL << 30);
  EXPECT_DOUBLE_EQ(machine.gpu.hbm_bytes_per_second, 1.008e12);
  EXPECT_DOUBLE_EQ(machine.gpu.matmul_flops_per_second, 1.45e14);
  EXPECT_EQ(machine.gpu.matmul_burst_flops_per_second, 0);  // as sustained
  EXPECT_DOUBLE_EQ(machine.gpu.launch_seconds, 4e-6);
  EXPECT_FALSE(machine.gpu.is_host);
  EXPECT_EQ(machine.dram_bytes, 128LL << 30);
  EXPECT_DOUBLE_EQ(machine.cpu.dram_bytes_per_second, 7e10);
  EXPECT_EQ(machine.cpu.cores, 16);
  ASSERT_EQ(machine.cpu.adamw_by_threads.size(), 1u);
  EXPECT_EQ(machine.cpu.adamw_by_threads[0].threads, 16);  // one rate is that of all cores
  EXPECT_DOUBLE_EQ(machine.cpu.adamw_by_threads[0].per_second, 2.7e9);
  EXPECT_EQ(machine.cpu.adamw_bytes_per_parameter, 26);
  EXPECT_DOUBLE_EQ(machine.host_op_seconds, 1e-5);
  EXPECT_DOUBLE_EQ(machine.link.h2d.bytes_per_second, 2.5e10);
  EXPECT_DOUBLE_EQ(machine.link.d2h.bytes_per_second, 2.6e10);
  EXPECT_DOUBLE_EQ(machine.link.h2d.latency_seconds, 8e-6);
  EXPECT_EQ(machine.link.duplex_h2d_bytes_per_second, 0);
  EXPECT_TRUE(machine.link.h2d.curve.empty());
  EXPECT_EQ(machine.nvme.bytes, 2'000'000'000'000);
  EXPECT_DOUBLE_EQ(machine.nvme.read_bytes_per_second, 6.5e9);
  EXPECT_DOUBLE_EQ(machine.nvme.write_bytes_per_second, 5e9);
  EXPECT_DOUBLE_EQ(machine.nvme.latency_seconds, 1e-4);
}

TEST(HardwareToml, WithoutNvmeThereIsNone) { EXPECT_EQ(read(kSmall).nvme.bytes, 0); }

TEST(HardwareToml, ReadsOptionalGpuFigures) {
  const Machine machine = read(replaced(kSmall, "launch = \"4 us\"\n", R"(launch = "4 us"
matmul_burst = "150 TFLOP/s"
power_settle = "2 s"
attention_forward_efficiency = 0.7
attention_backward_efficiency = 0.5
elementwise_efficiency = 0.9
is_host = true
)"));
  EXPECT_DOUBLE_EQ(machine.gpu.matmul_burst_flops_per_second, 1.5e14);
  EXPECT_EQ(machine.gpu.power_settle_seconds, 2);
  EXPECT_EQ(machine.gpu.attention_forward_efficiency, 0.7);
  EXPECT_EQ(machine.gpu.attention_backward_efficiency, 0.5);
  EXPECT_EQ(machine.gpu.elementwise_efficiency, 0.9);
  EXPECT_TRUE(machine.gpu.is_host);
}

TEST(HardwareToml, TablesAreSortedBySizeAndThreadsWhateverTheirOrder) {
  const Machine machine = read(replaced(kSmall, "adamw = \"2.7 Gparam/s\"\n", "") + R"([cpu.adamw_by_threads]
16 = "2.7 Gparam/s"
8 = "2 Gparam/s"
[cpu.dram_by_threads]
1 = "9.8 GB/s"
[link.h2d_curve]
"1 MiB" = "20 GB/s"
"64 KiB" = "8.192 GB/s"
)");
  ASSERT_EQ(machine.cpu.adamw_by_threads.size(), 2u);
  EXPECT_EQ(machine.cpu.adamw_by_threads[0].threads, 8);
  EXPECT_DOUBLE_EQ(machine.cpu.adamw_by_threads[0].per_second, 2e9);
  EXPECT_EQ(machine.cpu.adamw_by_threads[1].threads, 16);
  ASSERT_EQ(machine.cpu.dram_by_threads.size(), 1u);
  EXPECT_DOUBLE_EQ(machine.cpu.dram_by_threads[0].per_second, 9.8e9);
  ASSERT_EQ(machine.link.h2d.curve.size(), 2u);
  EXPECT_EQ(machine.link.h2d.curve[0].bytes, 65536);
  EXPECT_DOUBLE_EQ(machine.link.h2d.curve[0].seconds, 8e-6);  // 65536 B at 8.192e9 B/s
  EXPECT_EQ(machine.link.h2d.curve[1].bytes, 1048576);
}

TEST(HardwareToml, ReadsMeasuredSharingOfDram) {
  const Machine machine = read(kSmall + R"([sharing.adamw_8_h2d]
threads = 8
cpu = "83.7 GB/s"
h2d = "20 GB/s"
[sharing.copies]
threads = 0
h2d = "22 GB/s"
d2h = "23 GB/s"
)");
  ASSERT_EQ(machine.cpu.sharing.size(), 2u);
  EXPECT_EQ(machine.cpu.sharing[0].cpu_threads, 8);
  EXPECT_TRUE(machine.cpu.sharing[0].h2d);
  EXPECT_FALSE(machine.cpu.sharing[0].d2h);
  EXPECT_DOUBLE_EQ(machine.cpu.sharing[0].cpu_bytes_per_second, 8.37e10);
  EXPECT_DOUBLE_EQ(machine.cpu.sharing[0].h2d_bytes_per_second, 2e10);
  EXPECT_EQ(machine.cpu.sharing[0].d2h_bytes_per_second, 0);
  EXPECT_EQ(machine.cpu.sharing[1].cpu_threads, 0);
  EXPECT_TRUE(machine.cpu.sharing[1].d2h);
}

TEST(HardwareToml, ErrorsNameLineKeyAndWhatWouldBeRight) {
  EXPECT_EQ(refusal(replaced(kSmall, "hbm_bandwidth", "hbm_bandwith")),
            "small.toml:2: [gpu] hbm_bandwidth: is missing; expected a bandwidth, such as \"1008 GB/s\"; there is "
            "hbm_bandwith (in line 5): did you mean hbm_bandwidth?");
  EXPECT_EQ(refusal(replaced(kSmall, "launch = \"4 us\"", "launch = \"4 us\"\npower_setle = \"3 s\"")),
            "small.toml:8: [gpu] power_setle: is not a key of this table; did you mean power_settle?");
  EXPECT_EQ(refusal(kSmall + "[nvm]\ncapacity = \"2 TB\"\n"),
            "small.toml:19: [nvm] is not a table of this file; did you mean nvme?");
  EXPECT_EQ(refusal(replaced(kSmall, "name = \"small\"", "nam = \"small\"")),
            "small.toml:1: name: is missing; expected a text in quotes; there is nam (in line 1): did you mean name?");
  EXPECT_EQ(
      refusal(replaced(kSmall, "\"24 GiB\"", "24")),
      "small.toml:4: [gpu] hbm: expected a size with its unit (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB), such as \"24 "
      "GiB\"; found \"24\"");
  EXPECT_EQ(refusal(replaced(kSmall, "\"24 GiB\"", "\"-24 GiB\"")),
            "small.toml:4: [gpu] hbm: a size cannot be negative; found \"-24 GiB\"");
  EXPECT_EQ(refusal(replaced(kSmall, "cores = 16", "cores = \"16\"")),
            "small.toml:12: [cpu] cores: expected a whole number from 1 to 4096, found \"16\"");
}

TEST(HardwareToml, RefusesFiguresThatCannotBe) {
  EXPECT_NE(refusal(replaced(kSmall, "\"24 GiB\"", "\"24 GB/s\"")), "");
  EXPECT_NE(refusal(replaced(kSmall, "\"24 GiB\"", "\"0 GiB\"")), "");
  EXPECT_NE(refusal(replaced(kSmall, "\"24 GiB\"", "\"1e9 TiB\"")), "");
  EXPECT_NE(refusal(replaced(kSmall, "\"145 TFLOP/s\"", "\"0 TFLOP/s\"")), "");
  EXPECT_NE(refusal(replaced(kSmall, "\"4 us\"", "\"-4 us\"")), "");
  EXPECT_NE(refusal(replaced(kSmall, "cores = 16", "cores = 0")), "");
  EXPECT_NE(refusal(replaced(kSmall, "launch = \"4 us\"", "launch = \"4 us\"\nelementwise_efficiency = 1.5")), "");
  EXPECT_NE(refusal(replaced(kSmall, "launch = \"4 us\"", "launch = \"4 us\"\nelementwise_efficiency = nan")), "");
  EXPECT_NE(refusal(replaced(kSmall, "launch = \"4 us\"", "launch = \"4 us\"\nmatmul_burst = \"100 TFLOP/s\"")), "");
  EXPECT_MENTIONS(refusal(replaced(kSmall, "launch = \"4 us\"", "launch = \"4 us\"\ncopy_engines = 3")),
                  "copy_engines: decides nothing");
  EXPECT_NE(refusal(replaced(kSmall, "latency = \"8 us\"", "latency = \"8 us\"\nduplex_h2d = \"30 GB/s\"")), "");
}

TEST(HardwareToml, RefusesBadTables) {
  EXPECT_NE(refusal(kSmall + "[cpu.adamw_by_threads]\n8 = \"2 Gparam/s\"\n").find("keep one of the two"),
            std::string::npos);
  EXPECT_NE(refusal(kSmall + "[cpu.dram_by_threads]\neight = \"2 GB/s\"\n").find("number of threads"),
            std::string::npos);
  EXPECT_NE(refusal(kSmall + "[cpu.dram_by_threads]\n0 = \"2 GB/s\"\n").find("number of threads"), std::string::npos);
  EXPECT_NE(refusal(kSmall + "[cpu.dram_by_threads]\n8 = \"2 GB/s\"\n08 = \"2 GB/s\"\n").find("twice"),
            std::string::npos);
  EXPECT_NE(refusal(kSmall + "[link.h2d_curve]\n64 = \"2 GB/s\"\n").find("expected a size"), std::string::npos);
  EXPECT_NE(refusal(kSmall + "[link.h2d_curve]\n\"1 KiB\" = \"2 GB/s\"\n\"1024 B\" = \"2 GB/s\"\n").find("twice"),
            std::string::npos);
  EXPECT_NE(refusal(kSmall + "[sharing.x]\nthreads = 8\nh2d = \"2 GB/s\"\n").find("[sharing.x] cpu"),
            std::string::npos);
  EXPECT_NE(refusal(kSmall + "[sharing.x]\nthreads = 0\ncpu = \"2 GB/s\"\n").find("[sharing.x] cpu"),
            std::string::npos);
}

TEST(HardwareToml, NamesAMissingFile) {
  EXPECT_THROW(read_hardware("/no/such/small.toml"), InputError);
  EXPECT_THROW(read_hardware("/"), InputError);  // not a file
}

}  // namespace
}  // namespace penstock
