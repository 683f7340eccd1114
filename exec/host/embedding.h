// The embedding layer: rows of a table, and the sum of gradients by token.
#pragma once

#include <cstdint>
#include <optional>

#include "exec/host/op_memory.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// The token ids of a micro-batch, [sequences, BatchShape::token_row], and what each place is to predict: of windows
/// the ids shifted by one, of packed rows the labels [sequences, sequence_length].
class TokenView {
 public:
  /// `labels`: nullptr in windows. Of `ids` and `labels` those may be nullptr that nobody asks for.
  TokenView(const std::int32_t* ids, const std::int32_t* labels, BatchShape batch, std::int64_t vocabulary)
      : ids_(ids), labels_(labels), batch_(batch), vocabulary_(vocabulary) {}
  /// `token` counts places of the micro-batch. Throws InputError if the id is not in the vocabulary.
  std::int64_t input(std::int64_t token) const;
  /// The same; none: the place is not trained on.
  std::optional<std::int64_t> target(std::int64_t token) const;

 private:
  std::int64_t checked(std::int32_t id, const char* what, std::int64_t token, std::int64_t shift) const;

  const std::int32_t* ids_;
  const std::int32_t* labels_;
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
