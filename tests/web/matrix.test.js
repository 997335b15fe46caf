import assert from "node:assert/strict";
import { test } from "node:test";
import {
  LARGEST_CELL,
  cellAt,
  cellsShown,
  following,
  isHidden,
  levelFor,
  panned,
  partOf,
  partWith,
  regionView,
  ticks,
  tilesOver,
  wholeTile,
  wholeView,
  within,
  zoomed,
} from "../../src/regard/web/views/matrix/geometry.js";
import { fitted } from "../../src/regard/web/views/matrix/labels.js";
import { colourOfWeight, paint, stepOfWeight } from "../../src/regard/web/views/matrix/pixels.js";
import { aroundRegion, between, frameOf, inside, scaleFor } from "../../src/regard/web/views/matrix/model.js";
import { makeTiles } from "../../src/regard/web/views/matrix/tiles.js";

const PLOT = { width: 701, height: 503 };
const square = (count) => ({ rows: count, columns: count });
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("the whole matrix fits, and three words do not become giants", () => {
  assert.equal(wholeView(square(3), PLOT).size, LARGEST_CELL);
  assert.equal(wholeView(square(100003), PLOT).size * 100003, 503);
});

test("zooming keeps what is under the pointer where it is", () => {
  const view = { x: 41000, y: 52000, size: 0.5 };
  const at = { x: 613, y: 97 };
  const nearer = zoomed(view, 3.7, at, square(100003), PLOT);
  assert.ok(Math.abs(view.x + at.x / view.size - (nearer.x + at.x / nearer.size)) < 1e-6);
  assert.ok(Math.abs(view.y + at.y / view.size - (nearer.y + at.y / nearer.size)) < 1e-6);
});

test("no zoom and no move leaves the matrix", () => {
  for (const view of [
    zoomed(wholeView(square(997), PLOT), 1e-9, { x: 0, y: 0 }, square(997), PLOT),
    panned({ x: 3, y: 3, size: 9 }, 1e9, 1e9, square(997), PLOT),
  ]) {
    assert.ok(view.x >= 0 && view.y >= 0);
  }
  const far = panned({ x: 3, y: 3, size: 9 }, -1e9, -1e9, square(997), PLOT);
  assert.ok(Math.abs(far.x + PLOT.width / 9 - 997) < 1e-9);
  assert.ok(within({ x: 0, y: 0, size: 1e9 }, square(997), PLOT).size <= LARGEST_CELL);
});

test("a region fills the plot, and a followed cell comes into sight", () => {
  const view = regionView([1000, 2000, 5000, 6000], square(100003), PLOT);
  const { rows, columns } = cellsShown(view, square(100003), PLOT);
  assert.ok(rows[0] <= 1000 && rows[1] >= 2000 && columns[0] <= 5000 && columns[1] >= 6000);
  const moved = following(view, 90000, 7, square(100003), PLOT);
  const seen = cellsShown(moved, square(100003), PLOT);
  assert.ok(seen.rows[0] <= 90000 && seen.rows[1] > 90000 && seen.columns[0] <= 7);
  assert.deepEqual(following(view, 1500, 5500, square(100003), PLOT), view);
});

test("cells are found under pixels", () => {
  assert.deepEqual(cellAt({ x: 10.5, y: 3, size: 20 }, 11, 41, square(100), PLOT), { row: 5, column: 11 });
  assert.equal(cellAt({ x: 0, y: 0, size: 20 }, 300, 20, square(7), PLOT), null);
  assert.equal(cellAt({ x: 0, y: 0, size: 20 }, -1, 20, square(7), PLOT), null);
});

test("a cell of a tile takes at least a pixel of the screen, and less than two", () => {
  for (const [size, ratio] of [
    [0.007, 1],
    [0.007, 2],
    [0.13, 3],
    [1, 1],
    [17, 2],
  ]) {
    const level = levelFor(size, ratio);
    const pixels = size * ratio * 2 ** level;
    assert.ok(pixels >= 1 - 1e-9 && (level === 0 || pixels < 2));
  }
});

test("tiles cover what is in sight, without gaps, each within the matrix", () => {
  const count = 100003;
  const shown = { rows: [40960, 47777], columns: [95000, count] };
  const tiles = tilesOver(3, shown, square(count));
  const cells = tiles.reduce(
    (sum, { rows, columns }) =>
      sum + (Math.min(rows[1], 47777) - Math.max(rows[0], 40960)) * (columns[1] - Math.max(columns[0], 95000)),
    0,
  );
  assert.equal(cells, (47777 - 40960) * (count - 95000));
  for (const { rows, columns, shape } of tiles) {
    assert.ok(rows[1] <= count && columns[1] <= count && shape[0] <= 256 && shape[1] <= 256);
    assert.ok(shape[0] <= rows[1] - rows[0] && shape[1] <= columns[1] - columns[0]);
  }
  assert.deepEqual(tilesOver(0, shown, square(512)), []);
  assert.deepEqual(wholeTile(square(37)).shape, [37, 37]);
});

