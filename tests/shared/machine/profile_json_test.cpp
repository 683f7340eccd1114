#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/machine/profile.h"
#include "shared/model/kernels.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

/// A different value in every member, none of them short in decimal, so that a member that is lost, swapped or rounded
/// shows.
Profile odd_profile() {
  Profile profile;
  profile.date = "2026-11-29T12:00:00Z";
  profile.host = "Xeon, \"H200\", driver 580";
  profile.spread = {{"link.h2d", 1.0 / 3.0}, {"cpu.adamw", 0.1}};
  Machine& machine = profile.machine;
  machine.name = "odd";
  machine.gpu.name = "GPU";
  machine.gpu.hbm_bytes = 150'754'820'096;
  machine.gpu.context_bytes = 833'421'312;
  double next = 1e9 / 3.0;
  const auto odd = [&] { return next *= 1.0 + 1.0 / 7.0; };
  machine.gpu.hbm_bytes_per_second = odd();
  machine.gpu.matmul_flops_per_second = odd();
  machine.gpu.matmul_burst_flops_per_second = odd();
  machine.gpu.power_settle_seconds = 10.0 / 3.0;
  machine.gpu.attention_forward_efficiency = 2.0 / 3.0;
  machine.gpu.attention_backward_efficiency = 1.0 / 3.0;
  machine.gpu.elementwise_efficiency = 5.0 / 7.0;
  machine.gpu.launch_seconds = 1e-6 / 0.3;
  machine.gpu.is_host = true;
  machine.gpu.matmuls = {{1, 2, 3, true, 1e-3 / 7, KernelId::qkv, 2, 1e-3 / 6}, {4, 5, 6, false, 1e-3 / 9}};
  machine.gpu.attentions = {{7, 8, 9, 10, 11, 1e-3 / 11, 1e-3 / 13, 1e-3 / 17, 1e-3 / 19}};
  machine.gpu.elementwise = {{KernelId::swiglu, 1e6 / 3, 1e-5 / 3, 1e-5 / 2.9}, {std::nullopt, 1e7 / 3, 1e-4 / 3}};
  machine.gpu.power = {{1.0 / 3, 1.0 / 7, 0.01}, {2.0 / 3, 5.0 / 7, 0.01}, {1.0 / 9, 3.0 / 7, 0.1}};
  machine.cpu.passes = {{"finish fp32 bf16", 15, 1e9 / 3, 1.0 / 7}};
  machine.gpu.op_launch_seconds = 1e-6 / 0.7;
  machine.gpu.op_seconds = 1e-6 / 0.9;
  machine.dram_bytes = 134'144'966'656;
  machine.reserve_bytes = 1'879'048'193;
  machine.cpu.cores = 13;
  machine.cpu.dram_bytes_per_second = odd();
  machine.cpu.dram_by_threads = {{1, odd()}, {12, odd()}};
  machine.cpu.adamw_by_threads = {{2, odd()}, {11, odd()}};
  machine.cpu.adamw_bytes_per_parameter = 26.0 + 1.0 / 3.0;
  machine.cpu.sharing = {
      {8, true, false, odd(), odd(), 0}, {0, true, true, 0, odd(), odd()}, {8, true, false, odd(), odd(), 0, true}};
  machine.link.duplex_h2d_bytes_per_second = odd();
  machine.link.duplex_d2h_bytes_per_second = odd();
  machine.link.h2d = {odd(), 1e-6 / 7, {{1024, 1e-6 / 3}, {65536.5, 1e-5 / 3}}};
  machine.link.d2h = {odd(), 1e-6 / 11, {{2048, 1e-6 / 9}}};
  machine.link.ring_h2d = {odd(), 0, {{4096, 1e-6 / 13}, {65536, 1e-5 / 13}}};
  machine.link.ring_d2h = {odd(), 0, {{4096, 1e-6 / 17}}};
  machine.nvme = {500'000'000'001, odd(), odd(), 1e-4 / 3};
  machine.host_op_seconds = 1e-5 / 7;
  return profile;
}

// Equality below is exact: a double written in decimal must come back with the same bits.

void expect_same(const LinkDirection& a, const LinkDirection& b) {
  EXPECT_EQ(a.bytes_per_second, b.bytes_per_second);
  EXPECT_EQ(a.latency_seconds, b.latency_seconds);
  ASSERT_EQ(a.curve.size(), b.curve.size());
  for (std::size_t i = 0; i < a.curve.size(); ++i) {
    EXPECT_EQ(a.curve[i].bytes, b.curve[i].bytes);
    EXPECT_EQ(a.curve[i].seconds, b.curve[i].seconds);
  }
}

void expect_same(const std::vector<ThreadRate>& a, const std::vector<ThreadRate>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].threads, b[i].threads);
    EXPECT_EQ(a[i].per_second, b[i].per_second);
  }
}

