import assert from "node:assert/strict";
import { test } from "node:test";
import { contrastOf, lightnessOf, makeColours, share } from "../../src/regard/web/elements/colours.js";

const STEPS = Array.from({ length: 101 }, (_, step) => step / 100);

for (const theme of ["light", "dark"]) {
  const colours = makeColours(theme);
  const darker = theme === "light" ? 1 : -1;

  test(`more weight is ever ${theme === "light" ? "darker" : "lighter"} on a ${theme} ground`, () => {
    for (const map of [colours.weight, colours.shade]) {
      const lightness = STEPS.map((step) => lightnessOf(map(step)));
      for (let step = 1; step < lightness.length; step++)
        assert.ok(darker * (lightness[step - 1] - lightness[step]) > -1e-3, `${theme} ${step}`);
    }
  });

  test(`equal steps look alike on a ${theme} ground`, () => {
    const lightness = STEPS.filter((_, step) => step % 10 === 0).map((step) => lightnessOf(colours.weight(step)));
    const steps = lightness.slice(1).map((value, place) => Math.abs(value - lightness[place]));
    assert.ok(Math.max(...steps) < 2.2 * Math.min(...steps), String(steps));
  });

  test(`text can be read on every colour of the ${theme} theme`, () => {
    for (const step of STEPS) {
      for (const colour of [colours.weight(step), colours.shade(step), colours.signed(step), colours.signed(-step)]) {
        assert.ok(contrastOf(colours.contrast(colour), colour) >= 4.5, colour);
      }
    }
    for (const ink of [colours.ink, colours.muted, colours.accent])
      assert.ok(contrastOf(ink, colours.ground) >= 4.5, ink);
    const heads = Array.from({ length: 12 }, (_, head) => colours.head(head));
    assert.equal(new Set(heads).size, 12);
    for (const head of heads) assert.ok(contrastOf(head, colours.ground) >= 4.5, head);
  });
}

test("the ends of a logarithmic scale are 0.0001 and 1", () => {
  assert.equal(share(1, "log"), 1);
  assert.equal(share(1e-4, "log"), 0);
  assert.ok(Math.abs(share(1e-2, "log") - 0.5) < 1e-12);
  assert.deepEqual([share(0, "log"), share(NaN), share(-1), share(2)], [0, 0, 0, 1]);
});

test("colours are the same as on figures", () =>
  assert.deepEqual([makeColours("light").weight(0), makeColours("light").weight(1)], ["#fafbf3", "#19214f"]));
