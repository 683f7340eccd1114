// The page's program outside a browser: the worker's own source, in node. Nothing but what the page ships.
import {webcrypto} from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

/// Loads FOLDER/penstock.js. Returns run(argv, files, folder), which resolves to {code, out, err, files, seconds}.
export async function load(page) {
  globalThis.self = globalThis;
  globalThis.crypto ??= webcrypto;  // node 18
  globalThis.location = {href: 'file:///'};
  let answered = null;
  globalThis.postMessage = message => { if (message.progress === undefined) answered(message); };
  const tell = data => new Promise(done => {
    answered = done;
    self.onmessage({data});
  });
  const parts = vm.runInThisContext(fs.readFileSync(path.join(page, 'penstock.js'), 'utf8') + '\npenstock_program');
  vm.runInThisContext(parts.worker);
  const {compiled, failed} = await tell({program: parts.wasm});
  if (!compiled) throw new Error(failed);
  return async (argv, files = {}, folder = '/question') => {
    const answer = await tell({argv, files, folder});
    if (answer.failed !== undefined) throw new Error(`${argv.join(' ')}: ${answer.failed}`);
    return answer;
  };
}
