import assert from "node:assert/strict";
import { test } from "node:test";
import {
  addressOf,
  carriedOver,
  fitted,
  makeState,
  nameOfHead,
  nameOfToken,
  stateOf,
  tokenOfName,
  UNCHOSEN,
} from "../../src/regard/web/page/state.js";
import { captionOf } from "../../src/regard/web/page/share.js";
import { titleOfMatrix } from "../../src/regard/web/views/matrix/captions.js";

const TOKENS = ["[CLS]", "they", "un", "happy", "7", "they", "a:b", "[SEP]"];
const DESCRIPTION = {
  tokens: TOKENS,
  words: [
    [0, 1],
    [1, 2],
    [2, 4],
    [4, 5],
    [5, 6],
    [6, 7],
    [7, 8],
  ],
  layers: 6,
  heads: 12,
};

test("an address says layer, head and word", () => {
  const chosen = { ...UNCHOSEN, layer: 4, head: 7, query: 1 };
  assert.equal(addressOf(chosen, DESCRIPTION), "#layer=4&head=7&query=they");
  assert.deepEqual(stateOf("#layer=4&head=7&query=they", DESCRIPTION), { layer: 4, head: 7, query: 1 });
});

test("what is as always stays out of the address", () => assert.equal(addressOf(UNCHOSEN, DESCRIPTION), ""));

test("every state comes back from its address", () => {
  const chosen = {
    ...UNCHOSEN,
    view: "matrix",
    layer: 2,
    head: 3,
    heads: [1, 3, 5],
    query: 5,
    key: 2,
    region: [0, 4, 1, 7],
    by: "token",
    sinks: false,
    pool: "max",
    colour: "log",
    lookup_query: "a & b = c%",
    steps_temperature: 0.5,
    sentence_apart: true,
  };
  assert.deepEqual({ ...UNCHOSEN, ...stateOf(addressOf(chosen, DESCRIPTION), DESCRIPTION) }, chosen);
});

test("the second of two equal words has a number, words that look like places or hold signs go by their place", () => {
  assert.equal(nameOfToken(5, DESCRIPTION), "they:2");
  assert.equal(tokenOfName("they:2", DESCRIPTION), 5);
  assert.equal(nameOfToken(2, DESCRIPTION), "unhappy");
  assert.equal(nameOfToken(3, DESCRIPTION), "3"); // the second piece of a word
  assert.equal(nameOfToken(4, DESCRIPTION), "4");
  assert.equal(nameOfToken(6, DESCRIPTION), "6");
  for (let token = 0; token < TOKENS.length; token++)
    assert.equal(tokenOfName(nameOfToken(token, DESCRIPTION), DESCRIPTION), token);
});

test("capitals need not be typed, unless they tell words apart", () => {
  const described = {
    tokens: ["They", "they"],
    words: [
      [0, 1],
      [1, 2],
    ],
  };
  assert.equal(tokenOfName("THEY", described), 0);
  assert.equal(tokenOfName("they", described), 1);
});

test("addresses from elsewhere do no harm", () => {
  const strange = [
    "#layer=99&head=-1",
    "#query=nobody",
    "#layer=abc",
    "#%E0%A4%A",
    "#__proto__=1&constructor=2",
    "#region=5,1,0,2",
    "#=&&=",
    "#heads=99",
    "#view=<b>",
  ];
  for (const address of strange) {
    const {
      layer = 0,
      head = 0,
      query = null,
      heads = null,
      region = null,
      view = null,
    } = stateOf(address, DESCRIPTION);
    assert.deepEqual([layer, head, query, heads, region, view], [0, 0, null, null, null, null], address);
  }
  assert.equal({}.polluted, undefined);
});

test("listeners hear of changes only, with what was before", () => {
  const state = makeState({ layer: 1 });
  const heard = [];
  const stop = state.listen((now, before) => heard.push([now.layer, before.layer]));
  state.set({ layer: 1 });
  state.set({ layer: 2 });
  state.set({ heads: [1, 2] });
  state.set({ heads: [1, 2] });
  stop();
  state.set({ layer: 3 });
  assert.deepEqual(heard, [
    [2, 1],
    [2, 2],
  ]);
});

