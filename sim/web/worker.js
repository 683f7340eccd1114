// Runs penstock-sim for the page: a command line in, what it printed and the files that it wrote out. Every run is a program
// of its own, in a folder of its own, so that none sees anything of another; what was compiled is compiled once.
//   in:  {program: base64 or WebAssembly.Module}, once; then {argv, files: {name: text}, folder, all}
//   out: {compiled: WebAssembly.Module}; {progress: text}, any number; {code, out, err, files, seconds} or {failed: text}
'use strict';
const CLEAR_ROW = '\r\x1b[K';  // before each state of a StatusLine

let compiled = null;

function bytes_of(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/// What was written to a stream, as text.
class Written {
  constructor() {
    this.decoder = new TextDecoder();
    this.text = '';
  }
  add(bytes) { return this.text += this.decoder.decode(bytes, {stream: true}); }
}

/// Standard error without the states of progress, of which the last is told.
function add_and_tell(written, bytes) {
  const parts = written.add(bytes).split(CLEAR_ROW);
  if (parts.length < 2) return;
  const state = parts.pop();
  const lines = state.includes('\n');  // a line for good followed the cleared row
  written.text = parts[0] + parts.slice(1).map(part => part.slice(part.indexOf('\n') + 1 || part.length)).join('') +
      (lines ? state : '');
  if (!lines && state) postMessage({progress: state});
}

async function run({argv, files, folder}) {
  const began = performance.now(), out = new Written(), err = new Written();
  let refuse;
  const refused = new Promise((_, no) => { refuse = no; });
  const program = await Promise.race([refused, createPenstock({
    noInitialRun: true,
    thisProgram: 'penstock-sim',
    wrote: (stream, bytes) => stream === 2 ? add_and_tell(err, bytes) : out.add(bytes),
    instantiateWasm(imports, done) {
      WebAssembly.instantiate(compiled, imports).then(instance => done(instance, compiled)).catch(refuse);
      return {};
    },
  })]);
  const FS = program.FS;
  if (!FS.analyzePath(folder).exists) FS.mkdir(folder);
  FS.chdir(folder);
  for (const [name, text] of Object.entries(files)) FS.writeFile(name, text);
  const code = program.callMain(argv);
  const wrote = {};
  if (folder !== '/')
    for (const name of FS.readdir('.'))
      if (FS.isFile(FS.stat(name).mode) && !(name in files)) wrote[name] = FS.readFile(name, {encoding: 'utf8'});
  return {code, out: out.text, err: err.text, files: wrote, seconds: (performance.now() - began) / 1000};
}

async function answer(data) {
  try {
    if (data.program) {
      compiled = data.program instanceof WebAssembly.Module ? data.program :
                                                              await WebAssembly.compile(bytes_of(data.program));
      postMessage({compiled});
    } else {
      postMessage(await run(data));
    }
  } catch (error) {
    postMessage({failed: String(error && error.message || error)});
  }
}

let before = Promise.resolve();
self.onmessage = ({data}) => { before = before.then(() => answer(data)); };  // one after the other
