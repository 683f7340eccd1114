// same_answers.mjs PENSTOCK-SIM PAGE SOURCE [--all] [--in chromium|firefox]: what the page's program answers, in node or in a
// browser, held against the native program's: the same exit code, the same text on standard error, the same JSON, every number
// to 12 digits.
//   default   every scenario as it stands under fit and simulate; every preset on two machines; questions without a file, bad
//             ones among them; a few searches
//   --all     every scenario under search, and every preset on every scenario under fit and simulate, too
// Prints the seconds that both took, and in node those of CPU of the page's.
import {spawnSync} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import {parseArgs} from 'node:util';

import {in_browser, in_node} from './program.mjs';

const {values: {all, in: browser}, positionals: [native, page, source]} =
    parseArgs({allowPositionals: true, options: {all: {type: 'boolean'}, in: {type: 'string'}}});
const DIGITS = 1e-12;

const scenarios = fs.readdirSync(path.join(source, 'scenarios')).filter(name => name.endsWith('.toml')).map(name => name.slice(0, -5));
const presets = JSON.parse(spawnSync(native, ['list', 'presets', '--json'], {cwd: source, encoding: 'utf8'}).stdout).presets;
const file = name => `scenarios/${name}.toml`;
const as_it_stands = names => names.flatMap(name => ['fit', 'simulate'].map(command => [command, file(name), '--json']));
const with_presets = names => names.flatMap(
    name => presets.flatMap(({name: preset}) => ['fit', 'simulate'].map(
                                command => [command, file(name), '--set', `policy.name=${preset}`, '--json'])));
const searches = names => names.map(name => ['search', file(name), '--json', '--threads', '1']);
const SEARCHED = ['quickstart', 'qwen2.5-0.5b-h200', 'qwen2.5-7b-rtx4090-128gb'], WITH_PRESETS = ['qwen2.5-7b-h200', 'qwen2.5-7b-rtx4090-128gb'];
const others = names => scenarios.filter(name => !names.includes(name));

const ASKED = ['--model', 'qwen2.5-7b', '--gpu', 'RTX 4090', '--ram', '128GB'];
const questions = [
  ['simulate', ...ASKED, '--tokens', '1B', '--json'],
  ['simulate', ...ASKED, '--tokens', '1B'],
  ['simulate', '--model', 'qwen2.5-72b', '--gpu', 'h200', '--host', 'server-two-sockets', '--ram', '1536GB', '--json'],
  ['fit', '--model', 'llama-3.1-8b', '--gpu', '5090', '--ram', '64GB', '--json'],
  ['shop', ...ASKED, '--json'],
  ['list', '--json'],
  ['simulate', '--model', 'qwen9', '--gpu', 'RTX 4090'],
  ['simulate', '--model', 'qwen2.5-7b', '--gpu', 'RTX 4091'],
  ['simulate', ...ASKED, '--tokens', 'many'],
  ['simulate', ...ASKED, '--tokens-per-step', '1'],
  ['simulate', ...ASKED, '--sequence-length', '0x400'],
  ['simulate', ...ASKED, '--rent', '1e400'],
  ['simulate', ...ASKED, '--drive', '1e-400 TB'],
  ['simulate', ...ASKED, '--watts', '0x1p9 W'],
  ['simulate', ...ASKED, '--life', '.5'],
  ['--version'],
  ...as_it_stands(scenarios),
  ...with_presets(WITH_PRESETS),
  ...searches(SEARCHED),
  ...(all ? [...searches(others(SEARCHED)), ...with_presets(others(WITH_PRESETS))] : []),
];

/// Where two values differ; "" if nowhere.
function difference(one, other, place = '') {
  if (typeof one === 'number' && typeof other === 'number')
    return Math.abs(one - other) <= DIGITS * Math.max(Math.abs(one), Math.abs(other)) ? '' : `${place}: ${one} and ${other}`;
  if (one === null || other === null || typeof one !== 'object' || typeof other !== 'object')
    return one === other ? '' : `${place}: ${JSON.stringify(one)} and ${JSON.stringify(other)}`;
  const keys = Object.keys(one);
  if (keys.join() !== Object.keys(other).join()) return `${place}: keys ${keys} and ${Object.keys(other)}`;
  for (const key of keys) {
    const found = difference(one[key], other[key], `${place}.${key}`);
    if (found) return found;
  }
  return '';
}

function compared(words, here, there) {
  if (here.status !== there.code) return `exit code ${here.status} and ${there.code}: ${here.stderr} and ${there.err}`;
  const own = text => text.replaceAll('/scenarios/', 'scenarios/');
  if (own(here.stderr) !== own(there.err)) return `standard error:\n${here.stderr}\n${there.err}`;
  if (!words.includes('--json') || here.stdout === '') return here.stdout === there.out ? '' : `standard output:\n${here.stdout}\n${there.out}`;
  return difference(JSON.parse(here.stdout), JSON.parse(there.out), 'JSON');
}

const program = await (browser ? in_browser(browser, page) : in_node(page));
const cpu = () => Object.values(process.cpuUsage()).reduce((sum, us) => sum + us / 1e6, 0);
const total = {native: 0, web: 0, cpu: 0};
let differ = 0, fit = 0;
for (const words of questions) {
  const began = performance.now();
  const here = spawnSync(native, words, {cwd: source, encoding: 'utf8', maxBuffer: 1 << 28});
  const native_seconds = (performance.now() - began) / 1000, before = cpu();
  const there = await program.run(words, {}, '/');
  const cpu_seconds = cpu() - before;
  total.native += native_seconds;
  total.web += there.seconds;
  total.cpu += cpu_seconds;
  if (here.status === 0) ++fit;
  const what = compared(words, here, there);
  if (what) {
    ++differ;
    console.log(`DIFFERENT: penstock-sim ${words.join(' ')}\n  ${what}`);
  }
  if (all)
    console.log(`${there.seconds.toFixed(1)} s${browser ? '' : `, ${cpu_seconds.toFixed(1)} s of CPU`} (native ${native_seconds.toFixed(1)} s): penstock-sim ${words.join(' ')}`);
}
program.close();
console.log(`${browser || 'node'}: ${questions.length} command lines, ${fit} of them with exit code 0; ${differ} differ; native ${total.native.toFixed(0)} s, WebAssembly ${total.web.toFixed(0)} s${browser ? '' : `, ${total.cpu.toFixed(0)} s of CPU`}`);
process.exitCode = differ ? 1 : 0;
