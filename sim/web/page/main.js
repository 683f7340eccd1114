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
  let typed = null;     // {field, address} of a change that the history has not yet
  let drawn = null;     // the timeline that stands in the answer: {data, section}
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
  /// Beside the field `key`, or above the answer where it is about none alone.
  function put_error(key, text) {
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

  /// There is no answer, and none of another question stays in its place.
  function no_answer(text, state) {
    at('answer').replaceChildren();
    further('');
    say(text, state);
  }
  const not_answered = state =>
      no_answer('The question cannot be answered as it stands; what would be right is said beside the field.', state);

  async function ask() {
    clearTimeout(timer);
    remember();
    running?.abort();
    running = new AbortController();
    const signal = running.signal, now = asked = question.read(), began = performance.now();
    at('second').hidden = !now.compare;
    root.classList.toggle('two', now.compare);
    say('Asking the simulator …' + (at('answer').firstChild ? ' Below stands the answer to the question before.' : ''), 'asking');
    further('');
    try {
      const long = question.too_long(now);
      if (long) {
        clear_errors();
        put_error(long.key, long.sentence);
        not_answered('refused');
        return;
      }
      const sides = await Promise.all((now.compare ? [false, true] : [false]).map(second => predict(now, second, signal)));
      clear_errors();
      const bad = sides.filter(side => side.code !== FITS && side.code !== DOES_NOT_FIT);
      for (const side of bad) put_error(question.field_of(side.sentence, side.second), side.sentence);
      if (bad.some(side => !side.second)) {
        not_answered(bad[0].code === BAD_INPUT ? 'refused' : 'failed');
        return;
      }
      const pair = sides.length === 2 && sides.every(side => side.prediction) ? await compare(sides, signal) : null;
      draw(now, sides, pair, (performance.now() - began) / 1000);
      await look_further(sides[0], signal);
    } catch (error) {
      if (error instanceof Stopped) return;
      clear_errors();
      put_error(null, `The simulator failed: ${error.message}`);
      no_answer('There is no answer.', 'failed');
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

  /// Puts a key of a scenario into the question: into its own field, or among the other keys.
  function take(key, value) {
    const own = {'machine.dram': 'ram', 'machine.nvme': 'drive', 'workload.sequence_length': 'context'}[key];
    const others = at('set').value.split(';').map(part => part.trim()).filter(part => part && part.split('=')[0].trim() !== key);
    if (own) at(own).value = value;
    at('set').value = (own ? others : [...others, `${key}=${value}`]).join('; ');
    at('more').open ||= !own;
    changed('take');
    at('status').scrollIntoView({block: 'nearest'});
  }

  // --- drawing -----------------------------------------------------------------------------------------------------------

  function draw(now, sides, pair, seconds) {
    const [a] = sides, parts = [];
    const {prediction, fit} = a;
    if (a.notes.length) parts.push(...a.notes.map(note => answer.paragraph(note[0].toUpperCase() + note.slice(1) + '.', 'soft')));
    if (prediction) parts.unshift(answer.tiles(prediction));
    if (sides.length === 2) {
      parts.push(answer.both(sides));
      if (sides[1].sentence) parts.push(answer.paragraph('B: ' + sides[1].sentence, 'warning'));
    }
    const head = prediction && !a.sentence ? answer.verdict(a.machine, fit) : answer.paragraph(a.sentence, 'warning verdict');
    const {memory, nvme} = prediction || fit;
    parts.push(answer.section('fit', sides.length === 2 ? 'Does it fit A?' : 'Does it fit?', head, ...answer.fit_tables(memory),
                              ...answer.drive(nvme), ...answer.remedies(fit?.would_fit || [], take)));
    if (prediction)
      parts.push(answer.speed(prediction), answer.money(prediction), answer.stalls(prediction), answer.binds(prediction));
    parts.push(answer.section('next', 'What the next euro buys', answer.looking('next-found')));
    const timeline = prediction ? answer.timeline_data(pair || a.wrote['page.html']) : null;
    const as_before = drawn !== null && drawn.data === timeline;  // then it stays, with what was zoomed and chosen
    if (timeline !== null) {
      if (!as_before) drawn = {data: timeline, section: answer.timeline(timeline)};
      parts.push(drawn.section);
    }
    parts.push(answer.reproduce([
      ['The command', question.shell(prediction ? 'simulate' : 'fit', a.options)],
      ['The command for B', sides[1] && question.shell('simulate', sides[1].options)],
      ['The scenario, which gives the same answer as a file', a.scenario], ['The scenario for B', sides[1]?.scenario],
      ['The address of this question' + (question.address_has_config(now) ? '' : ', without its config.json, which is too long'), location.href],
      ['The config.json', now.config?.text]
    ]));
    at('answer').replaceChildren(...parts);
    if (timeline !== null && !as_before) page.widgets.timeline(drawn.section.querySelector('.timeline'));
    say((prediction ? `It fits. A step takes ${page.seconds(prediction.step_seconds)}: ${answer.per_second(prediction.tokens_per_second)}.` :
                      'It does not fit.') + ` Answered in ${seconds.toFixed(1)} s.`, 'answered');
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
    const put = async (id, run, make) => {
      let content;
      try {
        const done = await run;
        content = done.out ? make(JSON.parse(done.out)) : answer.paragraph(sentence(done.err));
      } catch (error) {
        content = answer.paragraph(error instanceof Stopped ? 'Stopped before it was found.' : `The simulator failed: ${error.message}`);
      }
      at(id)?.replaceChildren(...[content].flat());
    };
    await Promise.all([
      put('next-found', shop, answer.upgrades),
      ...(search ? [put('faster-found', search, found => answer.faster(found, side.prediction))] : [])
    ]);
    if (!signal.aborted) further('');
  }

  // --- the fields --------------------------------------------------------------------------------------------------------

  /// The question has changed: after a pause the address says so, and the answer follows. What is typed into one field
  /// without a break is one entry of the browser's history; browsers allow a few changes of it a second.
  function changed(field) {
    if (typed && typed.field !== field) remember();
    typed = {field, address: question.address(question.read())};
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  }
  function remember() {
    if (typed && typed.address !== location.hash) {
      if (editing === typed.field)
        history.replaceState(null, '', typed.address);
      else
        history.pushState(null, '', typed.address);
      editing = typed.field;
    }
    typed = null;
  }
  function end_entry() {
    remember();
    editing = null;
  }

  function from_address() {
    editing = typed = null;
    question.write(question.from_address(location.hash));
    show_config();
    ask();
  }

  function show_config() {
    const config = question.config;
    const room = question.address_has_config(question.read()) ? '' : '; too long for the address';
    at('model-hint').textContent = config && at('model').value === question.CONFIG ?
        `${config.name.slice(0, 60)}, ${config.text.length.toLocaleString('en-US')} characters${room}` :
        'A name of the catalogue, or drop a model’s config.json anywhere on this page.';
  }

  /// One file, or several of a model's folder with its config.json among them. What cannot be taken changes nothing.
  async function take_files(files) {
    const refuse = text => { at('model-error').textContent = text; };
    const file = files.length === 1 ? files[0] : files.find(each => each.name === 'config.json');
    if (!file) {
      if (files.length) refuse(`${files.length} files, and none of them is config.json; a model has one beside its weights`);
      return;
    }
    if (file.size > MOST_CONFIG_BYTES) {
      refuse(`config.json: ${file.size.toLocaleString('en-US')} bytes, and such a file has a few thousand; was another file meant?`);
      return;
    }
    let text;
    try {
      text = await file.text();
    } catch {  // a folder, or it is gone
      refuse(`${file.name.slice(0, 60)} cannot be read; drop the file config.json itself`);
      return;
    }
    question.config = {name: file.name, text};
    at('model').value = question.CONFIG;
    show_config();
    changed('file');
    end_entry();
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
  at('question').addEventListener('focusout', end_entry);
  at('question').addEventListener('keydown', event => {
    if (event.key === 'Enter' && event.target.matches('input:not([type=checkbox])')) ask();
  });
  at('question').addEventListener('submit', event => event.preventDefault());
  at('stop').addEventListener('click', () => {
    running?.abort();
    if (root.dataset.state === 'asking') {
      no_answer('Stopped. Any change asks again.', 'refused');
    } else {
      further('');
      say('Stopped. Any change asks again.', root.dataset.state);
    }
  });
  at('browse').addEventListener('click', () => at('file').click());
  at('file').addEventListener('change', () => {
    take_files([...at('file').files]);
    at('file').value = '';
  });
  const has_files = event => event.dataTransfer.types.includes('Files');  // words may be dropped into a field
  window.addEventListener('dragover', event => {
    if (!has_files(event)) return;
    event.preventDefault();
    root.classList.add('dropping');
  });
  window.addEventListener('dragleave', event => { if (!event.relatedTarget) root.classList.remove('dropping'); });
  window.addEventListener('drop', event => {
    if (!has_files(event)) return;
    event.preventDefault();
    root.classList.remove('dropping');
    take_files([...event.dataTransfer.files]);
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
    const gb = bytes => `${Math.round(bytes / 2 ** 30)} GiB`, billions = count => (count / 1e9).toFixed(1);
    try {
      await offer('models', 'models', entry => `${billions(entry.parameters)} billion parameters` +
          (entry.active_parameters ? `, ${billions(entry.active_parameters)} of them for a token` : ''));
      await offer('cards', 'cards', entry => `${entry.gpu}, ${gb(entry.hbm_bytes)}`);
      await offer('hosts', 'hosts', entry => `${entry.cores} cores, ${gb(entry.dram_bytes)}`);
      await offer('presets', 'policy', entry => `${entry.name}: ${entry.summary}`);
    } catch {  // the answer says why
      return;
    }
    at('policy').value = asked.policy || '';
    root.dataset.catalogue = 'offered';
  }
  start();
}
