# cmake --install: programs, their man pages and completions, the simulator as a library, and under share/penstock what they read: the catalogue, and the texts that a
# scenario without data of its own trains on. Nothing installed knows where it lies: programs look for the catalogue from
# their own folder (shared/catalogue.h).
set(programs penstock-sim)
if(PENSTOCK_EXEC)
  list(APPEND programs penstock-exec)
  set_target_properties(penstock-exec PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # CUDA may lie where no linker looks
endif()

# Beside what the system has: libraries that scripts/package puts there.
file(RELATIVE_PATH libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/penstock)
set(rpath "$ORIGIN/${libraries}")
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "${rpath}")
if(TARGET penstock-exec-host)  # not installed; scripts/package puts it beside them
  set_target_properties(penstock-exec-host PROPERTIES INSTALL_RPATH "${rpath}")
endif()

set(pages)
set(completions)
foreach(program IN LISTS programs)
  set(page ${PROJECT_BINARY_DIR}/man/${program}.1)
  add_custom_command(OUTPUT ${page} DEPENDS ${program} ${PROJECT_SOURCE_DIR}/cmake/PenstockManPage.cmake
    ${PROJECT_SOURCE_DIR}/cmake/PenstockHelp.cmake
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${program}> -D NAME=${program} -D VERSION=${PROJECT_VERSION}
            -D OUTPUT=${page} -P ${PROJECT_SOURCE_DIR}/cmake/PenstockManPage.cmake)
  list(APPEND pages ${page})
  set(completion ${PROJECT_BINARY_DIR}/completions/${program})
  add_custom_command(OUTPUT ${completion} DEPENDS ${program} ${PROJECT_SOURCE_DIR}/cmake/PenstockCompletion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/PenstockHelp.cmake
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${program}> -D NAME=${program} -D OUTPUT=${completion}
            -P ${PROJECT_SOURCE_DIR}/cmake/PenstockCompletion.cmake)
  list(APPEND completions ${completion})
endforeach()
add_custom_target(penstock_man ALL DEPENDS ${pages} ${completions})

install(TARGETS ${programs} RUNTIME)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${completions} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(DIRECTORY scenarios docs DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The simulator as a library: find_package(Penstock), target Penstock::sim, headers as they are named here ("sim/simulate.h").
include(CMakePackageConfigHelpers)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Penstock)
set_target_properties(penstock_options PROPERTIES EXPORT_NAME options)
set_target_properties(penstock_shared PROPERTIES EXPORT_NAME shared)
set_target_properties(penstock_sim PROPERTIES EXPORT_NAME sim)
install(TARGETS penstock_options penstock_shared penstock_sim EXPORT PenstockTargets ARCHIVE)
install(EXPORT PenstockTargets NAMESPACE Penstock:: DESTINATION ${config})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/PenstockConfigVersion.cmake COMPATIBILITY ExactVersion)
file(RELATIVE_PATH catalogue_from_config ${CMAKE_INSTALL_FULL_LIBDIR}/cmake/Penstock
  ${CMAKE_INSTALL_FULL_DATADIR}/penstock/scenarios)
configure_file(cmake/PenstockConfig.cmake ${PROJECT_BINARY_DIR}/PenstockConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/PenstockConfig.cmake ${PROJECT_BINARY_DIR}/PenstockConfigVersion.cmake DESTINATION ${config})
install(DIRECTORY shared sim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock FILES_MATCHING PATTERN *.h
  PATTERN sim/program EXCLUDE PATTERN shared/command_line.h EXCLUDE)
