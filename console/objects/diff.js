// @ts-check
// The differences between two texts.

/**
 * Compares two texts line by line. It returns the changed lines with three lines around them.
 * @param {string} from @param {string} to
 * @returns {{kind: string, mark: string, text: string}[]}
 */
export function diff(from, to) {
  const a = from.split('\n'), b = to.split('\n');
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let endA = a.length, endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) endA--, endB--;
  const n = endA - start, m = endB - start;
  /** @type {{kind: string, mark: string, text: string}[]} */
  const out = [];
  const put = (/** @type {string} */ mark, /** @type {string} */ text) => out.push({ kind: { '+': 'added', '-': 'removed', ' ': 'same' }[mark] ?? '', mark, text });
  for (let i = Math.max(0, start - 3); i < start; i++) put(' ', a[i]);
  if (n * m > 4e6) {
    // too large to align
    for (let i = start; i < endA; i++) put('-', a[i]);
    for (let j = start; j < endB; j++) put('+', b[j]);
  } else {
    // lengths of the longest common subsequences of the remaining lines
    const width = m + 1;
    const common = new Uint32Array((n + 1) * width);
    for (let i = n - 1; i >= 0; i--)
      for (let j = m - 1; j >= 0; j--)
        common[i * width + j] = a[start + i] === b[start + j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    let i = 0, j = 0;
    while (i < n || j < m) {
      if (i < n && j < m && a[start + i] === b[start + j]) put(' ', a[start + i++]), j++;
      else if (j < m && (i === n || common[i * width + j + 1] > common[(i + 1) * width + j])) put('+', b[start + j++]);
      else put('-', a[start + i++]);
    }
  }
  for (let i = endA; i < Math.min(a.length, endA + 3); i++) put(' ', a[i]);
  // fold long runs of equal lines
  return out.filter((line, i) => line.mark !== ' ' || out.slice(Math.max(0, i - 3), i + 4).some((l) => l.mark !== ' '));
}
