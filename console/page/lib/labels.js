// @ts-check
// On narrow screens, the page shows rows of tables as blocks, with the text of the header before
// each cell. Style sheets can read these texts only from attributes of the cells.
const narrow = matchMedia('(max-width: 35em)');

/**
 * Labels the cells of the tables in a part of the page, now and when it changes.
 * @param {Element} root
 */
export function labelCells(root) {
  const label = () => {
    if (!narrow.matches) return;
    for (const table of root.querySelectorAll('table.plain')) {
      const heads = [...table.querySelectorAll('thead th')].map((th) => th.textContent ?? '');
      for (const row of table.querySelectorAll('tbody tr')) {
        [...row.children].forEach((cell, i) => {
          const text = row.children.length === heads.length ? heads[i] : '';
          if (cell.getAttribute('data-label') !== text) cell.setAttribute('data-label', text);
        });
      }
    }
  };
  label();
  narrow.addEventListener('change', label);
  new MutationObserver(label).observe(root, { childList: true, subtree: true });
}
