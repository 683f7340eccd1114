// Which elements of a layer take AdamW's weight decay.
#pragma once

#include "exec/optimizer/adamw.h"
#include "shared/model/model.h"
#include "shared/scenario/training_options.h"

namespace penstock::exec {

/// Tensors that lie side by side are one range, the padding between them included. The embedding of a tied model, which
/// is its output projection too, is an embedding; the output projection of an untied one is a matrix.
UndecayedRanges undecayed_ranges(const Layer& layer, Decay decay);

}  // namespace penstock::exec
