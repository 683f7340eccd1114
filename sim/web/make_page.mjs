// make_page.mjs SOURCE PROGRAM.js FOLDER VERSION: puts the page together, files that need nothing else. A page from disk may
// fetch nothing and start no worker from a file, so the program is text in a script: penstock.js.
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const [source, program, folder, version] = process.argv.slice(2);
const own = path.join(source, 'sim/web'), report = path.join(source, 'shared/report');
const text = file => fs.readFileSync(file, 'utf8');
const git = (...words) => {
  try {
    return execFileSync('git', ['-C', source, ...words], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']}).trim();
  } catch {
    return '';
  }
};

const built = {
  version,
  commit: git('describe', '--always', '--dirty', '--abbrev=10', '--exclude=*') || 'a source without git',
  date: git('log', '-1', '--format=%cs') || 'an unknown day',
  catalogue: git('log', '-1', '--format=%cs', '--', 'scenarios') || 'an unknown day',
};
const parts = {
  built,
  worker: text(program) + '\n' + text(path.join(own, 'worker.js')),
  wasm: fs.readFileSync(program.replace(/\.js$/, '.wasm')).toString('base64'),
};

fs.mkdirSync(folder, {recursive: true});
for (const name of ['index.html', 'style.css', 'engine.js', 'question.js', 'answer.js', 'main.js'])
  fs.copyFileSync(path.join(own, 'page', name), path.join(folder, name));
fs.copyFileSync(path.join(report, 'page.css'), path.join(folder, 'report.css'));
fs.writeFileSync(path.join(folder, 'report.js'), text(path.join(report, 'page.js')) + text(path.join(report, 'timeline.js')));
fs.writeFileSync(path.join(folder, 'penstock.js'), `'use strict';\nconst penstock_program = ${JSON.stringify(parts)};\n`);
