# cmake -D PROGRAM=<file> -D NAME=<name> -D OUTPUT=<file> -P: writes bash's completion of the program's commands and of
# each one's options; what is neither is a file.
cmake_minimum_required(VERSION 3.24)
include(${CMAKE_CURRENT_LIST_DIR}/PenstockHelp.cmake)

help_of(help)
commands_of(commands "${help}")
set(cases)
foreach(command IN LISTS commands)
  help_of(help ${command})
  string(REGEX MATCHALL "\n  (-[a-z],)?--[a-z][a-z-]*" options "\n${help}")
  string(REGEX REPLACE "[^;]*--" "--" options "${options}")
  list(JOIN options " " options)
  string(APPEND cases "    ${command}) options='${options}' ;;\n")
endforeach()
list(JOIN commands " " words)
list(JOIN commands "|" pattern)
string(REPLACE - _ function "_${NAME}")
write_whole("# bash completion of ${NAME}, made from what its --help says.
${function}() {
  local word=\${COMP_WORDS[COMP_CWORD]} command='' options='--help --version' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case \${COMP_WORDS[i]} in ${pattern}) command=\${COMP_WORDS[i]}; break ;; esac
  done
  case $command in
${cases}  esac
  COMPREPLY=()
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))
  elif [[ -z $command ]]; then
    COMPREPLY=($(compgen -W '${words}' -- \"$word\"))
  fi
}
complete -o default -F ${function} ${NAME}
")
