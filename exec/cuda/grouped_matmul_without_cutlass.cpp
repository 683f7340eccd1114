#include <stdexcept>

#include "exec/cuda/grouped_matmul_cutlass.h"

namespace penstock::exec::cutlass_grouped {
namespace {

[[noreturn]] void fail() { throw std::logic_error("built without CUTLASS"); }

}  // namespace

bool takes(std::int64_t, std::int64_t) { return false; }
void forward(const ExpertRows&, const std::uint16_t*, const ExpertMatrices&, std::uint16_t*, std::int64_t, std::int64_t,
             LibraryWorkspace, Stream) {
  fail();
}
void input_gradient(const ExpertRows&, const std::uint16_t*, const ExpertMatrices&, std::uint16_t*, std::int64_t,
                    std::int64_t, LibraryWorkspace, Stream) {
  fail();
}
void weight_gradient(const ExpertRows&, const std::uint16_t*, const std::uint16_t*, GradientTarget, std::int64_t,
                     std::int64_t, std::int64_t, LibraryWorkspace, Stream) {
  fail();
}

}  // namespace penstock::exec::cutlass_grouped