test("a state is fitted to a smaller text", () => {
  assert.deepEqual(fitted({ layer: 9, head: 1, query: 50, heads: [3, 1, 40] }, DESCRIPTION), {
    layer: 0,
    head: 1,
    query: null,
    heads: [1, 3],
  });
});

test("only layers and heads that a page holds can be selected", () => {
  const some = { ...DESCRIPTION, layers: 6, heads: 12, kept: { layers: [3, 5], heads: [1, 7] } };
  assert.deepEqual(fitted({ layer: 0, head: 0, heads: [0, 7] }, some), { layer: 3, head: 1, heads: [7] });
  assert.deepEqual(fitted({ layer: 5, head: 7, heads: [2] }, some), { layer: 5, head: 7, heads: null });
});

test("an address holds the model's numbers of layers and heads, whatever a reading kept of them", () => {
  const some = { ...DESCRIPTION, layers: 2, heads: 3, layer_numbers: [3, 7], head_numbers: [1, 5, 8] };
  const chosen = { ...UNCHOSEN, layer: 1, head: 1, heads: [1, 2] };
  assert.equal(addressOf(chosen, some), "#layer=7&head=5&heads=5,8");
  assert.deepEqual(stateOf("#layer=7&head=5&heads=5,8", some), { layer: 1, head: 1, heads: [1, 2] });
  assert.deepEqual(stateOf("#layer=0&head=2&heads=0,8", some), { heads: [2] });
});

test("a layer and a head are named by the model's numbers", () => {
  const some = { layers: 1, heads: 2, layer_numbers: [3], head_numbers: [1, 5] };
  assert.equal(nameOfHead({ layer: 0, head: 1 }, some), "Layer 3, head 5");
  assert.equal(nameOfHead({ layer: 0, head: 1 }, { layers: 1, heads: 2 }), "Head 1");
  assert.equal(captionOf({ ...some, model: "llama" }, { ...UNCHOSEN, layer: 0, head: 1 }), "llama, layer 3, head 5");
  const grid = { uses: [] };
  assert.equal(captionOf({ ...some, source: "llama", text: "Hi" }, { ...UNCHOSEN, layer: 0, head: 1 }, grid), "llama: “Hi”");
  const typed = { origin: { source: "typed by hand", layer: null, heads: [], text: "The cat sat", edited: "a causal mask" } };
  assert.equal(captionOf({ ...some, source: "llama" }, UNCHOSEN, typed), "typed by hand: “The cat sat”; edited: a causal mask");
  assert.equal(titleOfMatrix(some, { ...UNCHOSEN, layer: 0, head: 1 }), "Weights, layer 3, head 5");
});

test("with another text words are found by their names; it opens at its own start unless a head was chosen by hand", () => {
  const before = { tokens: ["the", "cat", "sat"], layers: 2, heads: 2, start: { layer: 1, head: 0, query: 2 } };
  const after = { tokens: ["a", "the", "cat", "ran"], layers: 2, heads: 2, start: { layer: 0, head: 1, query: 3 } };
  const chosen = { ...UNCHOSEN, layer: 1, head: 1, query: 1, key: 2, region: [0, 1, 0, 1] };
  assert.deepEqual(carriedOver(chosen, before, after), { roles_asked: null, query: 2, key: null, region: null });
  assert.deepEqual(carriedOver({ ...chosen, key: null }, before, { ...before, tokens: ["a", "cat", "sat"] }), { roles_asked: null });
  assert.deepEqual(carriedOver({ ...UNCHOSEN, ...before.start }, before, after), { roles_asked: null, region: null, ...after.start });
  assert.equal(carriedOver({ ...UNCHOSEN, ...before.start, heads: [0, 1] }, before, after).layer, undefined);
});
