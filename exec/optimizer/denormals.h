// Keeps denormal numbers in the floating-point unit of the calling thread. Some shared libraries switch them off for
// the whole process when they are loaded (code linked with -ffast-math does), and then host and GPU would differ in
// bits.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace penstock::exec {

/// While this lives, the calling thread neither flushes denormal results nor takes denormal operands as zero.
class KeepDenormals {
 public:
#if defined(__SSE__)
  KeepDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ & ~kFlushing); }
  ~KeepDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushing = 0x8040;  // flush to zero, denormals are zero
  unsigned before_;
#else
  KeepDenormals() {}
#endif

 public:
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;
};

}  // namespace penstock::exec
