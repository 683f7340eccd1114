// What a mixture of experts does between its products, as exec/host/experts.h has it: launchers, asynchronous,
// deterministic. Tokens and rows are those of a chunk, except of the router; a choice is counted token by token. bf16
// rows as in kernels.h.
#pragma once

#include <cstdint>

#include "exec/cuda/attention.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/stream.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// Of each row of logits [tokens, experts] the chosen experts, best first, and their weights: of equal logits the expert
/// with the smaller number, NaN before any number.
void expert_choice(const Experts& experts, const float* logits, std::int64_t tokens, std::int32_t* choice,
                   float* weights, Stream stream);

// --- the load-balancing loss, as exec/host/balance.h has it

/// By which padding is found: of packed rows; nullptr in windows, which have none.
struct RowLabels {
  const std::int32_t* labels = nullptr;
  const std::int32_t* document_starts = nullptr;
  std::int64_t length = 0;
};

/// What comes with the first layer's input: so many zeros.
void balance_begin(double* sums, std::int64_t elements, Stream stream);
/// To a layer's output, or input's gradient, which adds nothing: `from` may be `to`.
void balance_pass_on(const double* from, double* to, std::int64_t elements, Stream stream);
/// after = before, and the choices and probabilities of these tokens. `after` may be `before`. Sums of some tokens lie in
/// the workspace: 16 bytes for each expert and each of up to kMostBalanceParts parts.
inline constexpr std::int64_t kMostBalanceParts = 1024;
void expert_balance(const Experts& experts, const float* logits, const std::int32_t* choice, std::int64_t tokens,
                    const RowLabels& rows, const double* before, double* after, LibraryWorkspace workspace,
                    Stream stream);
/// loss: without its factor. gradient: what it changes, times scale, with a probability; nullptr: nobody asks.
void expert_balance_loss(const Experts& experts, const double* sums, double scale, double* loss, double* gradient,
                         Stream stream);

/// What expert_balance_loss left, and which tokens have it; nullptr: there is no such loss.
struct BalanceGradient {
  const double* of_probabilities = nullptr;
  RowLabels rows;
};

// --- and the gradient of both

/// Gradient of the logits from that of the weights, as two bf16 that add up to it: `high` and `low`, each [tokens,
/// experts].
struct SplitGradient {
  std::uint16_t* high = nullptr;
  std::uint16_t* low = nullptr;
};
void expert_choice_backward(const Experts& experts, const float* logits, std::int64_t tokens,
                            const std::int32_t* choice, const float* weights, const float* d_weights,
                            const BalanceGradient& balance, const SplitGradient& d_logits, Stream stream);

/// Where the rows of a chunk lie: by experts, then by tokens.
struct RowPlaces {
  std::int32_t* first = nullptr;      // [experts + 1]: an expert's first row, and behind the last one their number
  std::int32_t* row = nullptr;        // [rows]: the row of a choice
  std::int32_t* choice_of = nullptr;  // [rows]: the choice of a row
};
/// Counts lie in the workspace: 4 bytes for each expert and each kOrderSegment rows, or fewer of many.
void expert_order(const Experts& experts, const std::int32_t* choice, std::int64_t tokens, const RowPlaces& order,
                  LibraryWorkspace workspace, Stream stream);

/// rows [tokens per_token, hidden]: of each the one of its token in of_tokens [tokens, hidden].
void expert_rows(const Experts& experts, const RowPlaces& order, const std::uint16_t* of_tokens, std::uint16_t* rows,
                 std::int64_t tokens, std::int64_t hidden, Stream stream);

/// output [tokens, hidden] = middle + sum over a token's choices, best first, of weight times its row; without middle and
/// weights the sum of the rows alone.
void expert_sum(const Experts& experts, const RowPlaces& order, const std::uint16_t* rows, const float* weights,
                const std::uint16_t* middle, std::uint16_t* output, std::int64_t tokens, std::int64_t hidden,
                Stream stream);

/// gate_up [rows, 2 width], and z = the gradient of a row's product before its weight -> product times weight, d_gate_up,
/// and of each choice the gradient of its weight, z . product.
void experts_swiglu_backward(const RowPlaces& order, const std::uint16_t* gate_up, const std::uint16_t* z,
                             const float* weights, std::uint16_t* product, std::uint16_t* d_gate_up, float* d_weights,
                             std::int64_t rows, std::int64_t width, Stream stream);

}  // namespace penstock::exec
