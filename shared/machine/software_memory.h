// What another system's code takes beside what its schedule holds, as the tables [settings] and [memory.*] of a
// software file say it (docs/scenario.md lists the keys): one item per cause, so many bytes for each element of
// something, in the pieces in which that code allocates. sim/software turns items into bytes for a model and a
// workload; here they are only read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "shared/machine/software_setting.h"

namespace penstock {

/// What that system's configuration decides, by its own name for it.
using SoftwareSettings = std::map<std::string, SoftwareSetting, std::less<>>;

/// What an item counts.
enum class Counted {
  nothing,         // a fixed number of bytes
  parameters,      // in pieces, see MemoryPieces
  largest_tensor,  // elements of the largest parameter tensor
  largest_layer,   // parameters of the largest decoder layer
  embedding,       // parameters of the embedding
  head,            // of the output projection, a tied one too
  logits,          // tokens of a micro-batch x vocabulary
  chunk_logits,    // sequences of a micro-batch x the setting loss_chunk_tokens x vocabulary
  activations,     // tokens of a micro-batch x hidden, of the decoder layers whose activations are held at a time
  scores,          // sequences of a micro-batch x heads x length^2, of those layers
  layer_scores,    // the same of one layer
  layer_mlp,       // rows of the MLP at a time x the MLP's width
  setting,         // the value of a setting
};

/// The pieces in which parameters are allocated, one rounding each.
enum class MemoryPieces {
  all,        // one
  layer,      // each decoder layer; embedding and head are not counted
  tensor,     // every parameter tensor
  sub_group,  // consecutive tensors until there are at least the setting sub_group_size elements
};

struct MemoryItem {
  std::string name;                  // of its table, for messages
  std::string cause;                 // for people
  std::string tier;                  // "hbm", "dram"
  std::vector<std::string> presets;  // policies that it belongs to; empty: all
  std::vector<std::string> phases;   // memory_phase_name; empty: all
  /// Flags that must be set, or must not ("not pin_memory"): name, wanted.
  std::vector<std::pair<std::string, bool>> conditions;
  std::int64_t bytes = 0;  // Counted::nothing
  double bytes_each = 0;   // negative: the schedule holds what that code does not
  Counted counted = Counted::nothing;
  std::string setting;  // Counted::setting
  MemoryPieces pieces = MemoryPieces::all;
  std::string at_most;                                    // a setting that bounds the elements; empty: none
  using Times = std::variant<std::int64_t, std::string>;  // a number, or a setting
  /// A setting: so many processes have a share of each piece, one allocation each. A host's tier has all of the
  /// shares, a GPU's one. Empty: every process has the whole.
  std::string shared_by;
  Times together;          // so many of a piece in one allocation
  Times times;             // so many allocations
  std::string instead_of;  // of the schedule's contents in that tier ("gradients"), which it stands for; empty: nothing
  bool power_of_two = false;   // each piece is rounded up
  bool rounding_only = false;  // the schedule holds the bytes before rounding
};

struct SoftwareMemory {
  std::string name;  // "DeepSpeed, eager PyTorch"
  std::filesystem::path path;
  SoftwareSettings settings;
  std::vector<MemoryItem> items;
};

/// Throws InputError naming file, line and key. A file may begin with another one's settings and items
/// (`memory_of = "other.toml"`), change settings, and add items or replace those of the same name. Without any
/// [memory.*] table there are no items.
SoftwareMemory read_software_memory(const std::filesystem::path& path);

}  // namespace penstock
