# Finds CUTLASS (headers only; `pip install nvidia-cutlass`), whose grouped products run on sm_90 alone, and announces what
# was decided.
set(PENSTOCK_CUTLASS AUTO CACHE STRING
  "Grouped products through CUTLASS: AUTO (if it is found and sm_90 is compiled for), ON, OFF")
set(PENSTOCK_HAVE_CUTLASS FALSE)
if(NOT PENSTOCK_CUTLASS STREQUAL OFF)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  set(places)
  if(Python3_Interpreter_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
      OUTPUT_VARIABLE site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(places ${site}/cutlass_library/source/include)
  endif()
  find_path(PENSTOCK_CUTLASS_INCLUDE cutlass/cutlass.h HINTS ${places} DOC "Folder of cutlass/cutlass.h")
  if(PENSTOCK_CUTLASS_INCLUDE AND CMAKE_CUDA_ARCHITECTURES MATCHES "(^|;)90")
    set(PENSTOCK_HAVE_CUTLASS TRUE)
  elseif(PENSTOCK_CUTLASS STREQUAL ON)
    message(FATAL_ERROR "PENSTOCK_CUTLASS=ON, but CUTLASS was not found (headers ${PENSTOCK_CUTLASS_INCLUDE}; "
      "scripts/install brings them), or there is no 90 among the architectures: ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
endif()
message(STATUS "penstock: grouped products through CUTLASS ${PENSTOCK_HAVE_CUTLASS}")

# Objects of code for sm_90 that no other card runs, beside whatever the others are compiled for.
function(penstock_cutlass_objects name)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES OFF)
  target_compile_options(${name} PRIVATE
    -std=c++20 --generate-code=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -w)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${PENSTOCK_CUTLASS_INCLUDE})
  target_link_libraries(${name} PRIVATE CUDA::cudart_static)
endfunction()
