// Lanes of one or several timelines over one axis of time, and beneath them the live bytes of each tier. Seconds count
// from the step boundary at which the timelines are aligned. timeline_view.h describes the data.
'use strict';
{
  const PHASES = ['forward', 'loss', 'backward', 'optimizer'];
  const TOP = 26, LANE_GAP = 9, TIER = 92, TIER_GAP = 26;

  /// The numbers of a base64 text: little-endian groups of seven bits; signed ones are zigzag.
  class Numbers {
    constructor(text) {
      this.bytes = atob(text);
      this.at = 0;
    }
    get more() { return this.at < this.bytes.length; }
    next() {
      let value = 0, scale = 1, byte;
      do {
        byte = this.bytes.charCodeAt(this.at++);
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte & 128);
      return value;
    }
    signed() {
      const value = this.next();
      return value % 2 ? -(value + 1) / 2 : value / 2;
    }
  }

  /// Ops by id: which kind (name with gaps, lane, phase) and the numbers in the gaps of its name.
  class Ops {
    constructor(data) {
      this.kinds = data.kinds;
      this.kind = [];
      this.numbers = [];
      const stream = new Numbers(data.ops);
      while (stream.more) {
        const kind = stream.next();
        this.kind.push(kind);
        this.numbers.push(Array.from({length: this.kinds[kind].gaps}, () => stream.next()));
      }
    }
    phase(op) { return this.kinds[this.kind[op]].phase; }
    name(op) {
      const numbers = this.numbers[op];
      let gap = 0;
      return this.kinds[this.kind[op]].name.replace(/\u0001/g, () => numbers[gap++]);
    }
  }

  /// The bars of one lane of one timeline, ascending.
  function bars_of(text, tick) {
    const stream = new Numbers(text), op = [], start = [], end = [], count = [];
    let id = 0, now = 0;
    while (stream.more) {
      id += stream.signed();
      now += stream.signed();
      op.push(id);
      start.push(now * tick);
      now += stream.next();
      end.push(now * tick);
      count.push(stream.next());
    }
    return {op, start: Float64Array.from(start), end: Float64Array.from(end), count};
  }

  function curve_of(text, tick) {
    const stream = new Numbers(text), at = [], bytes = [];
    let now = 0, live = 0;
    while (stream.more) {
      now += stream.signed();
      live += stream.signed();
      at.push(now * tick);
      bytes.push(live);
    }
    return {at: Float64Array.from(at), bytes};
  }

  /// The first of ascending values that is no less.
  function lower_bound(values, wanted) {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  const live_at = (curve, s) => curve.bytes[Math.max(0, lower_bound(curve.at, s + 1e-12) - 1)];

  page.widgets.timeline = root => {
    const data = page.data(root);
    const ops = data.schedules.map(schedule => new Ops(schedule));
    const several = data.sides.length > 1, ROW = several ? 18 : 22;
    const WHOLE = {from: -0.02 * data.end, to: 1.01 * data.end};
    let {from, to} = WHOLE, selected = null, width = 0, gutter = 0, thin = {drawn: 0, all: 0};

    // --- rows --------------------------------------------------------------------------------------------------------
    const rows = [], tiers = [];
    let y = TOP;
    const bands = data.lanes.map(lane => {
      const top = y;
      data.sides.forEach((side, s) => {
        const index = side.lanes.findIndex(each => each.name === lane);
        if (index < 0) return;
        rows.push({lane, side: s, y, first: y === top, bars: bars_of(side.lanes[index].bars, data.tick)});
        y += ROW;
      });
      y += LANE_GAP;
      return {top, bottom: y - LANE_GAP};
    });
    for (const name of data.tiers) {
      y += TIER_GAP;
      const curves = data.sides
                         .map((side, s) => {
                           const tier = side.memory.find(each => each.tier === name);
                           return tier && {...tier, side: s, curve: curve_of(tier.curve, data.tick)};
                         })
                         .filter(Boolean);
      const used = Math.max(1, ...curves.map(tier => Math.max(tier.arena, ...tier.curve.bytes)));
      // A capacity of which little is used would flatten the curve: then it stands above the scale, in words.
      const inside = curves.map(tier => tier.capacity).filter(capacity => capacity <= 4 * used);
      tiers.push({name, curves, y, scale: Math.max(1.1 * used, ...inside.map(capacity => 1.04 * capacity))});
      y += TIER;
    }
    const height = y + 10;

    // --- elements ----------------------------------------------------------------------------------------------------
    const button = (text, label, action) => {
      const made = page.element('button', {type: 'button', textContent: text, title: label, onclick: action});
      made.setAttribute('aria-label', label);
      return made;
    };
    const middle = () => (from + to) / 2;
    const bar = page.element(
        'div', {className: 'bar'}, button('+', 'Zoom in', () => zoom(middle(), 0.5)),
        button('\u2212', 'Zoom out', () => zoom(middle(), 2)), button('\u25c0', 'Earlier', () => pan(-0.25)),
        button('\u25b6', 'Later', () => pan(0.25)), button('all', 'Show everything', () => show(WHOLE.from, WHOLE.to)),
        button('\u2039 op', 'Previous op of the lane', () => step(-1)),
        button('op \u203a', 'Next op of the lane', () => step(1)));
    const key = page.element(
        'ul', {className: 'key'},
        ...PHASES.map(
            phase => page.element('li', {}, page.element('i', {style: `background:var(--${phase})`}), phase)));
    const canvas = page.element('canvas', {tabIndex: 0});
    canvas.setAttribute('role', 'application');
    canvas.setAttribute(
        'aria-label',
        'Timeline of ' + data.sides.map(side => side.title).join(' and ') +
            '. Left and right arrows pan, plus and minus zoom, 0 shows everything, up and down choose a lane, shift with left and right goes from op to op.');
    const view = page.element('div', {className: 'view'}, canvas);
    const tip = page.element('p', {className: 'tip'}), said = page.element('span'), hovered = page.element('span');
    said.setAttribute('aria-live', 'polite');
    hovered.setAttribute('aria-hidden', 'true');
    tip.append(said, hovered);
    const left_out = page.element('p', {className: 'soft left-out'});
    root.append(bar, key, view, tip, left_out);

    const swatch = s => page.element('i', {style: `background:var(--side${s})`});
    for (const row of rows) {
      row.name = page.element(
          'div', {className: 'name'}, ...(row.first ? [page.element('b', {textContent: row.lane})] : []),
          ...(several ?
                  [page.element(
                      'span', {className: 'side', textContent: (row.first ? ' ' : '') + data.sides[row.side].label})] :
                  []));
      row.name.title = row.name.textContent;
      row.name.style.top = row.y + (ROW - 16) / 2 + 'px';
      view.append(row.name);
    }
    for (const tier of tiers) {
      const lines = [page.element('b', {textContent: tier.name})];
      for (const one of tier.curves) {
        const peak = page.element('span', {className: 'peak', textContent: page.bytes(Math.max(...one.curve.bytes))});
        peak.dataset.tier = tier.name;
        peak.dataset.side = data.sides[one.side].label;
        lines.push(page.element('div', {}, ...(several ? [swatch(one.side)] : []), 'peak ', peak));
      }
      const label = page.element('div', {className: 'name'}, ...lines);
      label.style.top = tier.y + 'px';
      view.append(label);
    }
    view.style.height = height + 'px';

    // --- drawing -----------------------------------------------------------------------------------------------------
    const g = canvas.getContext('2d');
    const at = s => (s - from) / (to - from) * width;
    const second = x => from + x / width * (to - from);
    let colors = {};

    function axis() {
      const tick = page.tick(to - from, Math.max(2, width / 110));
      for (let k = Math.ceil(from / tick); k * tick < to; ++k) {
        const x = at(k * tick);
        g.fillStyle = colors.line;
        g.fillRect(x, TOP - 6, 1, height);
        g.fillStyle = colors.soft;
        g.textAlign = 'left';
        g.fillText(page.seconds(k * tick), x + 3, 11);
      }
    }

    /// Bars of at least a pixel and a half one by one; narrower ones as the share of each pixel in which the lane was busy.
    function draw_row(row) {
      const bars = row.bars, busy = new Float32Array(4 * (Math.ceil(width) + 1));
      const side = data.sides[row.side], names = ops[side.schedule];
      const edge = row.side > 0 ? 3 : 1;  // a second timeline's bars are lower
      for (let i = lower_bound(bars.end, from); i < bars.op.length && bars.start[i] < to; ++i) {
        const x = at(bars.start[i]), x2 = at(bars.end[i]), phase = names.phase(bars.op[i]);
        thin.all += bars.count[i];
        if (x2 - x < 1.5) {
          for (let pixel = Math.max(0, Math.floor(x)); pixel <= Math.min(x2, width); ++pixel)
            busy[4 * pixel + phase] += Math.max(0.02, Math.min(x2, pixel + 1) - Math.max(x, pixel));
          continue;
        }
        thin.drawn += bars.count[i];
        g.fillStyle = colors[PHASES[phase]];
        g.fillRect(x, row.y + edge, Math.max(1, x2 - x - (x2 - x > 3 ? 1 : 0)), ROW - 2 * edge);
        if (x2 - x <= 44) continue;
        g.save();
        g.beginPath();
        g.rect(x, row.y, x2 - x - 3, ROW);
        g.clip();
        g.fillStyle = colors['on-bar'];
        g.fillText(names.name(bars.op[i]), Math.max(x, 0) + 4, row.y + ROW / 2 + 0.5);
        g.restore();
      }
      for (let pixel = 0; pixel <= width; ++pixel) {
        let all = 0, most = 0;
        for (let phase = 0; phase < 4; ++phase) {
          all += busy[4 * pixel + phase];
          if (busy[4 * pixel + phase] > busy[4 * pixel + most]) most = phase;
        }
        if (all === 0) continue;
        g.fillStyle = colors[PHASES[most]];
        g.globalAlpha = Math.min(1, Math.max(0.15, all));
        g.fillRect(pixel, row.y + edge, 1, ROW - 2 * edge);
      }
      g.globalAlpha = 1;
      g.fillStyle = colors.ink;
      for (const s of side.boundaries) g.fillRect(at(s) - 1, row.y, 1.5, ROW);
      if (selected && selected.row === row) {
        const i = selected.bar, x = at(bars.start[i]);
        g.strokeStyle = colors.ink;
        g.lineWidth = 2;
        g.strokeRect(x - 1, row.y, Math.max(3, at(bars.end[i]) - x + 1), ROW);
      }
    }

    function draw_tier(tier) {
      const bottom = tier.y + TIER, up = bytes => bottom - bytes / tier.scale * TIER;
      g.fillStyle = colors.line;
      g.fillRect(0, bottom, width, 1);
      for (const one of tier.curves) {
        const {curve} = one, stop = Math.min(to, data.sides[one.side].until), color = colors['side' + one.side];
        const begin = Math.max(from, curve.at[0]);
        if (begin >= stop) continue;
        let level = live_at(curve, begin);
        g.beginPath();
        g.moveTo(at(begin), up(level));
        for (let i = lower_bound(curve.at, begin); i < curve.at.length && curve.at[i] < stop; ++i) {
          g.lineTo(at(curve.at[i]), up(level));
          level = curve.bytes[i];
          g.lineTo(at(curve.at[i]), up(level));
        }
        g.lineTo(at(stop), up(level));
        g.strokeStyle = color;
        g.lineWidth = 1.4;
        g.stroke();
        if (one.side > 0) continue;
        g.lineTo(at(stop), bottom);
        g.lineTo(at(begin), bottom);
        g.fillStyle = color;
        g.globalAlpha = 0.14;
        g.fill();
        g.globalAlpha = 1;
      }
      limits(tier, up);
    }

    /// Lines for what the arenas take and for what they may take, and above all of them their names.
    function limits(tier, up) {
      const names = [];
      const line = (bytes, text, color, dash, align) => {
        const beyond = bytes > tier.scale;
        const level = beyond ? tier.y - 4 : up(bytes);
        if (!beyond) {
          g.strokeStyle = color;
          g.lineWidth = 1.2;
          g.setLineDash(dash);
          g.beginPath();
          g.moveTo(0, level);
          g.lineTo(width, level);
          g.stroke();
          g.setLineDash([]);
        }
        let text_y = Math.max(level - 8, tier.y - 13);
        while (names.some(other => other.align === align && Math.abs(other.y - text_y) < 12)) text_y += 13;
        names.push({text: text + (beyond ? ', above the scale' : ''), color, align, y: text_y});
      };
      const by_value = (field, what, color, dash, align) => {
        const values = [...new Set(tier.curves.map(one => one[field]))].sort((a, b) => b - a);
        for (const value of values) {
          const owners = tier.curves.filter(one => one[field] === value);
          const whose = values.length > 1 ? ' ' + owners.map(one => data.sides[one.side].label).join(', ') : '';
          line(value, `${what}${whose} ${page.bytes(value)}`, color, dash, align);
        }
      };
      by_value('capacity', 'capacity', colors.limit, [], 'right');
      by_value('arena', 'arena', colors.soft, [4, 3], 'left');
      g.strokeStyle = colors.card;
      g.lineWidth = 4;
      g.lineJoin = 'round';
      for (const name of names) {
        const x = name.align === 'right' ? width - 5 : 5;
        g.textAlign = name.align;
        g.fillStyle = name.color;
        g.strokeText(name.text, x, name.y);
        g.fillText(name.text, x, name.y);
      }
      g.textAlign = 'left';
    }

    function draw() {
      gutter = root.clientWidth < 640 ? 110 : 160;
      width = Math.max(50, view.clientWidth - gutter);
      const ratio = window.devicePixelRatio || 1;
      canvas.style.width = width + 'px';
      canvas.style.height = height + 'px';
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      view.querySelectorAll('.name').forEach(name => {
        name.style.width = gutter - 12 + 'px';
      });
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.font = '12px system-ui, sans-serif';
      g.textBaseline = 'middle';
      colors = Object.fromEntries([
        'ink', 'card', 'soft', 'line', 'band', 'limit', 'side0', 'side1', 'on-bar', ...PHASES
      ].map(name => [name, page.color(name)]));
      g.fillStyle = colors.band;
      for (const band of bands) g.fillRect(0, band.top, width, band.bottom - band.top);
      axis();
      thin = {drawn: 0, all: 0};
      rows.forEach(draw_row);
      tiers.forEach(draw_tier);
      root.dataset.from = from;
      root.dataset.to = to;
      const narrow = thin.all - thin.drawn;
      left_out.textContent =
          (narrow > 0 ?
               `${page.number(narrow)} of the ${
                   page.number(
                       thin.all)} ops in view are narrower than a pixel: drawn as the share of time in which their lane is busy. ` :
               '') +
          data.left_out;
      rows.forEach(row => row.name.classList.toggle('current', selected !== null && selected.row === row));
    }
    let waiting = false;
    const redraw = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        draw();
      });
    };

    // --- moving ------------------------------------------------------------------------------------------------------
    function show(begin, end) {
      const most = WHOLE.to - WHOLE.from;
      const span = Math.min(Math.max(end - begin, Math.min(40 * data.tick, most)), most);
      if (span === most) {
        ({from, to} = WHOLE);
        redraw();
        return;
      }
      from = Math.min(Math.max((begin + end - span) / 2, WHOLE.from), WHOLE.to - span);
      to = from + span;
      redraw();
    }
    function zoom(s, factor) {
      const span = Math.min((to - from) * factor, WHOLE.to - WHOLE.from);
      const begin = s - (s - from) / (to - from) * span;
      show(begin, begin + span);
    }
    const pan = share => show(from + share * (to - from), to + share * (to - from));

    // --- which op ----------------------------------------------------------------------------------------------------
    function told(row, i) {
      const side = data.sides[row.side], {op, start, end, count} = row.bars, names = ops[side.schedule];
      const what = count[i] > 1 ? `${count[i]} short ops from ${names.name(op[i])} on` : names.name(op[i]);
      return `${what}: ${page.seconds(end[i] - start[i])} (${
                 ((end[i] - start[i]) / side.step * 100).toFixed(2)} % of a step), from ${page.seconds(start[i])}; ` +
          `lane ${row.lane}, ${PHASES[names.phase(op[i])]}${several ? ', ' + side.label : ''}`;
    }
    /// The bar at a place, or one within three pixels of it.
    function bar_at(row, x) {
      const {start, end, op} = row.bars, s = second(x), room = 3 / width * (to - from);
      let best = -1, distance = room;
      for (let i = Math.max(0, lower_bound(end, s - room)); i < op.length && start[i] <= s + room; ++i) {
        const off = s < start[i] ? start[i] - s : s > end[i] ? s - end[i] : -1;
        if (off < distance) {
          best = i;
          distance = off;
        }
        if (off < 0) break;
      }
      return best;
    }
    function select(row, i) {
      selected = {row, bar: i};
      hovered.textContent = '';
      said.textContent = told(row, i);
      const {start, end} = row.bars, span = to - from;
      if (start[i] >= to || end[i] <= from)
        show(start[i] - span / 4, start[i] + 3 * span / 4);
      else
        redraw();
    }
    const nearest = row => {
      const s = selected ? selected.row.bars.start[selected.bar] : middle();
      return Math.min(lower_bound(row.bars.end, s + data.tick / 2), row.bars.op.length - 1);
    };
    /// Another row, or another op of the same one.
    function step(by) {
      const filled = rows.filter(row => row.bars.op.length > 0);
      if (filled.length === 0) return;
      if (!selected) {
        const row = filled.find(each => each.lane === 'compute') || filled[0];
        select(row, nearest(row));
        return;
      }
      const i = selected.bar + by;
      if (i >= 0 && i < selected.row.bars.op.length) select(selected.row, i);
    }
    function change_row(by) {
      const filled = rows.filter(row => row.bars.op.length > 0);
      if (!selected) {
        step(0);
        return;
      }
      const row = filled[filled.indexOf(selected.row) + by];
      if (row) select(row, nearest(row));
    }
    function point(event, chosen) {
      const row = rows.find(each => event.offsetY >= each.y && event.offsetY < each.y + ROW);
      const i = row ? bar_at(row, event.offsetX) : -1;
      if (i >= 0) {
        if (chosen) {
          select(row, i);
          return;
        }
        hovered.textContent = told(row, i);
      } else {
        const tier = tiers.find(each => event.offsetY >= each.y - 8 && event.offsetY <= each.y + TIER);
        const s = second(event.offsetX);
        hovered.textContent = tier ? `${tier.name} at ${page.seconds(s)}: ` +
                tier.curves
                    .map(one => page.bytes(live_at(one.curve, s)) + (several ? ' ' + data.sides[one.side].label : ''))
                    .join(', ') +
                ' live' :
                                     '';
        if (chosen) {
          selected = null;
          said.textContent = hovered.textContent;
          hovered.textContent = '';
          redraw();
          return;
        }
      }
      said.textContent = hovered.textContent === '' && selected ? told(selected.row, selected.bar) : '';
    }

    // --- keyboard, mouse, fingers ------------------------------------------------------------------------------------
    canvas.addEventListener('keydown', event => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const actions = {
        ArrowLeft: () => event.shiftKey ? step(-1) : pan(-0.15),
        ArrowRight: () => event.shiftKey ? step(1) : pan(0.15),
        ArrowUp: () => change_row(-1),
        ArrowDown: () => change_row(1),
        '+': () => zoom(focus(), 0.5),
        '=': () => zoom(focus(), 0.5),
        '-': () => zoom(focus(), 2),
        '_': () => zoom(focus(), 2),
        '0': () => show(WHOLE.from, WHOLE.to),
        Home: () => show(WHOLE.from, WHOLE.from + to - from),
        End: () => show(WHOLE.to - to + from, WHOLE.to),
        Enter: () => step(0),
        Escape: () => {
          selected = null;
          said.textContent = '';
          redraw();
        },
      };
      const action = actions[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    });
    /// Where the keyboard zooms: at the selected op if it is in view.
    const focus = () => {
      const s = selected ? selected.row.bars.start[selected.bar] : NaN;
      return s >= from && s <= to ? s : middle();
    };
    canvas.addEventListener('wheel', event => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(second(event.offsetX), event.deltaY > 0 ? 1.25 : 0.8);
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        pan((event.deltaX || event.deltaY) / width);
      }  // else the page scrolls
    }, {passive: false});
    const pointers = new Map();
    let moved = false;
    canvas.addEventListener('pointerdown', event => {
      if (event.button !== 0) return;
      moved = pointers.size > 0;
      pointers.set(event.pointerId, event.offsetX);
      canvas.setPointerCapture(event.pointerId);
    });
    const spread = () => {
      const [a, b] = [...pointers.values()];
      return {size: Math.max(8, Math.abs(a - b)), middle: (a + b) / 2};
    };
    canvas.addEventListener('pointermove', event => {
      if (!pointers.has(event.pointerId)) {
        point(event, false);
        return;
      }
      const before = pointers.get(event.pointerId);
      if (pointers.size === 2) {
        const was = spread();
        pointers.set(event.pointerId, event.offsetX);
        const now = spread(), held = second(was.middle), span = (to - from) * was.size / now.size;
        const begin = held - now.middle / width * span;
        show(begin, begin + span);
        return;
      }
      if (!moved && Math.abs(event.offsetX - before) < 4) return;
      moved = true;
      pointers.set(event.pointerId, event.offsetX);
      pan((before - event.offsetX) / width);
    });
    canvas.addEventListener('pointerup', event => {
      if (pointers.delete(event.pointerId) && !moved) point(event, true);
    });
    canvas.addEventListener('pointercancel', event => {
      pointers.delete(event.pointerId);
    });
    canvas.addEventListener('pointerleave', () => {
      hovered.textContent = '';
      if (selected) said.textContent = told(selected.row, selected.bar);
    });
    canvas.addEventListener('dblclick', () => show(WHOLE.from, WHOLE.to));
    page.redrawn(view, draw);
  };
}
