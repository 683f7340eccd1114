// Where each activation of a layer visit lies: the byte layout that the policy reserves and both backends use.
//
// A template works on one micro-batch: `tokens = sequences * sequence_length` rows. Apart from its input and
// output (boundary activations, [tokens, hidden] bf16) it touches three regions, each one contiguous range:
//   kept        what forward leaves for backward, by keep level;
//   recomputed  what a recompute op adds so that kept + recomputed hold everything that backward reads;
//   workspace   scratch of one op, garbage before and after it.
// A tensor that is neither kept nor recomputed but that the pass produces lies in the workspace. There, what is dead
// while attention runs shares bytes with what only attention needs. The gradient of `middle` has no place of its own:
// it lies where the gradient of the layer's input will, which is added to it row by row.
//
// A new tensor that forward leaves for backward is an enumerator and a line of kSavedActivations here, and its use in
// each backend; scratch is an enumerator and its place in activations.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/model/model.h"

namespace penstock {

/// What forward keeps for backward besides the layer's input, per layer (docs/design.md, "Activations"). Each level has
/// what those before it have; kSavedActivations says what.
enum class Keep {
  input,
  input_context,    // what attention has made; its output projection is made again
  input_attention,  // that projection too
  everything,
};
inline constexpr std::array kKeeps{Keep::input, Keep::input_context, Keep::input_attention, Keep::everything};

/// The passes of a template. The head has only `loss`: final norm, logits in chunks, loss, and the gradients of
/// all three in the same visit, since the scale of the loss (1 / tokens of the step) is known beforehand.
/// The embedding has `forward` and `backward`; it never recomputes.
enum class Pass {
  forward,
  recompute,
  backward,
  loss,            // of the head: forward and backward
  input_backward,  // backward of a frozen layer: the gradient of its input alone
  input_loss,      // of a frozen head
  evaluate,        // of the head: the loss alone
};
inline constexpr std::array kAllPasses{Pass::forward,        Pass::recompute,  Pass::backward, Pass::loss,
                                       Pass::input_backward, Pass::input_loss, Pass::evaluate};

constexpr bool is_backward(Pass pass) { return pass == Pass::backward || pass == Pass::input_backward; }
constexpr bool is_loss(Pass pass) { return pass == Pass::loss || pass == Pass::input_loss || pass == Pass::evaluate; }
/// Whether it makes gradients of weights.
constexpr bool contributes(Pass pass) { return pass == Pass::backward || pass == Pass::loss; }

inline constexpr double kMostExpertSkew = 1024;

/// What the rows of a step are.
enum class BatchKind {
  windows,  // stretches of one text: a row has one token more than the length, targets are inputs shifted by one
  packed,   // documents one behind the other (shared/data/packing.h), each of which attends to itself alone: what a
            // place is to predict, and where its document begins, are values of their own
};

struct BatchShape {
  std::int64_t sequences = 0;
  std::int64_t sequence_length = 0;
  BatchKind kind = BatchKind::windows;
  // Of packed rows: the squared lengths of a row's documents added up, mean over the rows; 0: not known, taken for one
  // document a row. It says what attention costs and decides nothing else.
  double squared_lengths = 0;
  // Of one sequence that is cut: tokens of each of its chunks but the last, which may have fewer; 0: it is not cut. The
  // shape of a whole sequence is longer than that, the shape of a chunk (chunk_of) is not.
  std::int64_t chunk_tokens = 0;
  // Of a chunk: the place in its row where it begins, and so how many keys lie before its own.
  std::int64_t past = 0;

  // Of a mixture of experts: rows of the busiest expert / mean of all. It says what grouped products cost and decides
  // nothing else.
  double expert_skew = 1;  // up to kMostExpertSkew

  // Of a chunk: tokens of its whole row, by which rotary frequencies may go; 0: as many as there are up to its end.
  std::int64_t row = 0;

