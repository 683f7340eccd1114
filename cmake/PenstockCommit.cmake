# cmake -D OUTPUT=<file> -D SOURCE=<folder> -P: writes the commit of the sources, and touches the file only if it changed.
cmake_minimum_required(VERSION 3.24)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=10 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed OR NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#include \"shared/build_commit.h\"

namespace penstock {
const char* build_commit() { return \"@commit@\"; }
}  // namespace penstock
" @ONLY)
