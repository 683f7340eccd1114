# Debian's emscripten. Its JavaScript passes need node's acorn, which lies in /usr/share/nodejs, where only Debian's own node
# looks by itself: so every call of it is told.
set(EMSCRIPTEN_ROOT_PATH /usr/share/emscripten CACHE PATH "Where emscripten lies")
if(NOT EXISTS ${EMSCRIPTEN_ROOT_PATH}/cmake/Modules/Platform/Emscripten.cmake)
  message(FATAL_ERROR "emscripten is not in ${EMSCRIPTEN_ROOT_PATH}: scripts/install web installs it (scripts/packages-web.txt)")
endif()
set(ENV{NODE_PATH} /usr/share/nodejs)  # while CMake tries the compiler
include(${EMSCRIPTEN_ROOT_PATH}/cmake/Modules/Platform/Emscripten.cmake)
set(CMAKE_CXX_LINKER_LAUNCHER ${CMAKE_COMMAND} -E env NODE_PATH=/usr/share/nodejs)