test("every token lies in the part of a tile that says so", () => {
  for (const [first, last, parts] of [
    [0, 37, 37],
    [100, 203, 17],
    [0, 100003, 512],
  ]) {
    for (let token = first; token < last; token += 7) {
      const [from, to] = partOf([first, last], parts, partWith([first, last], parts, token));
      assert.ok(from <= token && token < to);
    }
  }
});

test("ticks are round and far enough apart", () => {
  assert.deepEqual(ticks(0, 100003, 0.007, 90), [0, 20000, 40000, 60000, 80000, 100000]);
  assert.deepEqual(ticks(3, 8, 40, 30), [3, 4, 5, 6, 7]);
});

test("a causal matrix hides what comes later, a window what is too far back", () => {
  const causal = { causal: true, window: null };
  assert.equal(isHidden(causal, [3, 4], [4, 5]), true);
  assert.equal(isHidden(causal, [3, 4], [3, 4]), false);
  assert.equal(isHidden(causal, [0, 8], [7, 9]), false);
  assert.equal(isHidden({ causal: true, window: 2 }, [5, 6], [3, 4]), true);
  assert.equal(isHidden({ causal: true, window: 2 }, [5, 6], [4, 5]), false);
  assert.equal(isHidden({ causal: false }, [0, 1], [1, 2]), false);
});

const colours = {
  bytes: Uint8ClampedArray.from({ length: 768 }, (_, place) => Math.floor(place / 3)),
  hidden: "#0a141e",
};

test("painting a tile gives each cell the colour of its weight", () => {
  const weight = Float32Array.from([0, 0.1, 0.25, 0.5, 1, 3e-5]);
  for (const colour of ["linear", "log"]) {
    const scale = { top: 0.5, colour, colours };
    const pixels = new Uint32Array(6);
    paint({ weight, shape: [2, 3], rows: [0, 2], columns: [0, 3] }, scale, {}, pixels);
    const greys = new Uint8Array(pixels.buffer);
    weight.forEach((one, place) => {
      assert.equal(greys[place * 4], stepOfWeight(one, scale));
      assert.equal(greys[place * 4 + 3], 255);
    });
    assert.equal(colourOfWeight(0.5, scale), "#ffffff");
  }
});

test("hidden cells have a colour of their own", () => {
  const pixels = new Uint32Array(9);
  paint(
    { weight: new Float32Array(9), shape: [3, 3], rows: [0, 3], columns: [0, 3] },
    { top: 1, colour: "linear", colours },
    { causal: true },
    pixels,
  );
  assert.deepEqual(
    Array.from(pixels, (pixel) => pixel === new Uint32Array(Uint8Array.of(10, 20, 30, 255).buffer)[0]),
    [false, true, true, false, false, true, false, false, false],
  );
});

const tile = (first) => ({ rows: [first, first + 256], columns: [0, 256], shape: [256, 256] });
const whose = { layer: 0, head: 1, pool: "mean" };

function library(answer) {
  const questions = [];
  const came = [];
  const failures = [];
  const tiles = makeTiles({
    whole: square(100003),
    ask: (kind, parameters, { signal }) =>
      new Promise((resolve, reject) => {
        const weight = { toFloat32: () => Float32Array.of(0.25) };
        const one = {
          kind,
          parameters,
          signal,
          answer: (header = { exact: true }) => resolve({ header, arrays: { weight } }),
          refuse: reject,
        };
        signal.addEventListener("abort", () => reject(new Error("aborted")));
        questions.push(one);
        answer?.(one);
      }),
    came: (one) => came.push(one),
    failed: (error) => failures.push(error.message),
  });
  return { tiles, questions, came, failures };
}

test("what is wanted no longer is cancelled, and few questions are on their way at once", async () => {
  const { tiles, questions } = library();
  tiles.want(
    whose,
    Array.from({ length: 20 }, (_, place) => tile(place * 256)),
  );
  assert.equal(questions.length, 6);
  tiles.want(whose, [tile(256), tile(99840)]);
  assert.deepEqual(
    questions.map(({ signal }) => signal.aborted),
    [true, false, true, true, true, true, false],
  );
  await settled();
  assert.equal(tiles.waiting, 2);
});

