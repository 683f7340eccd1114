// What another system's implementation makes of a machine's figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "shared/machine/machine.h"
#include "shared/model/kernels.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

Machine round_machine() {
  Machine machine;
  machine.gpu.elementwise_efficiency = 0.8;
  machine.gpu.launch_seconds = 4e-6;
  machine.cpu.cores = 8;
  machine.cpu.dram_bytes_per_second = 100e9;
  machine.cpu.adamw_bytes_per_parameter = 26;
  machine.cpu.adamw_by_threads = {{4, 2e9}, {8, 4e9}};
  machine.link.h2d.bytes_per_second = 20e9;
  machine.link.d2h.bytes_per_second = 20e9;
  machine.link.duplex_h2d_bytes_per_second = 10e9;
  machine.link.h2d.curve = {{1e9, 0.1}};
  return machine;
}

class SoftwareFile : public testing::Test {
 protected:
  Machine applied(const std::string& text, Machine machine = round_machine()) const {
    apply_software(folder_.write("s.toml", "name = \"other\"\n" + text), machine);
    return machine;
  }
  std::string error_of(const std::string& text) const {
    return error_text([&] { applied(text); });
  }
  TemporaryFolder folder_;
};

TEST_F(SoftwareFile, ANameAloneChangesNothing) {
  const Machine machine = applied("");
  EXPECT_EQ(machine.software.name, "other");
  EXPECT_EQ(machine.software.launch_op_seconds, 0);
  EXPECT_FALSE(machine.software.recomputes_output);
  EXPECT_EQ(machine.software.pass_bytes_per_second, 0);
  EXPECT_EQ(machine.gpu.elementwise_efficiency, 0.8);
  EXPECT_EQ(machine.link.h2d.bytes_per_second, 20e9);
  EXPECT_EQ(machine.cpu.adamw_by_threads[1].per_second, 4e9);
}

// Packed at 5 GB/s, then sent at 20: a byte takes 1/5 + 1/20 = 1/4 ns. In duplex 1/5 + 1/10 = 3/10. 1 GB of the curve
// takes 0.2 s more. Downloads are not packed.
TEST_F(SoftwareFile, PackedUploadsTakeBothTimes) {
  const Machine machine = applied("[link]\npacking = \"5 GB/s\"\n");
  EXPECT_DOUBLE_EQ(machine.link.h2d.bytes_per_second, 4e9);
  EXPECT_DOUBLE_EQ(machine.link.duplex_h2d_bytes_per_second, 1e10 / 3);
  EXPECT_DOUBLE_EQ(machine.link.h2d.curve[0].seconds, 0.3);
  EXPECT_EQ(machine.link.d2h.bytes_per_second, 20e9);
}

// Twice the bytes: half of 20 and of 10 GB/s; the curve's 0.1 s becomes 0.2. Downloads are not widened.
TEST_F(SoftwareFile, WiderUploadsTakeAsMuchLonger) {
  const Machine machine = applied("[link]\nupload_traffic = 2\n");
  EXPECT_DOUBLE_EQ(machine.link.h2d.bytes_per_second, 10e9);
  EXPECT_DOUBLE_EQ(machine.link.duplex_h2d_bytes_per_second, 5e9);
  EXPECT_DOUBLE_EQ(machine.link.h2d.curve[0].seconds, 0.2);
  EXPECT_EQ(machine.link.d2h.bytes_per_second, 20e9);
  // Widened first, packed then: 1/10 + 1/5.
  EXPECT_DOUBLE_EQ(applied("[link]\nupload_traffic = 2\npacking = \"5 GB/s\"\n").link.h2d.bytes_per_second, 1e10 / 3);
  EXPECT_NE(error_of("[link]\nupload_traffic = 0.5\n").find("s.toml:3: [link] upload_traffic"), std::string::npos);
}

