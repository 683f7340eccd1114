// The page's flow: what is typed becomes a question, a question becomes commands, their JSON becomes the answer.
//   simulate           answers at once; what does not fit is answered by fit
//   search, shop --own look further meanwhile: what binds, what the next euro buys
// <html data-state> is `asking`, `answered` (further work may go on: data-further), `refused` or `failed`.
'use strict';
{
  const PAUSE_MS = 250;                     // after the last key
  const MOST_CONFIG_BYTES = 16 * 1024 * 1024;  // above it a dropped file is not even read
  const FITS = 0, BAD_INPUT = 2, DOES_NOT_FIT = 3;

  const at = id => document.getElementById(id);
  const root = document.documentElement;
  const engine = new Engine();
  let asked = null;     // the question that is being answered
  let running = null;   // AbortController of its work
  let editing = null;   // the field whose changes are one entry of the history
  let timer = 0;

  // --- what the program says ---------------------------------------------------------------------------------------------

  const sentence = err => err.split('\n').filter(line => line && !/: note: /.test(line)).join(' ').replace(/^penstock-sim: /, '');
  const notes = err => err.split('\n').filter(line => /: note: /.test(line) && !/scenario written to/.test(line))
                           .map(line => line.replace(/^.*?: note: /, ''));

  function say(text, state) {
    at('status').textContent = text;
    root.dataset.state = state;
    at('answer').setAttribute('aria-busy', state === 'asking');
    show_stop();
  }
  function further(text) {
    root.dataset.further = text ? 'running' : 'done';
    at('progress').textContent = text;
    show_stop();
  }
  const show_stop = () => { at('stop').hidden = root.dataset.state !== 'asking' && root.dataset.further !== 'running'; };

  function clear_errors() {
    at('general-error').textContent = '';
    for (const field of question.FIELDS) {
      at(field.key + '-error').textContent = '';
      at(field.key).removeAttribute('aria-invalid');
    }
  }
  /// Beside the field that it is about, or above the answer.
  function refuse(text, second) {
    const key = question.field_of(text, second);
    at(key ? key + '-error' : 'general-error').textContent = text;
    if (!key) return;
    at(key).setAttribute('aria-invalid', 'true');
    at('more').open ||= at('more').contains(at(key));
  }

  // --- asking ------------------------------------------------------------------------------------------------------------

  const files_of = question_asked => question_asked.config ? {[question.CONFIG]: question_asked.config.text} : {};

  /// {options, words, files, notes, prediction or fit or sentence, page, scenario, code}
  async function predict(now, second, signal) {
    const options = question.options(now, second), words = question.words(options), files = files_of(now);
    const side = {second, options, files, fit: null, prediction: null, sentence: ''};
    const run = argv => engine.run(argv, {files, signal, progress: text => { at('progress').textContent = text; }});
    const timeline = now.compare ? [`--timeline=${second ? 'b' : 'a'}.json`] : [];
    const done = await run(['simulate', ...words, '--json', '--html=page.html', '--scenario-out=question.toml', ...timeline]);
    Object.assign(side, {code: done.code, notes: notes(done.err), wrote: done.files, scenario: done.files['question.toml'], seconds: done.seconds});
    if (done.code === FITS) side.prediction = JSON.parse(done.out);
    const system_adds = now.policy && now.policy !== 'penstock';
    if (done.code === DOES_NOT_FIT || (done.code === FITS && system_adds)) {
      const fit = await run(['fit', ...words, '--json']);
      if (fit.out) side.fit = JSON.parse(fit.out);
      side.sentence = sentence(fit.err);
    }
    if (done.code !== FITS && !side.sentence) side.sentence = sentence(done.err);
    side.machine = (side.prediction || side.fit || {}).machine;
    return side;
  }

  async function ask() {
    clearTimeout(timer);
    running?.abort();
    running = new AbortController();
    const signal = running.signal, now = asked = question.read();
    at('second').hidden = !now.compare;
    root.classList.toggle('two', now.compare);
    say('Asking the simulator …', 'asking');
    further('');
    try {
      const sides = await Promise.all((now.compare ? [false, true] : [false]).map(second => predict(now, second, signal)));
      clear_errors();
      const bad = sides.filter(side => side.code !== FITS && side.code !== DOES_NOT_FIT);
      for (const side of bad) refuse(side.sentence, side.second);
      if (bad.some(side => !side.second)) {
        at('answer').replaceChildren();
        say('The question cannot be answered as it stands; what would be right is said beside the field.',
            bad[0].code === BAD_INPUT ? 'refused' : 'failed');
        return;
      }
      const pair = sides.length === 2 && sides.every(side => side.prediction) ? await compare(sides, signal) : null;
      draw(now, sides, pair);
      await look_further(sides[0], signal);
    } catch (error) {
      if (error instanceof Stopped) return;
      at('general-error').textContent = `The simulator failed: ${error.message}`;
      say('There is no answer.', 'failed');
      further('');
    }
  }

  async function compare(sides, signal) {
    const files = {};
    for (const side of sides)
      for (const [name, text] of Object.entries(side.wrote))
        if (name.endsWith('.json')) files[name] = text;
    const done = await engine.run(['compare', 'a.json', 'b.json', '--json', '--html=pair.html'], {files, signal});
    if (done.code !== FITS) throw new Error(sentence(done.err));
    return done.files['pair.html'];
  }

  function take(key, value) {
    if (key === 'machine.dram')
      at('ram').value = value;
    else if (key === 'model.layers' || key.startsWith('machine.') || key.startsWith('workload.') || key.startsWith('policy.') || key.startsWith('model.')) {
      const others = at('set').value.split(';').filter(part => part.trim() && !part.trim().startsWith(key + '='));
      at('set').value = [...others, `${key}=${value}`].join('; ');
      at('more').open = true;
    }
    changed('take');
    at('status').scrollIntoView({block: 'nearest'});
  }

  // --- drawing -----------------------------------------------------------------------------------------------------------

  function draw(now, sides, pair) {
    const [a] = sides, parts = [];
    const {prediction, fit} = a;
    if (a.notes.length) parts.push(...a.notes.map(note => answer.paragraph(note[0].toUpperCase() + note.slice(1) + '.', 'soft')));
    if (prediction) parts.unshift(answer.tiles(prediction));
    if (sides.length === 2) {
      parts.push(answer.both(sides));
      if (sides[1].sentence) parts.push(answer.paragraph('B: ' + sides[1].sentence, 'warning'));
    }
    const head = prediction && !a.sentence ? answer.paragraph(`It fits ${a.machine}.`, 'verdict') :
                                             answer.paragraph(a.sentence, 'warning verdict');
    parts.push(answer.section('fit', sides.length === 2 ? 'Does it fit A?' : 'Does it fit?', head, ...answer.fit_tables((prediction || fit).memory),
                              ...answer.remedies(fit?.would_fit || [], take)));
    if (prediction)
      parts.push(answer.speed(prediction), answer.money(prediction), answer.stalls(prediction), answer.binds(prediction));
    parts.push(answer.section('next', 'What the next euro buys'));
    const drawn = pair || a.wrote['page.html'];
    if (prediction) parts.push(answer.timeline(drawn));
    parts.push(answer.reproduce([
      ['The command', question.shell(prediction ? 'simulate' : 'fit', a.options)],
      ['The command for B', sides[1] && question.shell('simulate', sides[1].options)],
      ['The scenario, which gives the same answer as a file', a.scenario], ['The address of this question', location.href],
      ['The config.json', now.config?.text]
    ]));
    at('answer').replaceChildren(...parts);
    document.querySelectorAll('#answer .timeline').forEach(page.widgets.timeline);
    say((prediction ? `It fits. A step takes ${page.seconds(prediction.step_seconds)}: ${answer.per_second(prediction.tokens_per_second)}.` :
                      'It does not fit.') + ` Answered in ${a.seconds.toFixed(1)} s.`, 'answered');
  }

  /// What takes longer, in the background.
  async function look_further(side, signal) {
    if (!side.scenario) return;
    const files = {...side.files, 'question.toml': side.scenario};
    const progress = what => text => further(`${what}: ${text}`);
    further('Looking for what the next euro buys …');
    const shop = engine.run(['shop', '--own=question.toml', '--json'], {files, signal, progress: progress('What the next euro buys')});
    const search = side.prediction ?
        engine.run(['search', 'question.toml', '--no-front', '--json'], {files, signal, progress: progress('What binds')}) :
        null;
    const put = (id, done, make) => {
      const content = done.out ? make(JSON.parse(done.out)) : answer.paragraph(sentence(done.err));
      at(id).append(...[content].flat());
    };
    await Promise.all([
      shop.then(done => put('next', done, answer.upgrades)),
      search?.then(done => put('faster', done, found => answer.faster(found, side.prediction)))
    ]);
    further('');
  }

  // --- the fields --------------------------------------------------------------------------------------------------------

  /// The question has changed: the address says so, and the answer follows after a pause. What is typed into one field
  /// without a break is one entry of the browser's history.
  function changed(field) {
    const address = question.address(question.read());
    if (address !== location.hash) {
      if (editing === field)
        history.replaceState(null, '', address);
      else
        history.pushState(null, '', address);
      editing = field;
    }
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  }

  function from_address() {
    editing = null;
    question.write(question.from_address(location.hash));
    show_config();
    ask();
  }

  function show_config() {
    const config = question.config;
    at('model-hint').textContent = config && at('model').value === question.CONFIG ?
        `${config.name.slice(0, 60)}, ${config.text.length.toLocaleString('en-US')} characters` + (config.text.length > 24 * 1024 ? '; too long for the address' : '') :
        'A name of the catalogue, or drop a model’s config.json anywhere on this page.';
  }

  async function take_file(file) {
    if (!file) return;
    if (file.size > MOST_CONFIG_BYTES) {
      refuse(`config.json: ${file.size.toLocaleString('en-US')} bytes, and such a file has a few thousand; was another file meant?`, false);
      return;
    }
    question.config = {name: file.name, text: await file.text()};
    at('model').value = question.CONFIG;
    show_config();
    changed('file');
    editing = null;
  }

  at('question').addEventListener('input', event => {
    if (event.target === at('file')) return;
    if (event.target === at('model')) show_config();
    if (event.target === at('compare') && at('compare').checked && !at('gpu2').value) {
      at('gpu2').value = at('gpu').value;
      at('host2').value = at('host').value;
      at('ram2').value = at('ram').value;
      at('drive2').value = at('drive').value;
    }
    changed(event.target.id);
  });
  at('question').addEventListener('focusout', () => { editing = null; });
  at('question').addEventListener('submit', event => {  // Enter
    event.preventDefault();
    ask();
  });
  at('stop').addEventListener('click', () => {
    running?.abort();
    further('');
    say('Stopped. Any change asks again.', root.dataset.state === 'asking' ? 'refused' : root.dataset.state);
  });
  at('browse').addEventListener('click', () => at('file').click());
  at('file').addEventListener('change', () => {
    take_file(at('file').files[0]);
    at('file').value = '';
  });
  window.addEventListener('dragover', event => {
    event.preventDefault();
    root.classList.add('dropping');
  });
  window.addEventListener('dragleave', event => { if (!event.relatedTarget) root.classList.remove('dropping'); });
  window.addEventListener('drop', event => {
    event.preventDefault();
    root.classList.remove('dropping');
    take_file(event.dataTransfer.files[0]);
  });
  window.addEventListener('popstate', from_address);

  // --- the catalogue -----------------------------------------------------------------------------------------------------

  async function offer(what, id, text = entry => entry.name) {
    const done = await engine.run(['list', what, '--json']);
    at(id).append(...JSON.parse(done.out)[what].map(entry => page.element('option', {value: entry.name, textContent: text(entry)})));
  }
  async function start() {
    const built = penstock_program.built;
    at('built').textContent = `As built on ${built.date}: Penstock ${built.version}, ${built.commit}; catalogue of ${built.catalogue}.`;
    page.start();  // of the widgets, which come with the answers
    from_address();
    const gb = bytes => `${Math.round(bytes / 2 ** 30)} GiB`;
    await offer('models', 'models', entry => `${(entry.parameters / 1e9).toFixed(1)} billion parameters`);
    await offer('cards', 'cards', entry => `${entry.gpu}, ${gb(entry.hbm_bytes)}`);
    await offer('hosts', 'hosts', entry => `${entry.cores} cores, ${gb(entry.dram_bytes)}`);
    await offer('presets', 'policy', entry => `${entry.name}: ${entry.summary}`);
    at('policy').value = asked.policy || '';
    root.dataset.catalogue = 'offered';
  }
  start();
}
