# Targets only: every library, program and test of Penstock takes its warnings, standard and sanitizers from the
# interface target penstock_options.

# Kernels of the host that choose their instruction set when they run (exec/numerics/cpu_target.h) are compiled with these
# flags, after those of PENSTOCK_ARCH.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(PENSTOCK_X86 TRUE)
  set(PENSTOCK_CPU_FLAGS_baseline -march=x86-64)
  set(PENSTOCK_CPU_FLAGS_avx2 -march=x86-64-v3)
  set(PENSTOCK_CPU_FLAGS_avx512 -march=x86-64-v4)
endif()

# Warnings of GCC that follow values through a function. They need what -O2 knows: at -O1, and of code that a sanitizer has
# instrumented, GCC 12 gives them of its own std::string (GCC bugs 105329 and 105651). The libraries are compiled with them.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(PENSTOCK_NO_FLOW_WARNINGS -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
    -Wno-stringop-overread)
endif()

function(penstock_configure_toolchain)
  add_library(penstock_options INTERFACE)
  target_compile_features(penstock_options INTERFACE cxx_std_20)
  # Who takes the installed libraries gets the folder of the headers, and neither our warnings nor our processor.
  target_include_directories(penstock_options INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/penstock>)
  # -ffp-contract=off: an fma is one only where the source says so; bits must not depend on the compiler's mood.
  target_compile_options(penstock_options INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror;-ffp-contract=off>>")
  if(EMSCRIPTEN)
    # Indexes into memory come from 64-bit numbers everywhere; there memory has 32-bit addresses.
    target_compile_options(penstock_options INTERFACE $<BUILD_INTERFACE:-Wno-shorten-64-to-32>)
  endif()
  if(PENSTOCK_ARCH)
    target_compile_options(penstock_options INTERFACE
      "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-march=${PENSTOCK_ARCH}>>")
  endif()
  if(PENSTOCK_SANITIZE)
    # Left out: checks of UBSan that AddressSanitizer makes where it matters (null, object-size), and what takes as long to
    # compile as all others.
    target_compile_options(penstock_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PENSTOCK_SANITIZE};\
-fno-sanitize=null,object-size,vptr,alignment,nonnull-attribute,returns-nonnull-attribute;-fno-sanitize-recover=all;\
-fno-omit-frame-pointer;${PENSTOCK_NO_FLOW_WARNINGS}>")
    target_link_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
  endif()
endfunction()

# penstock_precompile(OWNER LIBRARIES HEADERS...): makes OWNER, which reads headers of others that most sources include once for
# all who have its flags. None of ours: one that changes compiles what includes it, and nothing else. JSON's takes longer to
# load than most sources would gain. Sources include what they use all the same (tests/included_names_test.cpp).
function(penstock_precompile owner libraries)
  if(PENSTOCK_PRECOMPILE)
    set(nothing ${PROJECT_BINARY_DIR}/precompiled.cpp)
    file(CONFIGURE OUTPUT ${nothing} CONTENT "")
    add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${nothing})
    target_link_libraries(${owner} PRIVATE penstock_options fmt::fmt ${libraries})
    target_precompile_headers(${owner} PRIVATE <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map>
      <memory> <optional> <set> <string> <string_view> <utility> <vector> <fmt/format.h> ${ARGN})
  endif()
endfunction()

# penstock_precompiled_by(OWNER TARGETS...)
function(penstock_precompiled_by owner)
  if(PENSTOCK_PRECOMPILE)
    foreach(target IN LISTS ARGN)
      target_link_libraries(${target} PRIVATE fmt::fmt)
      target_precompile_headers(${target} REUSE_FROM ${owner})
    endforeach()
  endif()
endfunction()

# Code that runs for seconds need not be fast: compiling it is what takes time. The libraries under test are as they ship.
function(penstock_compile_as_test target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> ${PENSTOCK_NO_FLOW_WARNINGS})
endfunction()

# penstock_add_tests(NAME <name> SOURCES ... LIBRARIES ... [LABELS fast|full|gpu]): one GoogleTest program.
# Label `fast` is the set of scripts/test, `full` joins it with --all, `gpu` needs a device.
function(penstock_add_tests)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LIBRARIES} penstock_source_folder penstock_options
    GTest::gtest GTest::gtest_main)
  penstock_compile_as_test(${ARG_NAME})
  penstock_precompiled_by(penstock_precompiled_tests ${ARG_NAME})
  # By the names that the tests give their parameters: GoogleTest would print bytes of memory behind them.
  gtest_discover_tests(${ARG_NAME} NO_PRETTY_VALUES PROPERTIES LABELS "${ARG_LABELS}" DISCOVERY_TIMEOUT 60)
endfunction()