void expect_same(const Cpu& a, const Cpu& b) {
  EXPECT_EQ(a.cores, b.cores);
  EXPECT_EQ(a.dram_bytes_per_second, b.dram_bytes_per_second);
  expect_same(a.dram_by_threads, b.dram_by_threads);
  expect_same(a.adamw_by_threads, b.adamw_by_threads);
  EXPECT_EQ(a.adamw_bytes_per_parameter, b.adamw_bytes_per_parameter);
  ASSERT_EQ(a.passes.size(), b.passes.size());
  for (std::size_t i = 0; i < a.passes.size(); ++i) {
    EXPECT_EQ(a.passes[i].name, b.passes[i].name);
    EXPECT_EQ(a.passes[i].threads, b.passes[i].threads);
    EXPECT_EQ(a.passes[i].bytes, b.passes[i].bytes);
    EXPECT_EQ(a.passes[i].seconds, b.passes[i].seconds);
  }
  ASSERT_EQ(a.sharing.size(), b.sharing.size());
  for (std::size_t i = 0; i < a.sharing.size(); ++i) {
    EXPECT_EQ(a.sharing[i].cpu_threads, b.sharing[i].cpu_threads);
    EXPECT_EQ(a.sharing[i].h2d, b.sharing[i].h2d);
    EXPECT_EQ(a.sharing[i].d2h, b.sharing[i].d2h);
    EXPECT_EQ(a.sharing[i].cpu_bytes_per_second, b.sharing[i].cpu_bytes_per_second);
    EXPECT_EQ(a.sharing[i].h2d_bytes_per_second, b.sharing[i].h2d_bytes_per_second);
    EXPECT_EQ(a.sharing[i].d2h_bytes_per_second, b.sharing[i].d2h_bytes_per_second);
    EXPECT_EQ(a.sharing[i].through_rings, b.sharing[i].through_rings);
  }
}

