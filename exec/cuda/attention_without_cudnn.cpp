#include "exec/cuda/attention.h"
#include "exec/cuda/attention_plain.h"

namespace penstock::exec {

struct Attention::Plans {};

Attention::Attention() = default;
Attention::~Attention() = default;

const char* Attention::name() { return "plain"; }

void Attention::forward(const AttentionShape& shape, const std::uint16_t* qkv, std::uint16_t* context, float* lse,
                        LibraryWorkspace, Stream stream) {
  plain_attention_forward(shape, qkv, context, lse, stream);
}

void Attention::backward(const AttentionShape& shape, const AttentionBackward& tensors, const AttentionPiece&, bool,
                         LibraryWorkspace, Stream stream) {
  plain_attention_backward(shape, tensors, stream);
}

}  // namespace penstock::exec
