#include "tests/source_folder.h"

std::filesystem::path penstock::source_folder() { return PENSTOCK_SOURCE_DIR; }
