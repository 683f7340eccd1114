// Tables that sort: each head is a button. A cell's data-v is what it is ordered by, else its text; what has neither
// comes last, whatever the direction.
'use strict';
page.widgets.sortable = table => {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const original = [...body.rows];
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return null;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return heads[column].classList.contains('text') && text !== '' ? text : null;
  };
  const compare = (a, b) => typeof a === 'number' ? a - b : a.localeCompare(b, 'en', {numeric: true});
  heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {
    const before = head.getAttribute('aria-sort');
    heads.forEach(other => other.removeAttribute('aria-sort'));
    const rows = [...original];
    if (before !== 'descending') {  // ascending, descending, as it was
      const sign = before === 'ascending' ? -1 : 1;
      head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
      rows.sort((a, b) => {
        const one = key(a, column), other = key(b, column);
        return one === null || other === null ? (one === null) - (other === null) : sign * compare(one, other);
      });
    }
    body.append(...rows);
  }));
};
