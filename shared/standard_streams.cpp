#include "shared/standard_streams.h"

#include <fcntl.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace penstock {
namespace {

int lost = 0;

}  // namespace

void hold_standard_streams() {
  // The lowest free number is what open gives. Opened for the other direction, so that using it stays an error.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0)
      if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

void print_out(std::string_view text) {
  if (lost == EPIPE) return;  // nobody will read again; a disk may be emptied
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (lost == 0) lost = errno;
  ::__fpurge(stdout);  // or the exit would try once more
}

int lost_output() { return lost; }

void tell(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace penstock
