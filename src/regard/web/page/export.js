/** Export: the view as SVG and PNG, its table as CSV and LaTeX. */
import { digitsFor, printedNumber } from "../maths/numbers.js";
import { linesOf, printable } from "../elements/words.js";

/**
 * @typedef {{title: string, columns: string[], rows: unknown[][], notes?: string[], source?: string, inputs?: Table[], results?: Table[]}} Table
 *   inputs are tables of what the numbers are computed from, results what follows; files write them before and after it
 */

/**
 * CSV for spreadsheets; every digit is kept. Of several tables, the first column names the one that a row belongs to;
 * the last column says where the numbers come from.
 * @param {Table} table
 */
export function toCsv(table) {
  const tables = allOf(table);
  const named = (/** @type {Table} */ { title, columns, rows }) => [["table", ...columns], ...rows.map((row) => [title, ...row])];
  const lines = tables.length > 1 ? tables.map(named) : [[table.columns, ...table.rows]];
  const { source } = table;
  const sourced = source ? lines.map(([heading, ...rows]) => [[...heading, "source"], ...rows.map((row) => [...row, source])]) : lines;
  return sourced.flatMap((rows) => rows.map((row) => row.map(csvField).join(",") + "\r\n")).join("");
}

/** @param {Table} table */
function allOf(table) {
  return [...(table.inputs ?? []), table, ...(table.results ?? [])];
}

const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/; // spreadsheets compute text that begins so, unless an apostrophe comes first

const LINE_WIDTH = 480; // points: A4 and letter with margins of 2 cm
const BETWEEN = 12; // two columns, in points
const SIZES = [
  { name: "", letter: 5.4 }, // the mean width of a character in points, generously
  { name: "footnotesize", letter: 4.4 },
];
const FEW_NUMBERS = 8; // of a vector that is shown whole; a longer one keeps its first three and its last
const SHORTENED = "… stands for omitted numbers of vectors; the CSV holds all of them.";

/**
 * A `tabular` with the rules of booktabs; one that is too wide for a page is set in a smaller size, then split into
 * several, each with the first column.
 * @param {Table} table
 */
export function toLatex(table) {
  return allOf(table).map(latexTable).join("\n\\bigskip\n\n");
}

/** @param {Table} table */
function latexTable(table) {
  const numeric = table.columns.map(
    (_, place) => table.rows.length > 0 && table.rows.every((row) => typeof row[place] === "number"),
  );
  const cells = table.rows.map((row) => row.map(latexCell));
  const heads = table.columns.map(latexText);
  const letters = heads.map((head, place) => Math.max(...[head, ...cells.map((row) => row[place])].map(lettersIn)));
  const { size, blocks } = blocksOf(letters);
  const line = (/** @type {string[]} */ row, /** @type {number[]} */ block) =>
    `${block.map((place) => row[place]).join(" & ")} \\\\`;
  const lines = table.title ? [`\\textbf{${latexText(table.title)}}\\par\\smallskip`] : [];
  if (size) lines.push(`{\\${size}`);
  blocks.forEach((block, at) => {
    if (at) lines.push("\\par\\medskip");
    lines.push(`\\begin{tabular}{${block.map((place) => (numeric[place] ? "r" : "l")).join("")}}`, "\\toprule");
    lines.push(line(heads, block), "\\midrule", ...cells.map((row) => line(row, block)), "\\bottomrule", "\\end{tabular}");
  });
  if (size) lines.push("}");
  const isShortened = table.rows.some((row) => row.some((cell) => Array.isArray(cell) && cell.length > FEW_NUMBERS));
  const notes = [...(table.notes ?? []), ...(isShortened ? [SHORTENED] : [])];
  for (const note of notes) lines.push(`\\par\\smallskip{\\footnotesize ${latexText(note)}\\par}`);
  return lines.join("\n") + "\n";
}

/** Columns that fit the page side by side, and the size to set them in. @param {number[]} letters the widest cell of each column */
function blocksOf(letters) {
  for (const { name, letter } of SIZES) {
    const width = (/** @type {number} */ place) => letters[place] * letter + BETWEEN;
    /** @type {number[][]} */
    const blocks = [[0]];
    for (let place = 1; place < letters.length; place++) {
      const block = blocks[blocks.length - 1];
      const used = block.reduce((sum, other) => sum + width(other), 0);
      if (used + width(place) <= LINE_WIDTH || block.length === 1) block.push(place);
      else blocks.push([0, place]);
    }
    if (blocks.length === 1 || name) return { size: name, blocks };
  }
  throw new Error("unreachable");
}

/** The characters that a piece of LaTeX prints, roughly. @param {string} latex */
function lettersIn(latex) {
  return latex.replace(/\\[A-Za-z]+(\{\})?/g, "m").replace(/\\;/g, " ").replace(/[{}$\\]/g, "").length;
}

/** @type {Record<string, string>} */
const LATEX = {
  "\\": "\\textbackslash{}",
  "{": "\\{",
  "}": "\\}",
  $: "\\$",
  "&": "\\&",
  "#": "\\#",
  "%": "\\%",
  _: "\\_",
  "^": "\\textasciicircum{}",
  "~": "\\textasciitilde{}",
  "<": "\\textless{}",
  ">": "\\textgreater{}",
  "|": "\\textbar{}",
  '"': "\\char34{}",
  "'": "\\textquotesingle{}",
  "`": "\\textasciigrave{}",
  "-": "{-}",
  "[": "{[}",
  "]": "{]}",
  "*": "{*}",
  "−": "$-$",
  "×": "$\\times$",
  "·": "$\\cdot$",
  "√": "$\\surd$",
  "∞": "$\\infty$",
  Σ: "$\\Sigma$",
  "→": "$\\rightarrow$",
  "←": "$\\leftarrow$",
  "≈": "$\\approx$",
  "…": "\\dots{}",
  "–": "--",
  "—": "---",
  "↵": "$\\hookleftarrow$",
  "±": "$\\pm$",
  "‖": "$\\Vert$",
};

