// Moves states between the tiers' memories and the outside: `load_states` fills what the schedule declares as `initial`;
// `StateReader` reads them back after a run (the same places hold them, updated).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/checkpoint/state_source.h"
#include "exec/memory/memory.h"
#include "shared/ir/schedule.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// Fills every initial access of a state tensor, in pieces, on all cores. Others (counters, first gradients) stay zero.
/// Throws InputError if an access is smaller than its tensor, and for a value that training cannot start from: one that
/// is not finite, or that bf16 cannot hold where it is kept in that; the text has the source's place, row and column.
void load_states(const Schedule& schedule, const Model& model, const TierMemories& memories, const StateSource& source);

/// Where the first value is that is infinite or NaN; values.size() if none is.
std::size_t first_not_finite(std::span<const float> values);
std::size_t first_not_finite(std::span<const std::uint16_t> bf16);

/// Is a StateSource over the memories themselves. Not during a run.
class StateReader : public StateSource {
 public:
  StateReader(const Schedule& schedule, const Model& model, const TierMemories& memories)
      : schedule_(schedule), model_(model), memories_(memories) {}

  void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const override;
  /// The bf16 bits that the GPU computes with, and flat positions instead of a tensor's own.
  void read_weights(int layer, std::int64_t first, std::span<std::uint16_t> out) const;
  /// Of a frozen layer: the weights, and 0.
  void read_layer(int layer, StatePart part, std::int64_t first, std::span<float> out) const;

  /// 64 bits over masters and moments of all layers, in order: equal runs, equal fingerprints.
  std::uint64_t fingerprint() const;

 private:
  const Access& place(TensorKind tensor, int layer) const;
  template <typename T>
  void fetch(TensorKind tensor, int layer, std::int64_t first, std::span<T> out) const;

  const Schedule& schedule_;
  const Model& model_;
  const TierMemories& memories_;
};

}  // namespace penstock::exec
