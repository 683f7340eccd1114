# Finds the CUDA toolkit, unless told not to, and announces what was decided.
#
# Kernels are compiled for the GPU of this machine, as the driver says; without one as PTX of compute_80, which every card
# from the A100 on makes its own code of when a program starts for the first time. The preset `package` has code for each.
set(PENSTOCK_HAVE_CUDA FALSE)
if(NOT PENSTOCK_CUDA STREQUAL OFF)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE cards RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
      string(REGEX MATCHALL "[0-9]+[.][0-9]+" cards "${cards}")
      list(REMOVE_DUPLICATES cards)
      string(REPLACE "." "" cards "${cards}")
      if(NOT failed AND cards)
        set(CMAKE_CUDA_ARCHITECTURES "${cards}")
      else()
        set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
      endif()
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(PENSTOCK_HAVE_CUDA TRUE)
  elseif(PENSTOCK_CUDA STREQUAL ON)
    message(FATAL_ERROR "PENSTOCK_CUDA=ON, but no CUDA compiler was found: put nvcc on PATH or set CMAKE_CUDA_COMPILER")
  endif()
endif()
message(STATUS "penstock: CUDA backend ${PENSTOCK_HAVE_CUDA} ${CMAKE_CUDA_ARCHITECTURES}")