void expect_same_tables(const Gpu& a, const Gpu& b) {
  ASSERT_EQ(a.matmuls.size(), b.matmuls.size());
  for (std::size_t i = 0; i < a.matmuls.size(); ++i) {
    EXPECT_EQ(a.matmuls[i].m, b.matmuls[i].m);
    EXPECT_EQ(a.matmuls[i].n, b.matmuls[i].n);
    EXPECT_EQ(a.matmuls[i].k, b.matmuls[i].k);
    EXPECT_EQ(a.matmuls[i].accumulates, b.matmuls[i].accumulates);
    EXPECT_EQ(a.matmuls[i].seconds, b.matmuls[i].seconds);
    EXPECT_EQ(a.matmuls[i].kernel, b.matmuls[i].kernel);
    EXPECT_EQ(a.matmuls[i].output_bytes, b.matmuls[i].output_bytes);
    EXPECT_EQ(a.matmuls[i].sustained_seconds, b.matmuls[i].sustained_seconds);
  }
  ASSERT_EQ(a.attentions.size(), b.attentions.size());
  for (std::size_t i = 0; i < a.attentions.size(); ++i) {
    EXPECT_EQ(a.attentions[i].sequences, b.attentions[i].sequences);
    EXPECT_EQ(a.attentions[i].length, b.attentions[i].length);
    EXPECT_EQ(a.attentions[i].heads, b.attentions[i].heads);
    EXPECT_EQ(a.attentions[i].kv_heads, b.attentions[i].kv_heads);
    EXPECT_EQ(a.attentions[i].head_dim, b.attentions[i].head_dim);
    EXPECT_EQ(a.attentions[i].forward_seconds, b.attentions[i].forward_seconds);
    EXPECT_EQ(a.attentions[i].backward_seconds, b.attentions[i].backward_seconds);
    EXPECT_EQ(a.attentions[i].forward_sustained_seconds, b.attentions[i].forward_sustained_seconds);
    EXPECT_EQ(a.attentions[i].backward_sustained_seconds, b.attentions[i].backward_sustained_seconds);
  }
  ASSERT_EQ(a.elementwise.size(), b.elementwise.size());
  for (std::size_t i = 0; i < a.elementwise.size(); ++i) {
    EXPECT_EQ(a.elementwise[i].kernel, b.elementwise[i].kernel);
    EXPECT_EQ(a.elementwise[i].bytes, b.elementwise[i].bytes);
    EXPECT_EQ(a.elementwise[i].seconds, b.elementwise[i].seconds);
    EXPECT_EQ(a.elementwise[i].sustained_seconds, b.elementwise[i].sustained_seconds);
  }
  ASSERT_EQ(a.power.size(), b.power.size());
  for (std::size_t i = 0; i < a.power.size(); ++i) {
    EXPECT_EQ(a.power[i].duty, b.power[i].duty);
    EXPECT_EQ(a.power[i].share, b.power[i].share);
    EXPECT_EQ(a.power[i].slowdown, b.power[i].slowdown);
  }
}

void expect_same(const Gpu& a, const Gpu& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.hbm_bytes, b.hbm_bytes);
  EXPECT_EQ(a.context_bytes, b.context_bytes);
  EXPECT_EQ(a.hbm_bytes_per_second, b.hbm_bytes_per_second);
  EXPECT_EQ(a.matmul_flops_per_second, b.matmul_flops_per_second);
  EXPECT_EQ(a.matmul_burst_flops_per_second, b.matmul_burst_flops_per_second);
  EXPECT_EQ(a.power_settle_seconds, b.power_settle_seconds);
  EXPECT_EQ(a.attention_forward_efficiency, b.attention_forward_efficiency);
  EXPECT_EQ(a.attention_backward_efficiency, b.attention_backward_efficiency);
  EXPECT_EQ(a.elementwise_efficiency, b.elementwise_efficiency);
  EXPECT_EQ(a.launch_seconds, b.launch_seconds);
  EXPECT_EQ(a.op_launch_seconds, b.op_launch_seconds);
  EXPECT_EQ(a.op_seconds, b.op_seconds);
  EXPECT_EQ(a.is_host, b.is_host);
  expect_same_tables(a, b);
}

TEST(ProfileJson, RoundTripIsExact) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "profile.json";
  const Profile written = odd_profile();
  write_profile_file(written, path);
  const Profile read = read_profile_file(path);
  EXPECT_EQ(read.date, written.date);
  EXPECT_EQ(read.host, written.host);
  EXPECT_EQ(read.spread, written.spread);
  const Machine& a = written.machine;
  const Machine& b = read.machine;
  EXPECT_EQ(b.name, a.name);
  EXPECT_EQ(b.source, path.string());
  EXPECT_TRUE(b.measured);
  expect_same(a.gpu, b.gpu);
  EXPECT_EQ(a.dram_bytes, b.dram_bytes);
  EXPECT_EQ(a.reserve_bytes, b.reserve_bytes);
  expect_same(a.cpu, b.cpu);
  expect_same(a.link.h2d, b.link.h2d);
  expect_same(a.link.d2h, b.link.d2h);
  EXPECT_EQ(a.link.duplex_h2d_bytes_per_second, b.link.duplex_h2d_bytes_per_second);
  EXPECT_EQ(a.link.duplex_d2h_bytes_per_second, b.link.duplex_d2h_bytes_per_second);
  expect_same(a.link.ring_h2d, b.link.ring_h2d);
  expect_same(a.link.ring_d2h, b.link.ring_d2h);
  EXPECT_EQ(a.nvme.bytes, b.nvme.bytes);
  EXPECT_EQ(a.nvme.read_bytes_per_second, b.nvme.read_bytes_per_second);
  EXPECT_EQ(a.nvme.write_bytes_per_second, b.nvme.write_bytes_per_second);
  EXPECT_EQ(a.nvme.latency_seconds, b.nvme.latency_seconds);
  EXPECT_EQ(a.host_op_seconds, b.host_op_seconds);
}

