// Live numbers of a deck: an embedding that is changed on a slide changes every number that is computed from it.
// `live` has x (word, width), positions (the same shape), W_q, W_k, W_v (in, out) and colours; cells name what they
// show: "x 0", "score 0 2", "z 0", with "p." before them where positions are added to x. See slides/lecture.py.
const product = (a, b) => a.map(row => b[0].map((_, column) => row.reduce((sum, one, at) => sum + one * b[at][column], 0)));
const transposed = a => a[0].map((_, column) => a.map(row => row[column]));
const softmax = row => {
  const powers = row.map(one => Math.exp(one - Math.max(...row))), sum = powers.reduce((a, b) => a + b);
  return powers.map(one => one / sum);
};
function computed(x) {
  const [q, k, v] = [live.W_q, live.W_k, live.W_v].map(matrix => product(x, matrix));
  const score = product(q, transposed(k)), scaled = score.map(row => row.map(one => one / Math.sqrt(k[0].length)));
  const weight = scaled.map(softmax), z = product(weight, v);
  const weighted = weight.map(row => row.map((one, key) => v[key].map(part => one * part)));
  return {x, q, k, v, kT: transposed(k), score, scaled, weight, weighted, z};
}
const DIGITS = {score: 1, scaled: 2, weight: 2};
// A half is rounded away from zero, as by hand; −0.00 is 0.00.
function printed(number, digits) {
  const text = (Math.floor(Math.abs(number) * 10 ** digits + 0.5 + 1e-9) / 10 ** digits).toFixed(digits);
  return number < 0 && /[1-9]/.test(text) ? '−' + text : text;
}
function vector(numbers) {
  const digits = numbers.every(Number.isInteger) ? 0 : 2;
  return numbers.slice(0, 4).map(one => printed(one, digits)).join(' ') + (numbers.length > 4 ? ' …' : '');
}
const colour = (table, share) => table[Math.max(0, Math.min(table.length - 1, Math.round(share * (table.length - 1))))];
function inkOn(fill) {
  const [r, g, b] = [1, 3, 5].map(at => parseInt(fill.slice(at, at + 2), 16) / 255)
    .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#000000' : '#ffffff';
}
function update() {
  const plain = computed(live.x);
  const arrays = {...plain, ...Object.fromEntries(Object.entries(
    computed(live.x.map((row, at) => row.map((one, column) => one + live.positions[at][column]))),
  ).map(([name, array]) => ['p.' + name, array]))};
  for (const cell of document.querySelectorAll('td[data-live]')) {
    const [name, ...place] = cell.dataset.live.split(' ');
    const value = place.reduce((array, at) => array[+at], arrays[name]);
    const editable = cell.querySelectorAll('[data-component]');
    if (editable.length) editable.forEach(one => {
      if (one !== document.activeElement) one.textContent = printed(value[+one.dataset.component], Number.isInteger(value[+one.dataset.component]) ? 0 : 2);
    });
    else cell.textContent = Array.isArray(value) ? vector(value) : printed(value, DIGITS[name.replace('p.', '')]);
    if (name.endsWith('weight')) {
      cell.style.background = colour(live.sequential, value);
      cell.style.color = inkOn(colour(live.sequential, value));
    }
  }
  for (const matrix of document.querySelectorAll('g[data-live]')) {
    const numbers = arrays[matrix.dataset.live].flat(), top = +matrix.dataset.top;
    [...matrix.querySelectorAll('rect')].filter(one => one.querySelector('title')).forEach((cell, at) => {
      const share = numbers[at] / top;
      cell.setAttribute('fill', matrix.dataset.signed
        ? colour(share < 0 ? live.negative : live.positive, Math.abs(share)) : colour(live.sequential, share));
      const hint = cell.querySelector('title');
      hint.textContent = hint.textContent.replace(/[^ ]*$/, printed(numbers[at], 4));
    });
    if (matrix.dataset.digits) numbers.forEach((number, at) => {
      const shown = matrix.querySelectorAll('text')[at];
      shown.textContent = printed(number, Number.isInteger(number) ? +matrix.dataset.digits : 2);
      shown.setAttribute('fill', inkOn(matrix.querySelectorAll('rect')[at].getAttribute('fill')));
    });
  }
  document.body.classList.add('changed');
}
function change(cell, number) {
  const [row, column] = [+cell.closest('[data-live]').dataset.live.split(' ')[1], +cell.dataset.component];
  if (!Number.isFinite(number) || Math.abs(number) > 1e6 || live.x[row][column] === number) return;
  live.x[row][column] = number;
  update();
}
const read = cell => Number(cell.textContent.replace('−', '-').replace(',', '.').trim() || NaN);
for (const cell of document.querySelectorAll('[data-component]')) {
  cell.addEventListener('click', event => event.stopPropagation());
  cell.addEventListener('input', () => change(cell, read(cell)));
  cell.addEventListener('blur', update);
  cell.addEventListener('keydown', event => {
    event.stopPropagation();
    const step = {ArrowUp: 1, ArrowDown: -1}[event.key];
    if (step) {
      const number = read(cell) + step;
      cell.textContent = printed(number, Number.isInteger(number) ? 0 : 2);
      change(cell, number);
    }
    if (step || event.key === 'Enter') event.preventDefault();
    if (event.key === 'Enter' || event.key === 'Escape') cell.blur();
  });
}
