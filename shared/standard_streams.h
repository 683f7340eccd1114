// Standard output and error, which may be closed, full, or read by nobody any more.
#pragma once

#include <string_view>

namespace penstock {

/// A closed standard stream stays closed to what is written there, but its number is taken, so that no file that the
/// program opens gets it. Called first of all.
void hold_standard_streams();

/// To standard output, at once. What cannot be written is lost, and that is remembered: work goes on without a reader
/// or with a full disk. From one thread at a time.
void print_out(std::string_view text);

/// The system's reason (errno) for which `print_out` first failed; 0: it never did.
int lost_output();

/// To standard error, at once. What cannot be written is lost: nobody is there to be told.
void tell(std::string_view text);

}  // namespace penstock
