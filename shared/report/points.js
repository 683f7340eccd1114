// Points in a plane: fronts of step time against memory, machines by price. One tab stop; arrow keys go from point to
// point.
'use strict';
page.widgets.points = root => {
  const data = page.data(root);
  const space = page.element('template', {innerHTML: '<svg></svg>'}).content.firstChild.namespaceURI;
  const node = (tag, attributes, text) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const HEIGHT = 300, TOP = 30, BOTTOM = 44, RIGHT = 16;
  const COLORS = ['side0', 'optimizer', 'backward', 'loss', 'side1'];
  const all = data.series.flatMap((series, s) => series.points.map(point => ({...point, series: s})))
                  .sort((a, b) => a.x - b.x || a.y - b.y);
  const told = point => `${point.label}${point.label ? ': ' : ''}${page.format(data.y.unit, point.y)}` +
      (point.low === undefined ?
           '' :
           ` (${page.format(data.y.unit, point.low)} to ${page.format(data.y.unit, point.high)})`) +
      `, ${data.x.name} ${page.format(data.x.unit, point.x)}`;

  /// From the smallest to the largest with some room, from 0 where that is near.
  const scale = (values, axis) => {
    let low = Math.min(...values), high = Math.max(...values);
    const log = Boolean(axis.log) && low > 0;
    if (log) return {low: low / 1.25, high: high * 1.25, log};
    if (low > 0 && low < 0.6 * high) low = 0;
    const room = (high - low || Math.abs(high) || 1) * 0.08;
    return {low: low === 0 ? 0 : low - room, high: high + room, log};
  };
  const x = scale([...all.map(p => p.x), ...data.marks.map(mark => mark.x)], data.x);
  const y = scale(all.flatMap(p => [p.y, p.low ?? p.y, p.high ?? p.y]), data.y);
  const share = (range, value) => range.log ? Math.log(value / range.low) / Math.log(range.high / range.low) :
                                              (value - range.low) / (range.high - range.low);
  const ticks = (range, unit, most) => {
    const found = [];
    if (range.log) {
      for (let size = 10 ** Math.floor(Math.log10(range.low)); size <= range.high; size *= 10)
        for (const k of [1, 2, 5])
          if (size * k >= range.low && size * k <= range.high) found.push(size * k);
      return found.length > most ? found.filter((_, i) => i % Math.ceil(found.length / most) === 0) : found;
    }
    const step = (unit === 'bytes' ? page.byteTick : page.tick)(range.high - range.low, most);
    for (let k = Math.ceil(range.low / step); k * step <= range.high; ++k) found.push(k * step);
    return found;
  };

  /// Beside a tick: "32 GiB", not "32.00 GiB"; no unit that the axis' name has.
  const short = (unit, value) => unit === 'bytes' ? page.bytes(value).replace(/\.?0+ /, ' ') :
      unit === 'seconds'                          ? page.seconds(value) :
                                                    page.number(value);

  const svg = node('svg', {
    role: 'group',
    'aria-label': `${data.caption}: ${data.y.name} over ${data.x.name}; arrow keys go through the points`
  });
  const tip = page.element(
      'p', {className: 'soft tip', textContent: 'Point at a dot, or press Tab and the arrow keys, to read it.'});
  tip.setAttribute('aria-live', 'polite');
  const key = page.element('ul', {className: 'key'});
  if (data.series.length > 1)
    data.series.forEach(
        (series, s) => key.append(page.element(
            'li', {}, page.element('i', {style: `background:var(--${COLORS[s % COLORS.length]})`}), series.name)));
  root.append(page.element('p', {className: 'soft', textContent: data.caption}), key, svg, tip);
  let current = 0;

  function draw() {
    const width = Math.max(root.clientWidth, 200), left = width < 480 ? 62 : 76;
    const px = value => left + share(x, value) * (width - left - RIGHT);
    const py = value => HEIGHT - BOTTOM - share(y, value) * (HEIGHT - BOTTOM - TOP);
    const focused = svg.contains(document.activeElement);
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    svg.setAttribute('height', HEIGHT);
    for (const value of ticks(y, data.y.unit, 6)) {
      svg.append(
          node('line', {x1: left, x2: width - RIGHT, y1: py(value), y2: py(value), stroke: 'var(--line)'}),
          node('text', {x: left - 6, y: py(value) + 4, 'text-anchor': 'end'}, short(data.y.unit, value)));
    }
    let free = -Infinity;
    for (const value of ticks(x, data.x.unit, Math.max(2, width / 110))) {
      svg.append(node(
          'line', {x1: px(value), x2: px(value), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4, stroke: 'var(--soft)'}));
      const text = short(data.x.unit, value), half = text.length * 3.4;
      if (px(value) - half < free || px(value) + half > width) continue;
      svg.append(node('text', {x: px(value), y: HEIGHT - BOTTOM + 17, 'text-anchor': 'middle'}, text));
      free = px(value) + half + 8;
    }
    svg.append(
        node('text', {x: left, y: 16}, data.y.name),
        node(
            'text', {x: width - RIGHT, y: HEIGHT - 8, 'text-anchor': 'end'},
            data.x.name + (['bytes', 'seconds'].includes(data.x.unit) ? '' : ', ' + data.x.unit)));
    for (const mark of data.marks) {
      const near = px(mark.x) > width / 2;
      svg.append(
          node('line', {
            x1: px(mark.x),
            x2: px(mark.x),
            y1: TOP - 6,
            y2: HEIGHT - BOTTOM,
            stroke: 'var(--limit)',
            'stroke-dasharray': '5 4'
          }),
          node(
              'text', {
                x: px(mark.x) + (near ? -5 : 5),
                y: TOP + 4,
                'text-anchor': near ? 'end' : 'start',
                style: 'fill:var(--limit)'
              },
              mark.label));
    }
    data.series.forEach((series, s) => {
      if (!series.joined || series.points.length < 2) return;
      let path = '';
      for (const point of series.points)
        path += path ? `H${px(point.x)}V${py(point.y)}` : `M${px(point.x)},${py(point.y)}`;
      svg.append(node(
          'path',
          {d: path, fill: 'none', stroke: `var(--${COLORS[s % COLORS.length]})`, 'stroke-width': 1.5, opacity: 0.6}));
    });
    const labels = [];
    all.forEach((point, i) => {
      const at = [px(point.x), py(point.y)], color = `var(--${COLORS[point.series % COLORS.length]})`;
      if (point.low !== undefined)
        svg.append(node('line', {
          x1: at[0],
          x2: at[0],
          y1: py(point.low),
          y2: py(point.high),
          stroke: color,
          opacity: 0.55,
          'stroke-width': 2
        }));
      const dot = node('circle', {
        cx: at[0],
        cy: at[1],
        r: point.chosen ? 7 : 4.5,
        fill: color,
        tabindex: i === current ? 0 : -1,
        role: 'img',
        'aria-label': told(point)
      });
      dot.addEventListener('focus', () => {
        current = i;
        tip.textContent = told(point);
      });
      dot.addEventListener('pointerenter', () => {
        tip.textContent = told(point);
      });
      svg.append(dot);
      if (!data.named || width < 480) return;
      const size = point.label.length * 6.6, toLeft = at[0] + 8 + size > width - RIGHT;
      const box = {x: toLeft ? at[0] - 8 - size : at[0] + 8, y: at[1] - 6, width: size};
      if (labels.some(
              other => Math.abs(other.y - box.y) < 13 && other.x < box.x + box.width && box.x < other.x + other.width))
        return;
      labels.push(box);
      svg.append(node('text', {x: box.x, y: at[1] + 4, class: 'label', 'aria-hidden': true}, point.label));
    });
    if (focused) svg.querySelectorAll('circle')[current]?.focus();
  }
  svg.addEventListener('keydown', event => {
    const to = {ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: all.length - 1}[event.key];
    if (to === undefined || to < 0 || to >= all.length) return;
    event.preventDefault();
    const dots = svg.querySelectorAll('circle');
    dots[current].setAttribute('tabindex', -1);
    dots[to].setAttribute('tabindex', 0);
    dots[to].focus();
  });
  page.redrawn(root, draw);
};
