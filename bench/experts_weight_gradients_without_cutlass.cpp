#include "bench/experts_weight_gradients.h"

namespace penstock::exec {

std::vector<WeightGradientForm> weight_gradient_forms() { return {}; }

}  // namespace penstock::exec
