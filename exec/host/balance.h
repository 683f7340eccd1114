// The load-balancing loss of mixtures of experts, as transformers' load_balancing_loss_func has it: with the tokens of all
// layers of a micro-batch taken together, n of them without padding,
//
//   f = choices of an expert / n        P = its probabilities added up / n        loss = experts * sum of f P
//
// Each layer adds its choices and probabilities to what comes with its input, the head makes the loss of all of them, and
// hands back what the loss changes with a probability: choices have no gradient, so it is the same for all tokens and
// layers. Both travel behind the rows of boundaries (balances() of shared/model/activations.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/host/op_memory.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// What lies behind the rows of a boundary, or of its gradient.
template <class Element>
double* balance_at(const ModelConfig& config, BatchShape batch, Element* boundary) {
  auto* const bytes = reinterpret_cast<std::byte*>(boundary);
  return reinterpret_cast<double*>(bytes + balance_offset_bytes(config, batch, sizeof(Element)));
}

/// In front of the first layer: zeros. Nothing, unless the model asks for the loss; as the others.
template <class Element>
void begin_balance(const ModelConfig& config, BatchShape batch, Element* boundary);

/// Of a layer that adds nothing to it. `from` may be `to`.
template <class Element>
void pass_balance_on(const ModelConfig& config, BatchShape batch, Element* from, Element* to);

/// Which tokens of a micro-batch are no padding. Behind a packed row's last document lies one without labels, which real
/// documents have (shared/data/packing.h): padding. Windows have none.
class RealTokens {
 public:
  /// Rows' labels and document starts, nullptr in windows.
  RealTokens(BatchShape batch, const std::int32_t* labels, const std::int32_t* document_starts)
      : batch_(batch), labels_(labels), starts_(document_starts) {}

  /// body(token) of each of them, ascending.
  template <class Body>
  void for_each(const Body& body) const {
    for (std::int64_t sequence = 0; sequence < batch_.sequences; ++sequence)
      for (std::int64_t place = 0, end = places(sequence); place < end; ++place)
        body(sequence * batch_.sequence_length + place);
  }

 private:
  /// Of a row, before its padding.
  std::int64_t places(std::int64_t sequence) const;

  const BatchShape batch_;
  const std::int32_t *labels_, *starts_;
};

/// before, of a layer's input -> after, of its output: with its choices and probabilities.
template <class Real>
void add_balance(const Experts& experts, const Real* logits, const std::int32_t* choice, const RealTokens& tokens,
                 const double* before, double* after);

/// Of all layers -> the loss, without its factor, and with `scale` what backward needs of it, unless `gradient` is nullptr.
double balance_loss(const Experts& experts, const double* sums, double scale, double* gradient);

/// d_logits [tokens, experts] += what the loss changes with the logits.
template <class Real>
void add_balance_gradient(const Experts& experts, const Real* logits, const RealTokens& tokens, const double* gradient,
                          Real* d_logits);

}  // namespace penstock::exec
