// Turns the slides of a deck, shows notes and the pointer.
const slides = [...document.querySelectorAll('section')], notes = [...document.querySelectorAll('aside')];
const pointer = document.getElementById('pointer');
let shown = Math.min(Math.max(parseInt(location.hash.slice(1)) || 1, 1), slides.length) - 1;
function show(number) {
  shown = Math.min(Math.max(number, 0), slides.length - 1);
  slides.forEach((slide, place) => slide.classList.toggle('shown', place === shown));
  notes.forEach((note, place) => note.classList.toggle('shown', place === shown));
  history.replaceState(null, '', '#' + (shown + 1));
}
function resize() {
  document.body.style.setProperty('--scale', Math.min(innerWidth / 960, innerHeight / 540));
}
const keys = {
  ArrowRight: () => show(shown + 1), ' ': () => show(shown + 1), PageDown: () => show(shown + 1),
  ArrowLeft: () => show(shown - 1), PageUp: () => show(shown - 1), Home: () => show(0),
  End: () => show(slides.length - 1), n: () => document.body.classList.toggle('notes'),
  p: () => document.body.classList.toggle('pointing'),
  f: () => document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen(),
};
addEventListener('keydown', event => {
  if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys[event.key]();
});
addEventListener('click', event => show(shown + (event.clientX < innerWidth / 4 ? -1 : 1)));
addEventListener('pointermove', event => {
  pointer.style.left = event.clientX + 'px'; pointer.style.top = event.clientY + 'px';
});
addEventListener('resize', resize); addEventListener('hashchange', () => show(parseInt(location.hash.slice(1)) - 1));
resize(); show(shown);
