// The page's program, nothing but what the page ships: outside a browser, the worker's own source in node; or in a browser.
// Both give run(argv, files, folder), which resolves to {code, out, err, files, seconds}, and close().
import {spawn} from 'node:child_process';
import {webcrypto} from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import {fileURLToPath} from 'node:url';
import vm from 'node:vm';

const answered_or_thrown = (argv, answer) => {
  if (answer.failed !== undefined) throw new Error(`${argv.join(' ')}: ${answer.failed}`);
  return answer;
};

/// FOLDER/penstock.js in node.
export async function in_node(page) {
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
  const run = async (argv, files = {}, folder = '/your-model') => answered_or_thrown(argv, await tell({argv, files, folder}));
  return {run, close: () => {}};
}

/// FOLDER/index.html in a browser, "chromium" or "firefox".
export async function in_browser(browser, page) {
  const script = path.join(path.dirname(fileURLToPath(import.meta.url)), 'in_browser.py');
  const child = spawn('python3', [script, browser, page], {stdio: ['pipe', 'pipe', 'inherit']});
  const lines = readline.createInterface({input: child.stdout})[Symbol.asyncIterator]();
  const run = async (argv, files = {}, folder = '/your-model') => {
    child.stdin.write(JSON.stringify({argv, files, folder}) + '\n');
    const {value, done} = await lines.next();
    if (done) throw new Error(`${browser} ended`);
    return answered_or_thrown(argv, JSON.parse(value));
  };
  return {run, close: () => child.stdin.end()};
}
