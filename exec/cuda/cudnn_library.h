// cuDNN, which programs are not linked with: it is looked for when attention is first wanted, so that they start where
// nobody has installed it. Its functions have the names and meanings of <cudnn.h>; cudnn_library.cpp hands each call on.
#pragma once

#include <string>

namespace penstock::exec {

/// Empty where the library and every function that is called were found; else what was not, for people. The functions
/// may be called only where it is empty. Looks once, where the system's linker would; thread-safe.
const std::string& cudnn_missing();

}  // namespace penstock::exec
