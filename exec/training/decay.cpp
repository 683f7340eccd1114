#include "exec/training/decay.h"

#include <algorithm>
#include <stdexcept>

namespace penstock::exec {
namespace {

bool is_decayed(const Layer& layer, const ParameterTensor& tensor, Decay decay) {
  if (decay == Decay::all) return true;
  if (tensor.is_norm() || tensor.is_bias()) return false;
  return layer.kind != LayerKind::embedding || decay == Decay::matrices_and_embeddings;
}

std::int64_t align_up(std::int64_t elements) {
  return (elements + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
}

}  // namespace

UndecayedRanges undecayed_ranges(const Layer& layer, Decay decay) {
  UndecayedRanges ranges;
  for (const ParameterTensor& tensor : layer.tensors) {
    if (is_decayed(layer, tensor, decay)) continue;
    const std::int64_t end = std::min(align_up(tensor.offset + tensor.elements()), layer.state_elements);
    if (ranges.count > 0 && tensor.offset <= ranges.end[ranges.count - 1]) {
      ranges.end[ranges.count - 1] = end;
      continue;
    }
    if (ranges.count == UndecayedRanges::kMost) throw std::logic_error("a layer with more groups of vectors than fit");
    ranges.begin[ranges.count] = tensor.offset;
    ranges.end[ranges.count++] = end;
  }
  return ranges;
}

}  // namespace penstock::exec