// A cap of 3.25 G parameters of 16 bytes is 52 GB/s, 2 G parameters of 26 bytes: 8 threads no longer help.
TEST_F(SoftwareFile, AdamwIsCappedByItsTraffic) {
  const Machine machine = applied("[cpu]\nadamw = \"3.25 Gparam/s\"\nadamw_bytes_per_parameter = 16\n");
  EXPECT_DOUBLE_EQ(machine.cpu.adamw_by_threads[0].per_second, 2e9);
  EXPECT_DOUBLE_EQ(machine.cpu.adamw_by_threads[1].per_second, 2e9);
  // Without a table, the machine's rate is what DRAM gives: 100 / 26 = 3.85, capped likewise.
  Machine bare = round_machine();
  bare.cpu.adamw_by_threads.clear();
  bare = applied("[cpu]\nadamw = \"3.25 Gparam/s\"\nadamw_bytes_per_parameter = 16\n", bare);
  ASSERT_EQ(bare.cpu.adamw_by_threads.size(), 1u);
  EXPECT_EQ(bare.cpu.adamw_by_threads[0].threads, 8);
  EXPECT_DOUBLE_EQ(bare.cpu.adamw_by_threads[0].per_second, 2e9);
}

// [cpu.<host>] is of the machine composed with that file of scenarios/hosts, key by key; another host has [cpu].
TEST_F(SoftwareFile, AHostHasItsOwnRates) {
  const std::string text =
      "[cpu]\npasses = \"21 GB/s\"\nadamw = \"1 Gparam/s\"\nadamw_bytes_per_parameter = 26\n"
      "[cpu.grace]\npasses = \"45 GB/s\"\n[cpu.xeon]\nadamw = \"3 Gparam/s\"\nadamw_bytes_per_parameter = 26\n";
  const auto beside = [&](const char* host) {
    Machine machine = round_machine();
    machine.host = host;
    return applied(text, machine);
  };
  EXPECT_EQ(beside("").software.pass_bytes_per_second, 21e9);
  EXPECT_EQ(beside("hosts/grace.toml").software.pass_bytes_per_second, 45e9);
  EXPECT_DOUBLE_EQ(beside("hosts/grace.toml").cpu.adamw_by_threads[1].per_second, 1e9);
  EXPECT_EQ(beside("hosts/xeon.toml").software.pass_bytes_per_second, 21e9);
  EXPECT_DOUBLE_EQ(beside("hosts/xeon.toml").cpu.adamw_by_threads[1].per_second, 3e9);
  // A mistake in the table of another host is one all the same.
  EXPECT_NE(error_of("[cpu.grace]\npases = \"45 GB/s\"\n").find("s.toml:3: [cpu.grace] pases"), std::string::npos);
}

TEST_F(SoftwareFile, KernelsThatAreNotFusedMoveTheirDataMoreOften) {
  Machine machine = round_machine();
  machine.gpu.elementwise = {{std::nullopt, 1e6, 1e-3}};
  machine = applied(
      "[gpu]\nelementwise_traffic = 4\nattention_forward_efficiency = 0.4\nlaunch = \"9 us\"\nlaunch_op = \"1 ms\"\n"
      "recomputes_output = true\n",
      machine);
  EXPECT_DOUBLE_EQ(machine.gpu.elementwise_efficiency, 0.2);
  EXPECT_DOUBLE_EQ(machine.gpu.elementwise[0].seconds, 4e-3);
  EXPECT_EQ(machine.gpu.attention_forward_efficiency, 0.4);
  EXPECT_EQ(machine.gpu.attention_backward_efficiency, Gpu{}.attention_backward_efficiency);
  EXPECT_EQ(machine.gpu.launch_seconds, 9e-6);
  EXPECT_EQ(machine.software.launch_op_seconds, 1e-3);
  EXPECT_TRUE(machine.software.recomputes_output);
}

