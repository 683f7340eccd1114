# Finds the headers of cuDNN and of its C++ frontend (`pip install nvidia-cudnn-frontend`), and announces what was decided.
# The library itself is not linked: programs look for it when they run (exec/cuda/cudnn_library.h), in the folder where it
# is found here too.
set(PENSTOCK_CUDNN AUTO CACHE STRING "Attention through cuDNN: AUTO (if its headers are found), ON, OFF")
set(PENSTOCK_HAVE_CUDNN FALSE)
if(NOT PENSTOCK_CUDNN STREQUAL OFF)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  set(places)
  if(Python3_Interpreter_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
      OUTPUT_VARIABLE site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(places ${site}/include ${site}/nvidia/cudnn)
  endif()
  find_path(PENSTOCK_CUDNN_FRONTEND cudnn_frontend.h HINTS ${places} DOC "Folder of cudnn_frontend.h")
  find_path(PENSTOCK_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${places} PATH_SUFFIXES include)
  find_library(PENSTOCK_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
    HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib ${CUDAToolkit_LIBRARY_ROOT}/lib64 ${places}
    PATH_SUFFIXES lib)
  if(PENSTOCK_CUDNN_FRONTEND AND PENSTOCK_CUDNN_INCLUDE)
    set(PENSTOCK_HAVE_CUDNN TRUE)
    add_library(penstock_cudnn INTERFACE)
    target_include_directories(penstock_cudnn SYSTEM INTERFACE ${PENSTOCK_CUDNN_FRONTEND} ${PENSTOCK_CUDNN_INCLUDE})
    target_compile_definitions(penstock_cudnn INTERFACE PENSTOCK_NVRTC="libnvrtc.so.${CUDAToolkit_VERSION_MAJOR}")
    target_link_libraries(penstock_cudnn INTERFACE ${CMAKE_DL_LIBS})
    get_filename_component(folder "${PENSTOCK_CUDNN_LIBRARY}" DIRECTORY)
    set(searched ${CUDAToolkit_LIBRARY_DIR} ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
    if(PENSTOCK_CUDNN_LIBRARY AND NOT folder IN_LIST searched)
      target_link_options(penstock_cudnn INTERFACE LINKER:-rpath,${folder})
    endif()
  elseif(PENSTOCK_CUDNN STREQUAL ON)
    message(FATAL_ERROR "PENSTOCK_CUDNN=ON, but not all was found: frontend ${PENSTOCK_CUDNN_FRONTEND}, "
      "cudnn.h ${PENSTOCK_CUDNN_INCLUDE}; scripts/install brings the frontend")
  endif()
endif()
message(STATUS "penstock: attention through cuDNN ${PENSTOCK_HAVE_CUDNN}")
