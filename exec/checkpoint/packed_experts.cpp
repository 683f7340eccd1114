#include "exec/checkpoint/packed_experts.h"

#include <charconv>
#include <string_view>

namespace penstock::exec {
namespace {

constexpr std::string_view kExperts = ".experts.", kMixtral = "block_sparse_moe", kBlock = "mlp";

/// "model.layers.3.mlp" of "model.layers.3.block_sparse_moe".
std::string block_of(std::string_view prefix) {
  std::string block(prefix);
  if (const std::size_t at = block.rfind(kMixtral); at != std::string::npos) block.replace(at, kMixtral.size(), kBlock);
  return block;
}

}  // namespace

std::optional<PackedPlace> packed_place(const ParameterTensor& tensor, const ModelConfig& config) {
  const std::string_view name = tensor.name;
  const Experts& experts = config.experts;
  const std::int64_t width = experts.intermediate, hidden = config.hidden;
  const std::size_t at = name.find(kExperts);
  if (at == std::string_view::npos) {
    constexpr std::string_view kRouter = ".block_sparse_moe.gate.weight";
    if (!name.ends_with(kRouter)) return std::nullopt;
    return PackedPlace{block_of(name), {experts.count, hidden}, 0};
  }
  std::int64_t expert = 0;
  const char* const end = name.data() + name.size();
  const char* const behind = std::from_chars(name.data() + at + kExperts.size(), end, expert).ptr;
  const std::string_view part(behind, static_cast<std::size_t>(end - behind));
  const std::string block = block_of(name.substr(0, at));
  if (part == ".down_proj.weight" || part == ".w2.weight")
    return PackedPlace{block + ".experts.down_proj", {experts.count, hidden, width}, expert * hidden * width};
  const bool is_up = part == ".up_proj.weight" || part == ".w3.weight";
  return PackedPlace{block + ".experts.gate_up_proj",
                     {experts.count, 2 * width, hidden},
                     (2 * expert + (is_up ? 1 : 0)) * width * hidden};
}

}  // namespace penstock::exec
