import assert from "node:assert/strict";
import { test } from "node:test";
import { fileName, latexText, svgText, toCsv, toLatex, withCaption } from "../../src/regard/web/page/export.js";

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

test("CSV text that a spreadsheet would compute is text; numbers stay numbers", () => {
  for (const word of ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "'=1", "＝1"])
    assert.equal(toCsv({ title: "", columns: ["=x"], rows: [[word]] }), `'=x\r\n'${word}\r\n`);
  assert.equal(toCsv({ title: "", columns: ["x"], rows: [["\r=1"]] }), `x\r\n"'\r=1"\r\n`);
  assert.equal(toCsv({ title: "", columns: ["x"], rows: [[-0.5], [-Infinity], [[-1, 2]], ["don't"]] }), "x\r\n-0.5\r\n-inf\r\n-1 2\r\ndon't\r\n");
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

test("a LaTeX table of long vectors fits the page", () => {
  const vector = Array.from({ length: 64 }, (_, place) => Math.sin(place) * 3);
  const columns = ["Word", "q", "k", "v", "score", "score/√d_k", "softmax", "softmax × v", "sum"];
  const row = (word) => [word, vector, vector, vector, -12.3456789, -1.54321, 0.123456789, vector, vector];
  const text = toLatex({ title: "Query they: d_k = 64", columns, rows: ["[CLS]", "extraordinarily"].map(row) });
  const shown = text.replace(/\\dots(\{\})?/g, "…").replace(/\\;/g, " ");
  for (const line of shown.split("\n").filter((one) => one.includes("&"))) {
    const cells = line.replace(/\\[a-z]+(\{\})?/g, "x").replace(/[{}$\\]/g, "").split("&").map((cell) => cell.trim());
    // A digit of Latin Modern at 8 pt is 4.25 pt wide; 12 pt between columns; 482 pt between margins of 2 cm.
    assert.ok(cells.join("").length * 4.25 + 12 * cells.length < 482, line);
  }
  assert.equal(text.match(/begin\{tabular\}/g).length, 2);
  assert.equal(text.match(/\{\[\}CLS/g).length, 2);
  assert.ok(text.includes("$[0.00\\;2.52\\;2.73\\;\\dots\\;0.50]$") && text.includes("omitted numbers"));
});

test("a short vector is set whole", () =>
  assert.ok(toLatex({ title: "", columns: ["v"], rows: [[[1, -0.5]]] }).includes("$[1.00\\;-0.50]$")));

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

test("a picture says below itself where its numbers come from, and grows by as much", () => {
  const made = withCaption('<svg xmlns="x" width="100" height="50" viewBox="0 0 200 100"><g/></svg>', "typed by hand: “The cat sat”", { ground: "#fff" });
  assert.match(made, /viewBox="0 0 200 123"/);
  assert.match(made, / height="61.5"/);
  assert.match(made, /<rect x="0" y="100" width="200" height="23" fill="#fff"\/><text [^>]*>typed by hand: “The cat sat”<\/text><\/svg>$/);
  assert.match(withCaption('<svg width="100" height="50"></svg>', "a b"), /viewBox="0 0 100 73"/);
});

test("every row of a CSV says where its numbers come from", () => {
  const table = { title: "", columns: ["word"], rows: [["a"], ["b"]], source: "minilm, layer 3, head 1: “x, y”" };
  assert.equal(toCsv(table), 'word,source\r\na,"minilm, layer 3, head 1: “x, y”"\r\nb,"minilm, layer 3, head 1: “x, y”"\r\n');
});
