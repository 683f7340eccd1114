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

install(TARGETS ${programs} RUNTIME)

# Made while installing, of the programs that are installed, so that any build that has these will do.
foreach(program IN LISTS programs)
  set(page ${PROJECT_BINARY_DIR}/man/${program}.1)
  set(completion ${PROJECT_BINARY_DIR}/completions/${program})
  install(CODE "
    execute_process(COMMAND \"${CMAKE_COMMAND}\" -D \"PROGRAM=$<TARGET_FILE:${program}>\" -D NAME=${program} -D VERSION=${PROJECT_VERSION}
      -D \"OUTPUT=${page}\" -P \"${PROJECT_SOURCE_DIR}/cmake/PenstockManPage.cmake\" COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND \"${CMAKE_COMMAND}\" -D \"PROGRAM=$<TARGET_FILE:${program}>\" -D NAME=${program}
      -D \"OUTPUT=${completion}\" -P \"${PROJECT_SOURCE_DIR}/cmake/PenstockCompletion.cmake\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
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
