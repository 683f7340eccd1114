# cmake -D PROGRAM=<file> -D NAME=<name> -D VERSION=<version> -D OUTPUT=<file> -P: writes the program's man page from what its
# own --help says, and from that of each of its commands, so that the page cannot say anything else.
cmake_minimum_required(VERSION 3.24)

include(${CMAKE_CURRENT_LIST_DIR}/PenstockHelp.cmake)

# Text as it stands: no character of it is a request or an escape of roff.
function(as_roff result text)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  string(STRIP "${text}" text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

help_of(help)
string(REGEX MATCH "^[^\n]*" summary "${help}")
string(REGEX REPLACE "\\.$" "" summary "${summary}")
commands_of(commands "${help}")

as_roff(summary "${summary}")
as_roff(text "${help}")
string(TOUPPER ${NAME} title)
set(page ".TH ${title} 1 \"\" \"Penstock ${VERSION}\"\n.SH NAME\n${NAME} \\- ${summary}\n.SH SYNOPSIS\n.B ${NAME}\n.I COMMAND\n\
[OPTIONS]\n.SH DESCRIPTION\n.nf\n${text}\n.fi\n.SH COMMANDS\n")
foreach(command IN LISTS commands)
  help_of(help ${command})
  as_roff(text "${help}")
  string(APPEND page ".SS ${command}\n.nf\n${text}\n.fi\n")
endforeach()
string(APPEND page ".SH FILES\n.TP\n.I ../share/penstock/scenarios\nthe catalogue, from the folder of the program\n.TP\n\
.I ../share/penstock/docs\nall commands, scenario files, schedules and the model behind predictions\n")
write_whole("${page}")