// AdamW is not one of a layer's kernels: it goes as the machine has it, or by a factor of its own. 1 kB at 80 % of 1 kB/s.
TEST_F(SoftwareFile, TheOptimizerHasItsOwnTraffic) {
  Machine machine = round_machine();
  machine.gpu.hbm_bytes_per_second = 1e3;
  const auto update_seconds = [](const Machine& after) {
    const auto found = std::ranges::find(after.gpu.elementwise, KernelId::adamw, &ElementwisePoint::kernel);
    return found == after.gpu.elementwise.end() ? 0 : 1000 * found->seconds / found->bytes;
  };
  EXPECT_EQ(update_seconds(applied("", machine)), 0);  // by the machine's efficiency, as it was
  EXPECT_DOUBLE_EQ(update_seconds(applied("[gpu]\nelementwise_traffic = 4\n", machine)), 1.25);
  EXPECT_DOUBLE_EQ(update_seconds(applied("[gpu]\nelementwise_traffic = 4\noptimizer_traffic = 2\n", machine)), 2.5);
  // What was measured of any kernel is of one pass; what was measured of AdamW is AdamW's.
  machine.gpu.elementwise = {{std::nullopt, 1000, 2}};
  EXPECT_DOUBLE_EQ(update_seconds(applied("[gpu]\nelementwise_traffic = 4\noptimizer_traffic = 2\n", machine)), 4);
  machine.gpu.elementwise = {{std::nullopt, 1000, 2, 3}, {KernelId::adamw, 1000, 5, 6}};
  machine = applied("[gpu]\nelementwise_traffic = 4\noptimizer_traffic = 2\n", machine);
  EXPECT_DOUBLE_EQ(update_seconds(machine), 10);
  EXPECT_DOUBLE_EQ(machine.gpu.elementwise[0].sustained_seconds, 12);
  EXPECT_NE(error_of("[gpu]\noptimizer_traffic = 0.5\n").find("optimizer_traffic"), std::string::npos);
}

TEST_F(SoftwareFile, ErrorsNameFileLineAndKey) {
  EXPECT_NE(error_of("[link]\npakking = \"5 GB/s\"\n").find("packing"), std::string::npos);
  EXPECT_NE(error_of("[link]\npacking = 5\n").find("s.toml:3: [link] packing"), std::string::npos);
  EXPECT_NE(error_of("[cpu]\nadamw = \"1 Gparam/s\"\n").find("adamw_bytes_per_parameter"), std::string::npos);
  EXPECT_NE(error_of("[gpu]\nelementwise_traffic = 0.5\n").find("elementwise_traffic"), std::string::npos);
  EXPECT_NE(error_of("[dram]\ncapacity = \"1 GiB\"\n").find("dram"), std::string::npos);
}

// The table of the card before the one for any; without either the card's own.
TEST_F(SoftwareFile, AttentionGoesByTheCard) {
  const std::string text =
      "[attention]\nforward_128 = \"1 TFLOP/s\"\nbackward_128 = \"2 TFLOP/s\"\n"
      "[attention.\"Card A\"]\nforward_64 = \"3 TFLOP/s\"\nbackward_64 = \"4 TFLOP/s\"\n"
      "deterministic_backward_64 = \"5 TFLOP/s\"\nhalf_length = 7\n";
  Machine machine = round_machine();
  machine.gpu.name = "Card A";
  const AttentionRates on_a = applied(text, machine).gpu.attention;
  ASSERT_EQ(on_a.by_head_dim.size(), 1u);
  EXPECT_EQ(on_a.by_head_dim[0].head_dim, 64);
  EXPECT_EQ(on_a.by_head_dim[0].deterministic_backward, 5e12);
  EXPECT_EQ(on_a.backward_half_length, 7);
  machine.gpu.name = "Card B";
  const AttentionRates on_b = applied(text, machine).gpu.attention;
  ASSERT_EQ(on_b.by_head_dim.size(), 1u);
  EXPECT_EQ(on_b.by_head_dim[0].deterministic_backward, 2e12);
  EXPECT_TRUE(applied("[attention.\"Card A\"]\nforward_64 = \"3 TFLOP/s\"\nbackward_64 = \"4 TFLOP/s\"\n", machine)
                  .gpu.attention.by_head_dim.empty());
  EXPECT_MENTIONS(error_of("[attention]\nforward_128 = \"1 TFLOP/s\"\n"), "backward_128");
  EXPECT_MENTIONS(error_of("[attention]\nforward_x = \"1 TFLOP/s\"\n"), "head dimension");
}

}  // namespace
}  // namespace penstock
