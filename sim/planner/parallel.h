// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace penstock::sim {

/// 0 = all cores.
std::size_t thread_count(int wanted);

/// Calls `work(index, thread)` for every index below `count`, `thread` below `threads`. Of exceptions the one with the
/// lowest index is thrown on, after everything has ended.
void parallel_for(std::size_t count, std::size_t threads, const std::function<void(std::size_t, std::size_t)>& work);

}  // namespace penstock::sim