TEST(ProfileJson, WritingWhatWasReadGivesTheSameText) {
  const TemporaryFolder folder;
  write_profile_file(odd_profile(), folder.path() / "a.json");
  write_profile_file(read_profile_file(folder.path() / "a.json"), folder.path() / "b.json");
  EXPECT_EQ(read_text_file(folder.path() / "a.json", 1 << 20), read_text_file(folder.path() / "b.json", 1 << 20));
}

TEST(ProfileJson, AFigureThatCouldNotBeReadBackIsNotWritten) {
  const TemporaryFolder folder;
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Profile profile = odd_profile();
    profile.machine.gpu.matmul_flops_per_second = bad;
    EXPECT_THROW(write_profile_file(profile, folder.path() / "profile.json"), std::runtime_error) << bad;
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "profile.json"));
  }
}

// --- what is refused ----------------------------------------------------------------------------------------------

/// The message for the written profile with `from` replaced by `to`.
std::string refusal(const std::string& from, const std::string& to) {
  const TemporaryFolder folder;
  write_profile_file(odd_profile(), folder.path() / "profile.json");
  std::string text = read_text_file(folder.path() / "profile.json", 1 << 20);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return error_text([&] { read_profile(folder.write("profile.json", text)); });
}

TEST(ProfileJson, ErrorsNameThePlace) {
  EXPECT_MENTIONS(refusal("penstock-profile/1", "penstock-profile/2"),
                  "profile.json.format: expected \"penstock-profile/1\"");
  EXPECT_MENTIONS(refusal("\"cores\": 13", "\"cores\": 0"),
                  "profile.json.machine.cpu.cores: expected a whole number from 1 to 4096, found 0");
  EXPECT_MENTIONS(refusal("\"cores\": 13", "\"kernels\": 13"), "machine.cpu.cores: is missing");
  EXPECT_MENTIONS(refusal("\"cores\": 13", "\"cores\": 13, \"kernels\": 1"), "kernels: is not a key that belongs here");
  EXPECT_MENTIONS(refusal("\"is_host\": true", "\"is_host\": 1"),
                  "machine.gpu.is_host: expected true or false, found 1");
  EXPECT_MENTIONS(refusal("\"m\": 4", "\"m\": -4"), "machine.gpu.matmuls[1].m");
  EXPECT_MENTIONS(
      refusal("\"name\": \"qkv\"", "\"name\": \"qvk\""),
      "machine.gpu.matmuls[0].name: \"qvk\" is no kernel that this version executes; did you mean \"qkv\"?");
  EXPECT_MENTIONS(refusal("\"name\": \"swiglu\"", "\"name\": \"tanh\""),
                  "machine.gpu.elementwise[0].name: \"tanh\" is no kernel");
  EXPECT_MENTIONS(refusal("\"bytes\": 1024.0", "\"bytes\": 99999.0"), "curve: must ascend");
  EXPECT_MENTIONS(refusal("\"threads\": 2", "\"threads\": 12"), "adamw_by_threads: must ascend");
  EXPECT_MENTIONS(refusal("\"link.h2d\": 0.3333333333333333", "\"link.h2d\": \"little\""), "spread.link.h2d");
}

