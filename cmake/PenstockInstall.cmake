# cmake --install: programs, their man pages, and under share/penstock what they read: the catalogue, and the texts that a
# scenario without data of its own trains on. Nothing installed knows where it lies: programs look for the catalogue from
# their own folder (shared/catalogue.h).
set(programs penstock-sim)
if(PENSTOCK_EXEC)
  list(APPEND programs penstock-exec)
  set_target_properties(penstock-exec PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # CUDA may lie where no linker looks
endif()

set(pages)
foreach(program IN LISTS programs)
  set(page ${PROJECT_BINARY_DIR}/man/${program}.1)
  add_custom_command(OUTPUT ${page} DEPENDS ${program} ${PROJECT_SOURCE_DIR}/cmake/PenstockManPage.cmake
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${program}> -D NAME=${program} -D VERSION=${PROJECT_VERSION}
            -D OUTPUT=${page} -P ${PROJECT_SOURCE_DIR}/cmake/PenstockManPage.cmake)
  list(APPEND pages ${page})
endforeach()
add_custom_target(penstock_man ALL DEPENDS ${pages})

install(TARGETS ${programs} RUNTIME)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY scenarios docs DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
