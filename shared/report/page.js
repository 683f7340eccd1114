// What the widgets of a page share. Everything that a page shows comes from the JSON beside each widget.
'use strict';
const page = {
  data: root => JSON.parse(document.getElementById(root.dataset.source).textContent),

  element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  },

  color: name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim(),

  /// As format_bytes and format_seconds of shared/units.h write them.
  bytes(value) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit + 1 < units.length) {
      value /= 1024;
      ++unit;
    }
    return (unit ? value.toFixed(2) : value.toFixed(0)) + ' ' + units[unit];
  },
  seconds(value) {
    const size = Math.abs(value);
    const digits = scaled => String(Number(scaled.toPrecision(4)));
    if (size < 1e-12) return '0 s';
    return size >= 1 ? digits(value) + ' s' : size >= 1e-3 ? digits(value * 1e3) + ' ms' : digits(value * 1e6) + ' us';
  },
  number: value =>
      Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(4))),
  format(unit, value) {
    if (unit === 'seconds') return page.seconds(value);
    if (unit === 'bytes') return page.bytes(value);
    return page.number(value) + (unit ? ' ' + unit : '');
  },

  /// 1, 2 or 5 times a power of ten, so that a span has at most `most` of them.
  tick(span, most) {
    const step = 10 ** Math.floor(Math.log10(span / most));
    return [1, 2, 5, 10].map(k => k * step).find(size => span / size <= most);
  },
  /// The same for bytes: a power of two.
  byteTick: (span, most) => 2 ** Math.ceil(Math.log2(span / most)),

  /// Draws now, and again when the size or the colours change; what has left the page is forgotten.
  redrawn(root, draw) {
    for (const each of page.drawn)
      if (!each.root.isConnected) page.drawn.delete(each);
    page.drawn.add({root, draw});
    new ResizeObserver(draw).observe(root);
    draw();
  },
  drawn: new Set(),

  widgets: {},
  start() {
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => page.drawn.forEach(each => each.draw()));
    for (const [name, make] of Object.entries(page.widgets))
      document.querySelectorAll('.' + name).forEach(root => make(root));
  },
};
