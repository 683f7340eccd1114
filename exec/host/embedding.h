// The embedding layer: rows of a table, and the sum of gradients by token.
#pragma once

#include <cstdint>

#include "exec/host/op_memory.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// The token ids of a micro-batch, [sequences, sequence_length + 1]: inputs, and shifted by one, targets.
class TokenView {
 public:
  TokenView(const std::int32_t* ids, BatchShape batch, std::int64_t vocabulary)
      : ids_(ids), batch_(batch), vocabulary_(vocabulary) {}
  /// `token` counts rows of the micro-batch. Throws InputError if the id is not in the vocabulary.
  std::int64_t input(std::int64_t token) const { return checked(token, 0); }
  std::int64_t target(std::int64_t token) const { return checked(token, 1); }

 private:
  std::int64_t checked(std::int64_t token, std::int64_t shift) const;

  const std::int32_t* ids_;
  BatchShape batch_;
  std::int64_t vocabulary_;
};

/// output [tokens, hidden] = rows of `weights` [vocabulary, hidden].
template <class Storage>
void embedding_forward(const Model& model, BatchShape batch, const OpMemory<Storage>& op);

/// Adds the rows of one token in ascending order of position. `overwrites`: the gradient is not added to.
template <class Storage>
void embedding_backward(const Model& model, BatchShape batch, const OpMemory<Storage>& op, bool overwrites);

}  // namespace penstock::exec
