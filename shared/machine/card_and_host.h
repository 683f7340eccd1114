// A machine is a card and a host. The card has the GPU's rates, its attention, its class of accuracy, its power and the
// slot that it is made for; the host has DRAM by channels, cores, the rate of AdamW, the slot that it gives, a drive
// and its power. scenarios/cards and scenarios/hosts have one file each (docs/scenario.md lists the keys).
//
// The link is the lesser of both. Of generation and lanes the smaller ones count, and a PCIe link of them reaches
//   PCIe 5 x16: 54 GB/s up, 55 down, 44.4 each way at once   measured 2026-11-29 on an H200: 86 % of the standard's 63
//   PCIe 4 x16: 25, 26, 21                                   convention: 80 % of 31.5, what LLMQ's and ml_dataflow's
//                                                            published runs on such cards are met with
// with 8 us for each copy (convention); half of the lanes are a generation less, and other generations half or double
// of those. What a card or a host says of its own (`h2d` and so on, inferred or measured) is one more limit. A measured
// curve of copies by size belongs to the card's own link and is left out where the host gives less.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/machine/machine.h"

namespace penstock {

struct TomlDocument;

/// The machine of a card and a host; `host` empty: the one that such a card is usually in (`host` of its file). Throws
/// InputError as read_hardware does, and where the card goes into no slot of the host.
Machine read_card_and_host(const std::filesystem::path& card, const std::filesystem::path& host);

/// What a host is without a card, for lists.
struct HostFigures {
  std::string name;
  std::int64_t dram_bytes = 0;
  std::int64_t most_dram_bytes = 0;  // that such a host takes; 0: not known
  double dram_bytes_per_second = 0;
  int cores = 0;
};
HostFigures read_host_figures(const std::filesystem::path& path);

/// What a hardware file says, once it is whole. Throws InputError.
Machine machine_of(const TomlDocument& document);

/// For the reader of hardware files: if `document` names a card or a host, their tables join its own, which win. What
/// was joined is put into `machine`: its card and host. Throws InputError.
void compose(TomlDocument& document, const std::filesystem::path& folder, Machine& machine);

}  // namespace penstock
