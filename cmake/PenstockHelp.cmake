# What a program says of itself, for the man page and the shell completion: they can say nothing else.

# The text of `PROGRAM [COMMAND] --help`.
function(help_of result)
  execute_process(COMMAND ${PROGRAM} ${ARGN} --help OUTPUT_VARIABLE text RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${PROGRAM} ${ARGN} --help: ${failed}")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# The commands that the help names, in its order.
function(commands_of result help)
  string(REGEX REPLACE ".*\nSubcommands:\n" "" lines "${help}")
  string(REGEX REPLACE "\n\n.*" "" lines "${lines}")  # behind an empty line are examples
  string(REGEX MATCHALL "\n  [a-z][a-z-]*" lines "\n${lines}")
  if(NOT lines)
    message(FATAL_ERROR "${PROGRAM} --help names no commands")
  endif()
  set(commands)
  foreach(line IN LISTS lines)
    string(STRIP "${line}" command)
    list(APPEND commands ${command})
  endforeach()
  set(${result} ${commands} PARENT_SCOPE)
endfunction()

# OUTPUT appears at once: who installs beside this, as tests do, finds the old text or the new one.
function(write_whole text)
  string(RANDOM LENGTH 16 ALPHABET 0123456789abcdef digits)
  file(WRITE ${OUTPUT}.${digits}.tmp "${text}")
  file(RENAME ${OUTPUT}.${digits}.tmp ${OUTPUT})
endfunction()