/** Text escaped for LaTeX. @param {unknown} text */
export function latexText(text) {
  return Array.from(printable(text).normalize("NFC"), (character) => LATEX[character] ?? character).join("");
}

/** @param {unknown} cell @returns {string} */
function latexCell(cell) {
  if (cell === null || cell === undefined) return "";
  if (Array.isArray(cell)) return latexVector(cell);
  if (typeof cell !== "number") return latexText(cell);
  if (!Number.isFinite(cell)) return Number.isNaN(cell) ? "NaN" : cell > 0 ? "$\\infty$" : "$-\\infty$";
  return `$${Number.isInteger(cell) ? cell : cell.toFixed(4)}$`;
}

/** @param {unknown[]} cells @returns {string} */
function latexVector(cells) {
  if (!cells.every((cell) => typeof cell === "number")) return latexText(cells.join(" "));
  const numbers = cells.map((cell) => (Number.isFinite(cell) ? printedNumber(cell, digitsFor(cells)) : latexCell(cell)));
  const plain = numbers.map((number) => number.replace(/\$/g, "").replace("−", "-"));
  const shown = plain.length > FEW_NUMBERS ? [...plain.slice(0, 3), "\\dots", plain[plain.length - 1]] : plain;
  return `$[${shown.join("\\;")}]$`;
}

/** @param {unknown} cell */
function csvField(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number")
    return Number.isFinite(cell) ? String(cell) : Number.isNaN(cell) ? "nan" : cell > 0 ? "inf" : "-inf";
  const isVector = Array.isArray(cell) && cell.every((part) => typeof part === "number");
  const plain = Array.isArray(cell) ? cell.join(" ") : String(cell);
  const text = !isVector && FORMULA.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** Text escaped for SVG. @param {unknown} text */
export function svgText(text) {
  /** @type {Record<string, string>} */
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return printable(text).replace(/[&<>"']/g, (sign) => names[sign]);
}

/**
 * An SVG rendered at twice the screen resolution.
 * @param {string} svg @param {number} [fineness]
 * @returns {Promise<Blob>}
 */
export async function toPng(svg, fineness = 2) {
  const image = new Image();
  const loaded = new Promise((done, fail) => {
    image.onload = done;
    image.onerror = () => fail(new Error("The browser could not render the SVG."));
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await loaded;
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(image.width * fineness);
  canvas.height = Math.ceil(image.height * fineness);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) =>
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("The image is too large.")))),
  );
}

/** Download a file. @param {Blob|string} content @param {string} name @param {string} type */
export function handOver(content, name, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A file name: letters, digits and dashes. @param {string} title */
export function fileName(title) {
  const plain = title
    .normalize("NFKD")
    .replace(/[^\w]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .toLowerCase();
  return plain.slice(0, 60) || "attention";
}

const LETTER = 6.2; // the mean width of a letter of a caption of size 11, generously

/**
 * An SVG that says where its numbers come from: in its description, and in a line below the picture, which a PNG keeps.
 * @param {string} svg @param {string} caption @param {{ground?: string, muted?: string}} [colours]
 */
export function withCaption(svg, caption, { ground, muted = "#666" } = {}) {
  if (!caption) return svg;
  const desc = `<desc>${svgText(caption)}</desc>`;
  const described = svg.includes("</title>") ? svg.replace("</title>", () => `</title>${desc}`) : svg.replace(/<svg[^>]*>/, (tag) => tag + desc);
  const [tag] = /<svg[^>]*>/.exec(described) ?? [""];
  const number = (/** @type {string} */ name) => Number(new RegExp(`\\s${name}="([\\d.]+)(?:px)?"`).exec(tag)?.[1] ?? NaN);
  const box = /\sviewBox="([^"]+)"/.exec(tag)?.[1].split(/[\s,]+/).map(Number) ?? [0, 0, number("width"), number("height")];
  if (box.length !== 4 || !box.every(Number.isFinite)) return described;
  const [x, y, width, height] = box;
  const lines = linesOf(caption, Math.max(20, Math.floor((width - 16) / LETTER)));
  const added = 8 + 15 * lines.length;
  const taller = tag
    .replace(/\sviewBox="[^"]*"/, "")
    .replace(/\sheight="[^"]*"/, Number.isFinite(number("height")) ? ` height="${(number("height") * (height + added)) / height}"` : "$&")
    .replace(/^<svg/, `<svg viewBox="${x} ${y} ${width} ${height + added}"`);
  const strip = ground ? `<rect x="${x}" y="${y + height}" width="${width}" height="${added}" fill="${ground}"/>` : "";
  const texts = lines.map((line, place) => `<text x="${x + 8}" y="${y + height + 11 + 15 * place}" font-size="11" font-family="system-ui, sans-serif" fill="${muted}" stroke="none" text-anchor="start">${svgText(line)}</text>`);
  return described.replace(tag, () => taller).replace(/<\/svg>\s*$/, () => `${strip}${texts.join("")}</svg>`);
}
