#include "exec/cuda/attention.h"
#include "exec/cuda/attention_own.h"

namespace penstock::exec {

struct Attention::Plans {};

Attention::Attention() = default;
Attention::~Attention() = default;

const char* Attention::name() { return "own"; }
std::string Attention::note() {
  return own_attention_note("this build is without cuDNN: configure says what it did not find");
}

void Attention::forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
                        const ChunkKeys& keys, std::uint16_t* context, float* lse, LibraryWorkspace, Stream stream) {
  own_attention_forward(shape, document_starts, qkv, keys, context, lse, stream);
}

void Attention::backward(const AttentionSpec& shape, const AttentionBackward& tensors, const AttentionPiece&, bool,
                         LibraryWorkspace, Stream stream) {
  own_attention_backward(shape, tensors, stream);
}

}  // namespace penstock::exec
