// The schedule of an evaluation: forward and loss of as many rows as a step has, over the arenas of a training.
//
// Every buffer lies where the training's schedule of the same input has it, so that the states are where training left
// them and training finds them again. Its model is frozen as a whole: the checker proves that each state is, at the end
// of every step, what it was. Nothing of a training's step but its states outlives the flush at its end, and nothing of
// an evaluation does.
#pragma once

#include "shared/policy/parameters.h"

namespace penstock {

/// REQUIRES: an input that make_schedule takes.
Schedule make_evaluation(const PolicyInput& input);

/// Throws InputError, beginning with `place`, unless the evaluation finds every state where the training has it.
void require_same_places(const Schedule& training, const Schedule& evaluation, const std::string& place);

}  // namespace penstock
