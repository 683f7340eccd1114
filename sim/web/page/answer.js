// The answer, drawn from the JSON of the commands. Whatever comes from there is text; no figure is made here but shares and
// differences of two that stand there.
'use strict';
{
  const TIERS = {hbm: 'GPU memory (HBM)', dram: 'host memory (DRAM)', nvme: 'drive (NVMe)'};
  const CAUSES = {
    'weights': 'an upload of weights was running',
    'buffer': 'an eviction had not freed the buffer',
    'gradient slab': 'a gradient had not left',
    'optimizer': 'the optimizer had not finished the layer',
    'activation': 'a kept activation was not back',
    'nvme': 'the drive was busy',
    'launch': 'the op was not enqueued yet',
    'input': 'the tokens were not there',
    'overhead': 'nothing of the schedule ran',
  };

  const element = page.element;
  const count = value => Math.round(value).toLocaleString('en-US');
  const percent = share => (100 * share).toFixed(Math.abs(share) < 0.0995 ? 2 : 1) + ' %';
  const signed = share => (share >= 0 ? '+' : '\u2212') + percent(Math.abs(share));
  const euros = value => value.toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2}) + ' EUR';
  const hours = value => (value < 100 ? String(Number(value.toPrecision(3))) : count(value)) + ' h' +
      (value >= 48 ? ` (${String(Number((value / 24).toPrecision(3)))} days)` : '');
  const range = (format, [low, high]) => `${format(low)} to ${format(high)}`;
  const per_second = value => count(value) + ' tokens/s';

  const paragraph = (text, className = '') => element('p', {className, textContent: text});

  /// A length beside a figure, which says the same.
  function meter(share, over = false) {
    const bar = element('i', over ? {className: 'over'} : {});
    bar.style.width = Math.min(100, 100 * share) + '%';
    const whole = element('div', {className: 'meter'}, ...(share > 0 ? [bar] : []));
    whole.setAttribute('aria-hidden', 'true');
    return whole;
  }

  /// Rows of strings, nodes, or null for an empty cell. A head that begins with "<" is of a column of text, one that is
  /// empty of meters.
  function table(caption, heads, rows) {
    const made = element('table', {}, element('caption', {className: 'unseen', textContent: caption}));
    const kinds = heads.map(head => head === '' ? 'meters' : head.startsWith('<') ? 'text' : '');
    const top = element('tr');
    heads.forEach((head, i) => {
      const cell = element(head === '' ? 'td' : 'th', {className: kinds[i], textContent: head.replace(/^</, '')});
      if (head !== '') cell.scope = 'col';
      top.append(cell);
    });
    const body = element('tbody');
    for (const row of rows) {
      const line = element('tr');
      row.forEach((cell, i) => {
        const long = kinds[i] === 'text' && String(cell).length > 40 ? ' long' : '';
        const made_cell = element(i === 0 ? 'th' : 'td', {className: kinds[i] + long});
        if (i === 0) made_cell.scope = 'row';
        if (cell !== null) made_cell.append(cell);
        line.append(made_cell);
      });
      body.append(line);
    }
    made.append(element('thead', {}, top), body);
    const scroll = element('div', {className: 'scroll', tabIndex: 0}, made);
    scroll.setAttribute('role', 'region');
    scroll.setAttribute('aria-label', caption);
    return scroll;
  }

  /// Where a result of a longer search comes in.
  const looking = id => element('div', {id}, paragraph('Looking …', 'soft'));

  function section(id, title, ...content) {
    const heading = element('h2', {id: id + '-title', textContent: title});
    const made = element('section', {id}, heading, ...content);
    made.setAttribute('aria-labelledby', heading.id);
    return made;
  }

  const sources = bill => ['rented', 'bought'].filter(way => bill[way]);
  const star = priced => priced.assumed ? '*' : '';

  // --- whether it fits ---------------------------------------------------------------------------------------------------

  function fit_tables(memory) {
    const usable = tier => tier.capacity_bytes - tier.kept_bytes;
    const name = tier => TIERS[tier.tier] + (tier.device ? ' ' + tier.device : '');
    const tiers = memory.map(tier => [
      name(tier), page.bytes(tier.arena_bytes), page.bytes(usable(tier)), page.bytes(tier.capacity_bytes),
      tier.headroom_bytes >= 0 ? page.bytes(tier.headroom_bytes) + ' left' :
                                 page.bytes(-tier.headroom_bytes) + ' too little',
      meter(tier.arena_bytes / Math.max(1, usable(tier)), tier.headroom_bytes < 0)
    ]);
    const phases = [...new Set(memory.flatMap(tier => Object.keys(tier.phase_bytes)))];
    const by_phase = phases.map(phase => [phase, ...memory.flatMap(tier => {
      const bytes = tier.phase_bytes[phase] || 0;
      return [
        page.bytes(bytes) + (phase === tier.peak_phase ? ' \u25c0 most' : ''),
        meter(bytes / Math.max(1, usable(tier)), bytes > usable(tier))
      ];
    })]);
    const contents = [...new Set(memory.flatMap(tier => Object.keys(tier.content_bytes)))];
    const by_content =
        contents.map(what => [what, ...memory.map(tier => page.bytes(tier.content_bytes[what] || 0))]);
    return [
      table('Tier by tier', ['<tier', 'needs', 'has for it', 'of', 'headroom', ''], tiers),
      element('h3', {textContent: 'Live bytes, phase by phase'}),
      table('Live bytes, phase by phase', ['<phase', ...memory.flatMap(tier => [name(tier), ''])], by_phase),
      element('h3', {textContent: 'What is in it'}),
      table('What is in it', ['<what', ...memory.map(name)], by_content),
    ];
  }

  /// That it fits, and what of the system of a preset is counted there, as the terminal says it.
  function verdict(machine, fit) {
    const system = fit?.system_left_out ? ` What the preset's system adds is not counted: ${fit.system_left_out}.` : '';
    return paragraph(`It fits ${machine}${fit?.system ? `, with what ${fit.system.name} adds too` : ''}.${system}`, 'verdict');
  }

  /// What a plan does with the drive; nothing of one that leaves it alone.
  function drive(use) {
    if (!use) return [];
    const terabytes = value => Number((value / 1e12).toPrecision(3)).toLocaleString('en-US') + ' TB';
    const day = use.written_bytes_per_day ? `: ${terabytes(use.written_bytes_per_day)} a day` : '';
    const days = use.endurance_days ?
        `, ${Number(use.endurance_days.toPrecision(3)).toLocaleString('en-US')} days until the rated ${terabytes(use.endurance_bytes)}` :
        '';
    return [paragraph(`The drive keeps ${use.kept}; a step reads ${page.bytes(use.read_bytes_per_step)} and writes ${
        page.bytes(use.written_bytes_per_step)}${day}${days}.`)];
  }

  /// `would_fit`: single changes that make it fit. `take(key, value)` puts one into the question.
  function remedies(list, take) {
    if (list.length === 0) return [];
    const rows = list.map(one => {
      const button = element('button', {type: 'button', textContent: 'ask that'});
      button.setAttribute('aria-label', `ask that: ${one.key} = ${one.value}`);
      button.addEventListener('click', () => take(one.key, one.value.replace(/^"(.*)"$/, '$1')));
      return [
        `${one.key} = ${one.value}`, button, one.cost, one.tokens_per_second ? per_second(one.tokens_per_second) : ''
      ];
    });
    return [
      element('h3', {textContent: 'One change would make it fit'}),
      table('One change would make it fit', ['<change', '<', '<costs', 'then'], rows)
    ];
  }

  // --- how fast ----------------------------------------------------------------------------------------------------------

  function speed(prediction) {
    const step = prediction.step_seconds;
    return section(
        'speed', 'How fast',
        table('How fast', ['<figure', 'predicted', 'expected between'], [
          ['step', page.seconds(step), range(page.seconds, prediction.step_seconds_range)],
          ['first step', page.seconds(prediction.first_step_seconds), ''],
          [
            'throughput', per_second(prediction.tokens_per_second),
            range(per_second, prediction.tokens_per_second_range)
          ],
          ['tokens of a step', count(prediction.tokens_per_step), ''],
          ['model FLOPs', (prediction.model_flops_per_second / 1e12).toFixed(1) + ' TFLOP/s', ''],
          ['executed FLOPs', (prediction.executed_flops_per_second / 1e12).toFixed(1) + ' TFLOP/s', ''],
        ]),
        paragraph('Where the range is from: ' + prediction.range_source, 'source'),
        ...(prediction.planned ? [paragraph(prediction.planned, 'source')] : []));
  }

  function stalls(prediction) {
    const step = prediction.step_seconds;
    const rows = Object.entries(prediction.stall_seconds_by_cause)
                     .filter(([, seconds]) => seconds > 0)
                     .sort((a, b) => b[1] - a[1])
                     .map(([cause, seconds]) =>
                              [cause, page.seconds(seconds), percent(seconds / step), meter(seconds / step),
                               CAUSES[cause] || '']);
    const total = paragraph(`The GPU's compute waits ${page.seconds(prediction.stall_seconds)} of a step, ${
        percent(prediction.stall_seconds / step)}.`);
    return section('stalls', 'Stalls by cause', total,
                   ...(rows.length ? [table('Stalls by cause', ['<cause', 'a step', 'share', '', '<because'], rows)] : []));
  }

  function money(prediction) {
    const bill = prediction.cost;
    if (!bill)
      return section('money', 'Hours and cost', paragraph('Say under “Job” how many tokens are to be trained on, as 10B.'));
    const rows = [['time', hours(bill.hours), range(hours, bill.hours_range), `${count(bill.tokens)} tokens in ${count(bill.steps)} steps`]];
    for (const way of sources(bill)) {
      const priced = bill[way];
      rows.push([
        way, euros(priced.euros) + star(priced), range(euros, priced.euros_range),
        `${priced.euros_per_hour.toFixed(4)} EUR/h: ${priced.source}`
      ]);
    }
    return section('money', 'Hours and cost', table('Hours and cost', ['<', 'predicted', 'expected between', '<from'], rows));
  }

  // --- what binds, what next ---------------------------------------------------------------------------------------------

  function binds(prediction) {
    const step = prediction.step_seconds, bounds = prediction.bounds;
    const lanes = prediction.lanes.map(lane => {
      const critical = prediction.critical_path.find(part => part.lane === lane.lane);
      return [
        lane.lane, page.seconds(lane.busy_seconds), percent(lane.busy_seconds / step), meter(lane.busy_seconds / step),
        critical ? `${page.seconds(critical.seconds)} in ${count(critical.ops)} ops` : ''
      ];
    });
    return section(
        'binds', 'What binds',
        paragraph(`No schedule with the same traffic is faster than ${page.seconds(bounds.same_traffic_seconds)}, which ${
            bounds.binding} sets; the step is ${(step / bounds.same_traffic_seconds).toFixed(2)} times that. No schedule at all is faster than ${
            page.seconds(bounds.any_schedule_seconds)}; the step is ${(step / bounds.any_schedule_seconds).toFixed(2)} times that.`),
        table('Lanes', ['<lane', 'busy', 'of the step', '', 'of the critical path'], lanes), looking('faster-found'));
  }

  /// Of `search`: what more of each part gains, and whether a longer search finds a faster plan.
  function faster(found, prediction) {
    const rows = Object.entries(found.if_faster).map(([part, then]) => [
      part, page.seconds(then.step_seconds), signed(found.step_seconds / then.step_seconds - 1),
      meter(found.step_seconds / then.step_seconds - 1)
    ]);
    const gain = prediction.step_seconds / found.step_seconds - 1;
    return [
      paragraph(gain > 0.003 ? `A longer search finds ${per_second(found.tokens_per_second)}, ${signed(gain)}: ${found.choices}.` :
                               'A longer search finds nothing faster.'),
      element('h3', {textContent: 'With 10 % more of one part'}),
      table('With 10 % more of one part', ['<part', 'step', 'gain', ''], rows)
    ];
  }

  function upgrades(shop) {
    const rows = shop.upgrades.map(one => {
      const gain = one.gain_tokens_per_second;
      return [
        one.machine.split(' + ').pop().replaceAll('-', ' '), euros(one.euros) + (one.price_assumed ? '*' : ''),
        one.fits ? per_second(one.tokens_per_second) : '', one.fits ? '+' + count(gain) : '',
        one.fits && one.euros > 0 ? (1000 * gain / one.euros).toFixed(gain / one.euros < 0.1 ? 1 : 0) : '',
        one.fits ? `${one.price_source}, ${one.price_date}` : `does not fit: ${one.shortage}`
      ];
    });
    return table('What the next euro buys', ['<upgrade', 'costs', 'then', 'tokens/s more', 'per 1000 EUR', '<price or shortage'], rows);
  }

  // --- the timeline ------------------------------------------------------------------------------------------------------

  /// What is drawn in the timeline of a page that the program wrote, as text.
  function timeline_data(html) {
    const written = new DOMParser().parseFromString(html, 'text/html');
    return written.getElementById(written.querySelector('.timeline').dataset.source).textContent;
  }
  /// Where its script (report.js) draws it.
  function timeline(drawn) {
    const data = element('script', {type: 'application/json', id: 'timeline-data', textContent: drawn});
    const root = element('div', {className: 'timeline'});
    root.dataset.source = data.id;
    return section('time', 'Timeline',
                   paragraph('From the end of a step’s last backward op, where time is 0. Beneath the lanes the live bytes of each tier.'),
                   data, root);
  }

  // --- one machine and two -----------------------------------------------------------------------------------------------

  function tiles(prediction) {
    const bill = prediction.cost;
    const list = [
      ['does it fit?', 'yes'],
      ['step, ' + range(page.seconds, prediction.step_seconds_range), page.seconds(prediction.step_seconds)],
      ['tokens/s, ' + range(count, prediction.tokens_per_second_range), count(prediction.tokens_per_second)],
    ];
    if (bill) list.push(['training, ' + range(hours, bill.hours_range), hours(bill.hours)]);
    for (const way of bill ? sources(bill) : [])
      list.push([way + ', ' + range(euros, bill[way].euros_range), euros(bill[way].euros) + star(bill[way])]);
    return element('div', {className: 'tiles'},
                   ...list.map(([name, value]) => element('div', {}, element('b', {textContent: value}), name)));
  }

  function both(sides) {
    const figure = (name, value, format, better = 0) => {
      const [a, b] = sides.map(side => side.prediction ? value(side.prediction) : undefined);
      const known = a !== undefined && b !== undefined && a !== 0;
      return [
        name, ...[a, b].map(one => one === undefined ? '\u2013' : format(one)),
        known && typeof a === 'number' ? signed(b / a - 1) + (better && b !== a ? (b - a) * better > 0 ? ', B is better' : ', A is better' : '') : ''
      ];
    };
    const cost = way => prediction => prediction.cost?.[way]?.euros;
    const rows = [
      ['machine', ...sides.map(side => side.machine || '\u2013'), ''],
      ['fits', ...sides.map(side => side.prediction ? 'yes' : side.fit ? 'no' : '\u2013'), ''],
      figure('step', prediction => prediction.step_seconds, page.seconds, -1),
      figure('tokens/s', prediction => prediction.tokens_per_second, count, 1),
      figure('at least', prediction => prediction.tokens_per_second_range[0], count, 1),
      figure('at most', prediction => prediction.tokens_per_second_range[1], count, 1),
      figure('stalls of the step', prediction => prediction.stall_seconds / prediction.step_seconds, percent),
      figure('bound by', prediction => prediction.bounds.binding, String),
      figure('hours', prediction => prediction.cost?.hours, hours, -1),
      figure('rented', cost('rented'), euros, -1),
      figure('bought', cost('bought'), euros, -1),
    ];
    return section('both', 'Side by side', table('Side by side', ['<', 'A', 'B', 'B to A'], rows));
  }

  // --- to take along -----------------------------------------------------------------------------------------------------

  function copyable(title, text) {
    const shown = element('pre', {tabIndex: 0, textContent: text});
    shown.setAttribute('aria-label', title);
    const button = element('button', {type: 'button', textContent: 'Copy'});
    button.setAttribute('aria-label', 'Copy: ' + title);
    const said = element('span', {className: 'soft'});
    said.setAttribute('role', 'status');
    button.addEventListener('click', async () => {
      let done = true;
      try {
        await navigator.clipboard.writeText(text);
      } catch {  // not allowed, or an old browser
        getSelection().selectAllChildren(shown);
        done = document.execCommand('copy');
      }
      said.textContent = done ? 'copied' : 'select it and press Ctrl+C';
    });
    return [element('h3', {textContent: title}), element('p', {className: 'bar'}, button, said), shown];
  }

  function reproduce(lines) {
    return section('again', 'To take along',
                   ...lines.filter(([, text]) => text).flatMap(([title, text]) => copyable(title, text)));
  }

  window.answer =
      {verdict, fit_tables, drive, remedies, speed, stalls, money, binds, faster, upgrades, looking, timeline_data, timeline, tiles, both, reproduce, section, paragraph, per_second};
}
