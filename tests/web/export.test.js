import assert from "node:assert/strict";
import { test } from "node:test";
import { fileName, latexText, svgText, toCsv, toLatex, withCaption } from "../../src/regard/web/export.js";

const TABLE = {
  title: "R&D",
  columns: ["query", "weight"],
  rows: [
    ["a,b", 0.5],
    ['say "x"', 0.123456789],
    ["line\nbreak", -Infinity],
    [null, NaN],
  ],
};

test("CSV quotes what would break a line, and keeps every digit", () => {
  assert.equal(toCsv(TABLE), 'query,weight\r\n"a,b",0.5\r\n"say ""x""",0.123456789\r\n"line\nbreak",-inf\r\n,nan\r\n');
});

test("LaTeX sets signs as they are", () => {
  assert.equal(
    latexText("50% of R&D_1 {x} ~^\\"),
    "50\\% of R\\&D\\_1 \\{x\\} \\textasciitilde{}\\textasciicircum{}\\textbackslash{}",
  );
  assert.equal(latexText("</script>"), "\\textless{}/script\\textgreater{}");
  assert.equal(latexText("score/√d_k"), "score/$\\surd$d\\_k");
  assert.equal(latexText("[CLS]"), "{[}CLS{]}"); // after \\ a bracket would be read as an option
});

test("a table in LaTeX has booktabs' rules, and numbers on the right", () => {
  const lines = toLatex({
    title: "",
    columns: ["word", "weight"],
    rows: [
      ["cat", 0.41921],
      ["sat", 1],
    ],
  }).split("\n");
  assert.deepEqual(lines.slice(0, 6), [
    "\\begin{tabular}{lr}",
    "\\toprule",
    "word & weight \\\\",
    "\\midrule",
    "cat & $0.4192$ \\\\",
    "sat & $1$ \\\\",
  ]);
});

test("text in SVG stays text", () =>
  assert.equal(svgText("<img onerror='x'>&\"\x00"), "&lt;img onerror=&#39;x&#39;&gt;&amp;&quot;␀"));

test("file names are plain", () => {
  assert.equal(fileName("Sentence Größe: ../../etc?"), "sentence-gro-e-etc");
  assert.equal(fileName("שלום"), "attention");
});

test("a picture says which model, layer and head it shows", () => {
  assert.equal(withCaption("<svg><title>T</title></svg>", "a & b"), "<svg><title>T</title><desc>a &amp; b</desc></svg>");
  assert.equal(withCaption('<svg width="3"><g/></svg>', "$&"), '<svg width="3"><desc>$&amp;</desc><g/></svg>');
  assert.equal(withCaption("<svg/>", ""), "<svg/>");
});
