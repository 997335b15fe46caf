/**
 * Perceptually uniform colour maps, computed in OKLab. Safe for colour-blind readers: lightness alone distinguishes
 * weights, darker on a light background and lighter on a dark one.
 *
 * @typedef {"light"|"dark"} Theme
 * @typedef {ReturnType<typeof makeColours>} Colours
 */

const STEPS = 256;
const SMALLEST = 1e-4; // of a logarithmic scale

// (lightness, chroma, hue in degrees), the same as in Regard's figures
const MAPS = {
  light: [[0.985, 0.01, 110], [0.9, 0.065, 145], [0.77, 0.095, 185], [0.6, 0.105, 230], [0.42, 0.105, 258], [0.27, 0.085, 272]],
  dark: [[0.205, 0.012, 265], [0.33, 0.07, 268], [0.48, 0.1, 252], [0.65, 0.105, 222], [0.81, 0.1, 180], [0.955, 0.085, 130]],
  negative: { light: [[0.985, 0.004, 70], [0.8, 0.095, 65], [0.62, 0.13, 52], [0.45, 0.115, 42]],
              dark: [[0.24, 0.004, 70], [0.42, 0.075, 48], [0.61, 0.12, 55], [0.8, 0.115, 68]] },
  positive: { light: [[0.985, 0.004, 250], [0.8, 0.08, 245], [0.62, 0.12, 250], [0.45, 0.125, 258]],
              dark: [[0.24, 0.004, 250], [0.42, 0.09, 258], [0.61, 0.115, 250], [0.8, 0.085, 238]] },
};

// One hue for words and lines.
const SHADES = {
  light: [[1, 0, 258], [0.93, 0.03, 258], [0.8, 0.085, 258], [0.66, 0.13, 260]],
  dark: [[0.205, 0.012, 265], [0.3, 0.05, 262], [0.42, 0.1, 260], [0.55, 0.14, 260]],
};

// Twelve heads; each is also identified by its position and number. Contrast with the ground is at least 4.5 to 1.
const HEADS = {
  light: ["#0b62a4", "#b34700", "#00785a", "#97407a", "#7a6000", "#5a4fa2", "#a32020", "#33691e", "#00717a", "#8e24aa", "#6d4c41",
          "#455a64"],
  dark: ["#6db8f2", "#f3a56a", "#4cc9a2", "#e59ac8", "#e0c95a", "#b0a6f0", "#f28b82", "#a5d66f", "#5fd0da", "#d59bf0", "#cfae9c",
         "#b0bec5"],
};

const PALETTES = {
  light: { ground: "#ffffff", raised: "#f6f7f9", ink: "#1b1f27", muted: "#5b6472", rule: "#d9dde3", accent: "#1d4f91",
           soft: "#e8eef7", hidden: "#e6e8ec" },
  dark: { ground: "#14171c", raised: "#1c2027", ink: "#e8eaee", muted: "#a5adb9", rule: "#353b46", accent: "#8ab8f0",
          soft: "#22304a", hidden: "#2a2f38" },
};

/** The colours of a theme. @param {Theme} theme */
export function makeColours(theme) {
  const weights = tableOf(MAPS[theme]);
  const shades = tableOf(SHADES[theme]);
  const negatives = tableOf(MAPS.negative[theme]);
  const positives = tableOf(MAPS.positive[theme]);
  return {
    theme,
    ...PALETTES[theme],
    /** The colour of a weight between 0 and 1. @param {number} value */
    weight: (value) => hexadecimal(weights, stepOf(value)),
    /** One hue, for the background of words. @param {number} value */
    shade: (value) => hexadecimal(shades, stepOf(value)),
    /** The colour of a number between −1 and 1. @param {number} value */
    signed: (value) => hexadecimal(value < 0 ? negatives : positives, stepOf(Math.abs(value))),
    /** Black or white, whichever has more contrast with this colour. @param {string} colour */
    contrast: (colour) => (contrastOf("#000000", colour) >= contrastOf("#ffffff", colour) ? "#000000" : "#ffffff"),
    /** The colour of a head among several. @param {number} place */
    head: (place) => HEADS[theme][place % HEADS[theme].length],
    /** 256 colours as bytes: red, green, blue, … */
    bytes: weights,
  };
}

/** Position of a weight on its scale, from 0 to 1. @param {number} value @param {"linear"|"log"} scale */
export function share(value, scale = "linear") {
  if (!(value > 0)) return 0;
  if (scale !== "log") return Math.min(value, 1);
  return Math.min(Math.max(1 - Math.log(value) / Math.log(SMALLEST), 0), 1);
}

/** The WCAG contrast ratio, from 1 to 21. @param {string} one @param {string} other */
export function contrastOf(one, other) {
  const [darker, lighter] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

/** Perceived lightness, from 0 to 1 (the L of OKLab). @param {string} colour */
export function lightnessOf(colour) {
  const [red, green, blue] = partsOf(colour).map(decodedPart);
  const long = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const medium = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const short = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return 0.2104542553 * long + 0.793617785 * medium - 0.0040720468 * short;
}

/** @type {Map<number[][], Uint8ClampedArray>} */
const tables = new Map();

/** Evenly spaced colours along the path through the anchors. @param {number[][]} anchors */
function tableOf(anchors) {
  const known = tables.get(anchors);
  if (known) return known;
  const fine = Array.from({ length: 1001 }, (_, place) => between(anchors, place / 1000));
  const lengths = [0];
  for (let place = 1; place < fine.length; place++) {
    const step = fine[place].map((part, axis) => part - fine[place - 1][axis]);
    lengths.push(lengths[place - 1] + Math.hypot(...step));
  }
  const table = new Uint8ClampedArray(STEPS * 3);
  for (let step = 0, place = 0; step < STEPS; step++) {
    const wanted = (lengths[1000] * step) / (STEPS - 1);
    while (place < 1000 && lengths[place] < wanted - 1e-12) place += 1;
    table.set(toRgb(fine[place]), step * 3);
  }
  tables.set(anchors, table);
  return table;
}

/** @param {number[][]} anchors @param {number} part */
function between(anchors, part) {
  const at = part * (anchors.length - 1);
  const first = Math.min(Math.floor(at), anchors.length - 2);
  const [here, there] = [anchors[first], anchors[first + 1]].map(([lightness, chroma, hue]) => {
    const angle = (hue * Math.PI) / 180;
    return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
  });
  return here.map((number, axis) => number + (there[axis] - number) * (at - first));
}

/** OKLab to sRGB (Björn Ottosson, 2020). @param {number[]} lab */
function toRgb([lightness, a, b]) {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ].map((part) => Math.round(255 * encodedPart(Math.min(Math.max(part, 0), 1))));
}

/** @param {number} part */
function encodedPart(part) {
  return part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055;
}

/** @param {number} part */
function decodedPart(part) {
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

/** @param {string} colour */
function partsOf(colour) {
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16) / 255);
}

/** @param {string} colour */
function luminance(colour) {
  const [red, green, blue] = partsOf(colour).map(decodedPart);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {number} part */
function stepOf(part) {
  return Math.round(Math.min(Math.max(part || 0, 0), 1) * (STEPS - 1));
}

/** @param {Uint8ClampedArray} table @param {number} step */
function hexadecimal(table, step) {
  const parts = table.slice(step * 3, step * 3 + 3);
  return "#" + Array.from(parts, (part) => part.toString(16).padStart(2, "0")).join("");
}
