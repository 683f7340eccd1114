# In the place of find_package, where the compiler is emscripten's: the same header packages of this machine, each alone. The
# whole of /usr/include would hide emscripten's own C library.
set(packages_folder ${CMAKE_BINARY_DIR}/packages)
file(MAKE_DIRECTORY ${packages_folder})

# penstock_header_package(TARGET NAME): NAME is a folder or a file of /usr/include.
function(penstock_header_package target name)
  find_path(place ${name} PATHS /usr/include /usr/local/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH NO_CACHE REQUIRED)
  file(MAKE_DIRECTORY ${packages_folder}/${name}.d)
  file(CREATE_LINK ${place}/${name} ${packages_folder}/${name}.d/${name} SYMBOLIC)
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED GLOBAL)
  endif()
  target_include_directories(${target} SYSTEM INTERFACE ${packages_folder}/${name}.d)
endfunction()

penstock_header_package(nlohmann_json::nlohmann_json nlohmann)
penstock_header_package(Boost::headers boost)
penstock_header_package(tomlplusplus::tomlplusplus toml++)
penstock_header_package(CLI11::CLI11 CLI)
penstock_header_package(PkgConfig::xxhash xxhash.h)
target_compile_definitions(PkgConfig::xxhash INTERFACE XXH_INLINE_ALL)  # there is no library of it for WebAssembly

# fmt compiled once: header-only it takes longer than the sources that use it.
penstock_header_package(fmt::fmt fmt)
add_library(penstock_fmt STATIC ${PROJECT_SOURCE_DIR}/sim/web/fmt.cpp)
target_include_directories(penstock_fmt SYSTEM PRIVATE ${packages_folder}/fmt.d)
target_compile_features(penstock_fmt PRIVATE cxx_std_20)
target_link_libraries(fmt::fmt INTERFACE penstock_fmt)

# Exceptions of WebAssembly itself: every browser since 2022 has them.
add_compile_options(-fwasm-exceptions)
add_link_options(-fwasm-exceptions)
