// What the program writes goes to whoever started it, as it is written: both streams pass for a terminal, so that a search
// says how far it is. Part of the program's own scope (emscripten's --pre-js), where TTY is.
Module.preRun = (Module.preRun || []).concat(() => {
  TTY.stream_ops.write = (stream, buffer, offset, length) => {
    Module.wrote(stream.fd, buffer.slice(offset, offset + length));
    return length;
  };
});