test("large tiles are sampled first and made exact after", async () => {
  const { tiles, questions, came } = library();
  tiles.want(whose, [wholeTile(square(100003))]);
  assert.equal(questions[0].parameters.quality, "first");
  questions[0].answer({ exact: false, sampled: "every 97th row" });
  await settled();
  assert.equal(came[0].sampled, "every 97th row");
  assert.equal(questions[1].parameters.quality, "exact");
  questions[1].answer();
  await settled();
  assert.deepEqual(
    [came[1].exact, questions.length, tiles.find(whose, wholeTile(square(100003))).exact],
    [true, 2, true],
  );
});

test("what came is kept, up to a bound, and asked for once", async () => {
  const { tiles, questions } = library((one) => one.answer());
  for (let place = 0; place < 300; place++) {
    tiles.want(whose, [tile(place * 256)]);
    await settled();
  }
  assert.ok(tiles.size <= 144);
  const before = questions.length;
  tiles.want(whose, [tile(299 * 256)]);
  assert.equal(questions.length, before);
  assert.equal(tiles.find(whose, tile(0)), undefined);
});

test("a refused question is said once, and asked again only on demand", async () => {
  const { tiles, questions, failures } = library();
  tiles.want(whose, [tile(0)]);
  questions[0].refuse(new Error("Too much work in flight."));
  await settled();
  tiles.want(whose, [tile(0)]);
  assert.deepEqual([failures, questions.length], [["Too much work in flight."], 1]);
  tiles.retry();
  assert.equal(questions.length, 2);
});

test("the end cancels everything", () => {
  const { tiles, questions } = library();
  tiles.want(whose, [tile(0), tile(256)]);
  tiles.end();
  assert.ok(questions.every(({ signal }) => signal.aborted));
});

test("a label that does not fit is shortened with an ellipsis, from its end", () => {
  const drawing = { measureText: (text) => ({ width: 10 * text.length }) };
  assert.equal(fitted(drawing, "69902", 50), "69902");
  assert.equal(fitted(drawing, "69902", 49), "699…");
  assert.equal(fitted(drawing, "69902", 15), "");
});

test("a frame has the tiles of its level on top, and knows the weights of single cells alone", () => {
  const whole = square(4);
  const view = { ...wholeView(whole, PLOT) };
  const weight = Float32Array.from({ length: 16 }, (_, place) => place / 16);
  const tile = { rows: [0, 4], columns: [0, 4], shape: [4, 4], weight, done: true, exact: true, sampled: null };
  const coarse = { ...tile, shape: [1, 1], weight: Float32Array.of(0.25) };
  const plot = { ...PLOT, left: 0, top: 0 };
  const frame = frameOf({ view, plot, ratio: 1, whole }, { find: () => tile, all: [tile, coarse] });
  assert.equal(frame.tiles.at(-1), tile);
  assert.equal(frame.weightAt(1, 2), 6 / 16);
  assert.equal(frame.drawnWeight(3, 3), 15 / 16);
  const empty = frameOf({ view, plot, ratio: 1, whole }, { find: () => undefined, all: [coarse] });
  assert.deepEqual(empty.here, []);
  assert.equal(empty.weightAt(0, 0), null); // a mean is not the weight of a cell
});

test("one scale for the whole map: rounded up, and weights end at 1", () => {
  const tile = (weight) => ({ rows: [0, 1], columns: [0, 2], shape: [1, 2], weight: Float32Array.from(weight), done: true, exact: true, sampled: null });
  const whole = { rows: 1, columns: 2 };
  assert.equal(scaleFor(tile([0.2, 0.99]), whole, { measure: "weight", pool: "mean" }).top, 1);
  assert.ok(scaleFor(tile([3.2, 0.1]), whole, { measure: "norm", pool: "mean" }).top >= 3.2);
  assert.equal(scaleFor(tile([0.2, 0.99]), whole, { measure: "weight", pool: "mean" }).isPooled, false);
});

test("regions are ordered and within the matrix", () => {
  assert.deepEqual(between({ row: 3, column: 1 }, { row: 1, column: 2 }, square(4)), [1, 4, 1, 3]);
  assert.deepEqual(inside(-3, 9, square(4)), { row: 0, column: 3 });
  assert.deepEqual(aroundRegion([4, 8], [0, 4]), { cell: { row: 5, column: 1 }, region: [-12, 24, -16, 20] });
});
