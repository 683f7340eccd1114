// Where there are no threads (WebAssembly): the same results, for no result depends on the number of threads.
#include <cstddef>
#include <exception>

#include "sim/planner/parallel.h"

namespace penstock::sim {

std::size_t thread_count(int) { return 1; }

void parallel_for(std::size_t count, std::size_t, const std::function<void(std::size_t, std::size_t)>& work) {
  std::exception_ptr first;
  for (std::size_t i = 0; i < count; ++i) {
    try {
      work(i, 0);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace penstock::sim