  std::int64_t tokens() const { return sequences * sequence_length; }
  std::int64_t row_tokens() const { return row > 0 ? row : past + sequence_length; }
  /// Of a row of token ids.
  std::int64_t token_row() const { return sequence_length + (kind == BatchKind::windows ? 1 : 0); }
  constexpr bool is_cut() const { return chunk_tokens > 0; }
};

/// Chunks of a sequence of this shape, 1 if it is not cut. REQUIRES: no chunk.
int chunk_count(BatchShape sequence);
/// The shape of its chunk `chunk`, from 0; the sequence's own if it is not cut. Of packed rows each chunk has its share
/// of squared_lengths: as if each token saw all before it, but no more of them than some number, which is such that the
/// shares add up. REQUIRES: no chunk; one sequence where it is cut.
BatchShape chunk_of(BatchShape sequence, int chunk);

/// How the templates of one run cut their work; part of the numerics (a chunk is a separate accumulation).
struct Chunking {                // comparable: two runs with different chunks have different bits
  std::int64_t mlp_tokens = 0;   // rows of the MLP at a time; 0 = all
  std::int64_t loss_tokens = 0;  // rows of logits at a time; 0 = kDefaultLossTokens
};
inline constexpr std::int64_t kDefaultLossTokens = 1024;

/// Rows of a chunk of the MLP, and of the logits: the whole micro-batch if it is smaller.
std::int64_t mlp_rows(BatchShape batch, const Chunking& chunking);
std::int64_t loss_rows(BatchShape batch, const Chunking& chunking);

enum class Activation {
  // decoder, saved for backward
  qk_raw,     // [tokens, (heads + kv_heads) head_dim] bf16: q, k before QK norm; only with qk_norm
  qkv,        // [tokens, qkv_columns] bf16, after norm and rotary
  queries,    // [tokens, query_columns] bf16: of a chunk what is kept of qkv; keys and values are its `kv`, once
  attention,  // [tokens, query_columns] bf16: context
  lse,        // [sequences, heads, sequence_length] fp32: log of the softmax denominator, natural log
  middle,     // [tokens, hidden] bf16: input + attention output projection
  // of experts alone
  router_logits,   // [tokens, experts] fp32
  expert_choice,   // [tokens, per token] int32: the experts of a token, best first
  expert_weights,  // [tokens, per token] fp32: what their outputs are multiplied by
  gate_up,  // [rows, 2 intermediate] bf16; chunk rows only where it lies in the workspace of a chunked MLP. A row is a
            // token, of experts one of a token's choices, expert by expert and within one by tokens
  // decoder, scratch
  normed,     // [tokens, hidden] bf16
  product,    // [chunk rows, intermediate] bf16: silu(gate) * up
  d_product,  // [chunk rows, intermediate] bf16
  d_gate_up,  // [chunk rows, 2 intermediate] bf16
  // of experts alone
  expert_order,      // int32: [experts + 1] an expert's first row, [chunk rows] the row of a choice, [chunk rows] the
                     // choice of a row, each rounded up to kExpertOrderAlignment
  expert_input,      // [chunk rows, hidden] bf16
  expert_output,     // [chunk rows, hidden] bf16; in backward the gradient of the outputs, then that of the inputs
  d_expert_weights,  // [tokens, per token] fp32
  d_router_logits,   // [tokens, experts] fp32
  d_normed,          // [tokens, hidden] bf16
  d_attention,       // [tokens, query_columns] bf16
  d_qkv,             // [tokens, qkv_columns] bf16
  // embedding backward scratch
  token_order,  // [tokens, 2] int32: token and row, sorted by both
  // head scratch
  logits,     // [loss chunk, vocabulary] bf16 on CUDA; turned into its gradient in place
  row_stats,  // [tokens, 4] fp32
  // every op
  reduction,  // fp32 partial sums over rows (norm weights, biases, a token's rows): kReductionRows x widest column
              // count
  library,    // workspace of cuDNN, all of it; of cuBLAS, the first kLibraryWorkspaceBytes
};

inline constexpr std::int64_t kExpertOrderAlignment = 64;  // elements
constexpr std::int64_t expert_order_elements(std::int64_t count) {
  return (count + kExpertOrderAlignment - 1) / kExpertOrderAlignment * kExpertOrderAlignment;
}

inline constexpr std::size_t kActivations = static_cast<std::size_t>(Activation::library) + 1;

/// A tensor that backward reads.
struct SavedActivation {
  Activation activation;
  Keep kept_from;     // kept at this level and above, else made again
  bool by_attention;  // forward has made it once attention has run; the others come later
  /// Of a micro-batch, gate_up of `mlp_tokens` of its tokens. 0: such a layer has none.
  std::int64_t (*bytes)(const Model& model, LayerKind kind, BatchShape batch, std::int64_t mlp_tokens);
  bool by_mlp = false;  // made by the MLP, so that a chunked MLP's backward makes it again
};

/// Rows and width of the MLP of `tokens` tokens: of experts a row for each choice.
struct MlpShape {
  std::int64_t rows = 0, intermediate = 0;
};
constexpr MlpShape mlp_shape(const ModelConfig& config, LayerKind kind, std::int64_t tokens) {
  if (kind == LayerKind::experts) return {tokens * config.experts.per_token, config.experts.intermediate};
  return {tokens, config.intermediate};
}

/// In the order in which forward makes them. attention + lse spare the recompute the attention itself, middle its
/// output projection. Of a chunk's qkv the queries alone are kept.
inline constexpr SavedActivation kSavedActivations[] = {
    {Activation::qk_raw, Keep::everything, true,
     [](const Model& m, LayerKind, BatchShape batch, std::int64_t) {
       return m.config.qk_norm ? 2 * batch.tokens() * (m.query_columns() + m.key_columns()) : 0;
     }},
    {Activation::qkv, Keep::everything, true,
     [](const Model& m, LayerKind, BatchShape batch, std::int64_t) { return 2 * batch.tokens() * m.qkv_columns(); }},
    {Activation::attention, Keep::input_context, true,
     [](const Model& m, LayerKind, BatchShape batch, std::int64_t) { return 2 * batch.tokens() * m.query_columns(); }},
    {Activation::lse, Keep::input_context, true,
     [](const Model& m, LayerKind, BatchShape batch, std::int64_t) { return 4 * batch.tokens() * m.config.heads; }},
    {Activation::middle, Keep::input_attention, false,
     [](const Model& m, LayerKind, BatchShape batch, std::int64_t) { return 2 * batch.tokens() * m.config.hidden; }},
    {Activation::router_logits, Keep::everything, false,
     [](const Model& m, LayerKind kind, BatchShape batch, std::int64_t) {
       return kind == LayerKind::experts ? 4 * batch.tokens() * m.config.experts.count : 0;
     },
     true},
    {Activation::expert_choice, Keep::everything, false,
     [](const Model& m, LayerKind kind, BatchShape batch, std::int64_t) {
       return kind == LayerKind::experts ? 4 * batch.tokens() * m.config.experts.per_token : 0;
     },
     true},
    {Activation::expert_weights, Keep::everything, false,
     [](const Model& m, LayerKind kind, BatchShape batch, std::int64_t) {
       return kind == LayerKind::experts ? 4 * batch.tokens() * m.config.experts.per_token : 0;
     },
     true},
    {Activation::gate_up, Keep::everything, false,
     [](const Model& m, LayerKind kind, BatchShape, std::int64_t mlp_tokens) {
       const auto [rows, intermediate] = mlp_shape(m.config, kind, mlp_tokens);
       return 4 * rows * intermediate;
     },
     true},
};

inline constexpr std::int64_t kReductionRows = 256;
inline constexpr std::int64_t kLibraryWorkspaceBytes = std::int64_t{64}
                                                       << 20;  // cuBLASLt's recommendation for Hopper is 32 MiB
/// Byte alignment of every field and every region.
inline constexpr std::int64_t kFieldAlignment = 256;

struct Field {
  Activation activation;
  std::int64_t offset_bytes = 0;
  std::int64_t bytes = 0;
};

struct Region {
  std::vector<Field> fields;
  std::int64_t bytes = 0;  // rounded up to kFieldAlignment

