/** Export: the view as SVG and PNG, its table as CSV and LaTeX. */
import { printable } from "./words.js";

/**
 * @typedef {{title: string, columns: string[], rows: any[][], notes?: string[]}} Table
 */

/**
 * CSV for spreadsheets; every digit is kept.
 * @param {Table} table
 */
export function toCsv(table) {
  return [table.columns, ...table.rows].map((row) => row.map(csvField).join(",") + "\r\n").join("");
}

/**
 * A `tabular` with the rules of booktabs.
 * @param {Table} table
 */
export function toLatex(table) {
  const numeric = table.columns.map(
    (_, place) => table.rows.length > 0 && table.rows.every((row) => typeof row[place] === "number"),
  );
  const line = (/** @type {string[]} */ cells) => cells.join(" & ") + " \\\\";
  const lines = table.title ? [`\\textbf{${latexText(table.title)}}\\par\\smallskip`] : [];
  lines.push(`\\begin{tabular}{${numeric.map((number) => (number ? "r" : "l")).join("")}}`, "\\toprule");
  lines.push(line(table.columns.map(latexText)), "\\midrule");
  for (const row of table.rows) lines.push(line(row.map(latexCell)));
  lines.push("\\bottomrule", "\\end{tabular}");
  for (const note of table.notes ?? []) lines.push(`\\par\\smallskip{\\footnotesize ${latexText(note)}\\par}`);
  return lines.join("\n") + "\n";
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

/** @param {any} cell */
function latexCell(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell !== "number") return latexText(Array.isArray(cell) ? cell.join(" ") : cell);
  if (!Number.isFinite(cell)) return Number.isNaN(cell) ? "NaN" : cell > 0 ? "$\\infty$" : "$-\\infty$";
  return `$${Number.isInteger(cell) ? cell : cell.toFixed(4)}$`;
}

/** @param {any} cell */
function csvField(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number")
    return Number.isFinite(cell) ? String(cell) : Number.isNaN(cell) ? "nan" : cell > 0 ? "inf" : "-inf";
  const text = Array.isArray(cell) ? cell.join(" ") : String(cell);
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
 * @param {string} svg
 * @param {number} [fineness]
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

/**
 * Download a file.
 * @param {Blob|string} content
 * @param {string} name
 * @param {string} type
 */
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

/** An SVG that says what it shows, in its description. @param {string} svg @param {string} caption */
export function withCaption(svg, caption) {
  if (!caption) return svg;
  const desc = `<desc>${svgText(caption)}</desc>`;
  return svg.includes("</title>") ? svg.replace("</title>", () => `</title>${desc}`) : svg.replace(/<svg[^>]*>/, (tag) => tag + desc);
}
