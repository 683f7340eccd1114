// What people call cards and hosts.
#include "shared/machine/part_names.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "shared/error.h"
#include "tests/shared/error_text.h"

namespace penstock {
namespace {

std::string card(const std::string& name) { return find_card(name, {}, "--gpu").stem().string(); }
std::string no_card(const std::string& name) {
  return error_text([&] { card(name); });
}

TEST(PartNames, CardsGoByManyNames) {
  const std::pair<const char*, const char*> names[] = {
      {"RTX 4090", "rtx4090"},
      {"rtx4090", "rtx4090"},
      {"4090", "rtx4090"},
      {" Nvidia GeForce  RTX-4090 ", "rtx4090"},
      {"RTX_4090 24GB", "rtx4090"},
      {"5060ti", "rtx5060ti"},
      {"RTX 5060 Ti 16 GB", "rtx5060ti"},
      {"a6000", "a6000"},
      {"RTX A6000 48GB", "a6000"},
      {"RTX 6000 PRO", "rtx-pro-6000"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"},
      {"l40s", "l40s"},
      {"a100 40gb pcie", "a100-40gb-pcie"},
      {"A100-80GB-SXM", "a100-80gb-sxm"},
      {"NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"},  // as nvidia-smi has it, here and below
      {"NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"},
      {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
      {"NVIDIA H100 80GB HBM3", "h100-sxm"},
      {"NVIDIA H100 PCIe", "h100-pcie"},
      {"h100 nvl", "h100-nvl"},
      {"H100 SXM5 80GB HBM3", "h100-sxm"},
      {"NVIDIA H200", "h200-sxm"},
      {"GH200", "gh200"},
      {"NVIDIA GH200 480GB", "gh200"},
      {"b200", "b200-sxm"},
  };
  for (const auto& [name, stem] : names) EXPECT_EQ(card(name), stem) << name;
}

TEST(PartNames, NothingIsChosenSilently) {
  EXPECT_EQ(no_card("H100"),
            "--gpu: \"H100\" may be H100 NVL (h100-nvl), H100 PCIe (h100-pcie), H100 SXM (h100-sxm); name one of them");
  EXPECT_EQ(
      no_card("a100 40 gb"),
      "--gpu: \"a100 40 gb\" may be A100 40 GB PCIe (a100-40gb-pcie), A100 40 GB SXM (a100-40gb-sxm); name one of "
      "them");
}

TEST(PartNames, AnotherCardIsNotTaken) {
  for (const char* name : {"RTX 4080",
                           "4090 Ti",
                           "RTX 4090 Laptop GPU",
                           "5060",
                           "3090ti",
                           "RTX 6000 Ada",
                           "A6000 Ada",
                           "RTX PRO 6000 Max-Q",
                           "L40",
                           "A10",
                           "RTX",
                           "NVIDIA",
                           "",
                           "-",
                           "H100 96GB NVL",
                           "GH200 144 GB",
                           "RTX 5060 Ti 8GB",
                           "H200 NVL",
                           "409",
                           "40900"})
    EXPECT_MENTIONS(no_card(name), "there is no") << name;
  EXPECT_MENTIONS(no_card("RTX 4080"), "the nearest are RTX 4090 (rtx4090), ");
  EXPECT_MENTIONS(no_card("H200 NVL"), "of this chip it has H200 SXM (h200-sxm)");
  EXPECT_MENTIONS(no_card("Radeon"), "`penstock-sim list cards` has all");
  EXPECT_LT(no_card(std::string(100'000, 'x')).size(), 1500u);
  EXPECT_EQ(no_card("a\nb\x1b[31m").find('\x1b'), std::string::npos);
}

TEST(PartNames, HostsGoByTheirNames) {
  EXPECT_EQ(find_host("Desktop", {}, "--host").stem(), "desktop");
  EXPECT_EQ(find_host("server two sockets", {}, "--host").stem(), "server-two-sockets");
  EXPECT_EQ(find_host("desktop_ddr4", {}, "--host").stem(), "desktop-ddr4");
  EXPECT_EQ(error_text([] { find_host("desktp", {}, "--host"); }),
            "--host: there is no host \"desktp\"; did you mean desktop?");
  EXPECT_MENTIONS(error_text([] { find_host("", {}, "--host"); }), "known hosts are desktop, desktop-ddr4, grace");
  EXPECT_MENTIONS(error_text([] { find_host("no/such.toml", {}, "--host"); }), "there is no file no/such.toml");
}

}  // namespace
}  // namespace penstock