  /// nullptr if the region has no such field.
  const Field* find(Activation activation) const;
};

/// Options that change what lies where. `library_bytes`: workspace for cuBLASLt and cuDNN together, chosen by
/// model and length, never by free memory; 0 for the host backend.
struct LayoutOptions {
  Keep keep = Keep::input;
  Chunking chunking;
  std::int64_t library_bytes = kLibraryWorkspaceBytes;
};

Region kept_region(const Model& model, LayerKind kind, BatchShape batch, const LayoutOptions& options);
Region recomputed_region(const Model& model, LayerKind kind, BatchShape batch, const LayoutOptions& options);
Region workspace_region(const Model& model, LayerKind kind, Pass pass, BatchShape batch, const LayoutOptions& options);

/// Bytes of one boundary activation (or its gradient): tokens * hidden * 2, and what balances experts, if the model asks
/// for it.
std::int64_t boundary_bytes(const Model& model, BatchShape batch);

/// The load-balancing loss is of all layers of a micro-batch together: what each adds travels behind the rows of the
/// boundary, and what backward needs of it behind those of the boundary's gradient. Two doubles for each expert:
///   boundary            [experts] choices so far, [experts] probabilities so far, added up over tokens and layers
///   boundary_gradient   [experts] gradient of the loss with respect to each such sum, [experts] 0
constexpr bool balances(const ModelConfig& config) { return config.experts.count > 0 && config.experts.balance > 0; }
constexpr std::int64_t balance_elements(const ModelConfig& config) { return 2 * config.experts.count; }
/// Bytes from the boundary's first row to them; `element_bytes` of the rows.
inline std::int64_t balance_offset_bytes(const ModelConfig& config, BatchShape batch, std::int64_t element_bytes = 2) {
  return (batch.tokens() * config.hidden * element_bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment;
}
/// Numbers (fp64) that the head leaves of a micro-batch: the sum of token losses and, where the model asks for it, the
/// load-balancing loss, without its factor.
constexpr int loss_numbers(const ModelConfig& config) { return balances(config) ? 2 : 1; }

/// Keys and values of so many tokens of a layer, as later chunks of a cut sequence find them: [tokens, 2 key_columns],
/// all key heads of a token and then all value heads, after norm and rotary.
std::int64_t kv_elements(const Model& model, std::int64_t tokens);

/// True if backward computes gate_up itself, chunk by chunk, because the MLP is chunked and it was not kept; and before
/// it whatever else is `by_mlp`.
bool mlp_recomputed_in_backward(BatchShape batch, const LayoutOptions& options);

}  // namespace penstock
