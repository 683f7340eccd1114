// The gated MLP's elementwise part: product = silu(gate) * up with silu(x) = x / (1 + exp(-x)).
// Source: Shazeer, "GLU Variants Improve Transformer", 2020. gate_up is [rows, 2 intermediate]: gate, then up.
#pragma once

#include <cstdint>

namespace penstock::exec {

template <class Storage>
void swiglu(const typename Storage::Element* gate_up, typename Storage::Element* product, std::int64_t rows,
            std::int64_t intermediate);

/// With s = 1 / (1 + exp(-gate)): d_up = d_product gate s; d_gate = d_product up s (1 + gate (1 - s)).
template <class Storage>
void swiglu_backward(const typename Storage::Element* gate_up, const typename Storage::Element* d_product,
                     typename Storage::Element* d_gate_up, std::int64_t rows, std::int64_t intermediate);

}  // namespace penstock::exec