/// The message for the written profile with one figure of it changed.
template <typename Change>
std::string refusal_after(const Change& change) {
  const TemporaryFolder folder;
  Profile profile = odd_profile();
  change(profile.machine);
  try {
    write_profile_file(profile, folder.path() / "profile.json");  // reads back what it is about to write
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(ProfileJson, RefusesABurstThatIsSlowerThanTheSustainedSpeed) {
  EXPECT_MENTIONS(refusal_after([](Machine& m) {
                    m.gpu.matmul_flops_per_second = 8e13;
                    m.gpu.matmul_burst_flops_per_second = 2e9;
                  }),
                  "profile.json.machine.gpu.matmul_burst_flops_per_second: expected 0, if it was not measured, or at "
                  "least the sustained rate, matmul_flops_per_second = 80000000000000; found 2000000000");
  EXPECT_EQ(refusal_after([](Machine& m) { m.gpu.matmul_burst_flops_per_second = 0; }), "");
  EXPECT_EQ(refusal_after([](Machine& m) { m.gpu.matmul_burst_flops_per_second = m.gpu.matmul_flops_per_second; }), "");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.gpu.matmuls[0].sustained_seconds = 1e-3 / 15; }),
                  "matmuls[0].sustained_seconds: 6.666666666666667e-05 s without a pause, but");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.gpu.attentions[0].forward_sustained_seconds = 1e-9; }),
                  "attentions[0].forward_sustained_seconds");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.gpu.attentions[0].backward_sustained_seconds = 1e-9; }),
                  "attentions[0].backward_sustained_seconds");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.gpu.elementwise[0].sustained_seconds = 1e-9; }),
                  "elementwise[0].sustained_seconds");
  // Noise of kernels of microseconds.
  EXPECT_EQ(refusal_after([](Machine& m) { m.gpu.matmuls[0].sustained_seconds = 0.9 * m.gpu.matmuls[0].seconds; }), "");
}

TEST(ProfileJson, RefusesWhatContradictsItself) {
  EXPECT_MENTIONS(
      refusal_after([](Machine& m) { m.link.duplex_h2d_bytes_per_second = 1.01 * m.link.h2d.bytes_per_second; }),
      "link.duplex_h2d_bytes_per_second: expected at most what the direction reaches alone");
  EXPECT_MENTIONS(
      refusal_after([](Machine& m) { m.link.duplex_d2h_bytes_per_second = 2 * m.link.d2h.bytes_per_second; }),
      "link.duplex_d2h_bytes_per_second");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.cpu.sharing[0].h2d_bytes_per_second = 0; }),
                  "sharing[0].h2d_bytes_per_second: expected a rate, since it was active, found 0");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.cpu.sharing[0].d2h_bytes_per_second = 5; }),
                  "sharing[0].d2h_bytes_per_second: expected 0, since nothing of the kind was active, found 5");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.cpu.sharing[1].cpu_bytes_per_second = 7; }),
                  "sharing[1].cpu_bytes_per_second");
  // More bytes in no more time have no cost per byte.
  EXPECT_MENTIONS(refusal_after([](Machine& m) {
                    m.cpu.passes.push_back({"finish fp32 bf16", 15, 1e9, 0.1});
                  }),
                  "cpu.passes: \"finish fp32 bf16\" on 15 threads takes");
  EXPECT_EQ(refusal_after([](Machine& m) { m.cpu.passes.push_back({"finish fp32 bf16", 14, 1e9, 0.1}); }), "");
  EXPECT_MENTIONS(refusal_after([](Machine& m) { m.gpu.attentions[0].heads = std::int64_t{1} << 40; }),
                  "attentions[0].heads: expected a whole number from 1 to 2147483648");
}

TEST(ProfileJson, NamesAMissingFile) { EXPECT_THROW(read_profile("/no/such/profile.json"), InputError); }

}  // namespace
}  // namespace penstock
