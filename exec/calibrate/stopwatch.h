// Times a piece of work: once to warm up, then repeated until it has been seen often and long enough.
#pragma once

#include <functional>
#include <vector>

namespace penstock::exec {

struct Measured {
  double seconds = 0;  // median
  double spread = 0;   // (max - min) / median over the middle half, so that one interruption is not taken for noise
};

struct Repeats {
  int least = 5;
  int most = 200;
  double enough_seconds = 0.05;  // stop after this much, once `least` is reached
  double limit_seconds = 2;      // stop after this much in any case
};

/// `body` returns the seconds that it took, by whatever clock is right for it.
Measured measure(const std::function<double()>& body, const Repeats& repeats = {});
/// The same by the steady clock around `body`.
Measured measure_call(const std::function<void()>& body, const Repeats& repeats = {});

/// CPU time of the calling thread since it began: what single-threaded work costs a core, whoever else uses the machine
/// meanwhile.
double thread_cpu_seconds();

/// Median and spread of times. REQUIRES: not empty.
Measured summarise(std::vector<double> seconds);

}  // namespace penstock::exec
