// Where the data of a step goes.
#pragma once

#include <cstdint>

namespace penstock::exec {

/// Rows of the whole step, one behind the other (BatchShape, shared/model/activations.h).
struct StepRows {
  std::int32_t* tokens = nullptr;  // [sequences, token_row]
  // Of packed rows, [sequences, sequence_length]; nullptr in windows.
  std::int32_t* labels = nullptr;           // or kIgnoredLabel
  std::int32_t* document_starts = nullptr;  // the place in the row where the place's document begins
};

}  // namespace penstock::exec
