/**
 * What an element shows, as an SVG of texts, boxes and lines: the export of every view, and so the view itself. Scrolled
 * areas are drawn whole; buttons that only act, and what screen readers alone hear, are left out.
 */
import { svgText } from "./export.js";

const MARGIN = 16;
const LEFT_OUT = ".regard-unseen, .regard-button, .regard-popover, [data-export='no'], noscript, script, style";
const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "visibility",
  "font-family", "font-size", "font-weight", "font-style", "font-variant-numeric", "letter-spacing", "text-anchor", "dominant-baseline", "paint-order"];
const FIELDS = new Set(["INPUT", "TEXTAREA", "SELECT"]);

/** @type {WeakMap<HTMLCanvasElement, () => string>} */
const vectorPictures = new WeakMap();

/** Names the SVG that stands for a canvas in exports. @param {HTMLCanvasElement} canvas @param {() => string} svg */
export function drawsAs(canvas, svg) {
  vectorPictures.set(canvas, svg);
}

/** @typedef {{left: number, top: number, right: number, bottom: number}} Box */

/**
 * @param {HTMLElement} el @param {{ground: string, ink: string, title?: string}} options ground: the background
 */
export function pictureOf(el, { ground, ink, title = "" }) {
  const restore = unfold(el);
  try {
    const drawing = new Drawing(el.getBoundingClientRect(), ink);
    drawing.add(el);
    return drawing.toSvg(ground, title);
  } finally {
    restore();
  }
}

/** Shows scrolled areas whole, and returns what undoes it; both within one task, so nothing of it is seen. @param {HTMLElement} root */
function unfold(root) {
  /** @type {[HTMLElement, string][]} */
  const changed = [];
  for (const el of [root, .../** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("*"))]) {
    if (!(el instanceof HTMLElement) || FIELDS.has(el.tagName)) continue;
    const { overflowX, overflowY, webkitLineClamp, textOverflow } = getComputedStyle(el);
    const scrolls = (/** @type {string} */ overflow) => overflow === "auto" || overflow === "scroll";
    const isCut = webkitLineClamp !== "none" || textOverflow === "ellipsis"; // a text that ends in …
    const across = el.scrollWidth > el.clientWidth + 1 && (isCut || scrolls(overflowX));
    const down = el.scrollHeight > el.clientHeight + 1 && (isCut || scrolls(overflowY));
    if (!across && !down) continue;
    changed.push([el, el.style.cssText]);
    const set = (/** @type {Record<string, string>} */ styles) => Object.entries(styles).forEach(([name, value]) => el.style.setProperty(name, value, "important"));
    set({ overflow: "visible" });
    if (isCut) set({ display: "block", "white-space": "normal", "-webkit-line-clamp": "none", height: "auto", "max-height": "none" });
    else if (across) set({ width: "max-content", "max-width": "none" });
    if (down) set({ height: "auto", "max-height": "none" });
  }
  return () => changed.forEach(([el, style]) => (el.style.cssText = style));
}

class Drawing {
  /** @type {string[]} */
  #parts = [];
  /** @type {Map<string, number>} */
  #baselines = new Map(); // of a font: the part of a line above the baseline
  #pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  #gradients = 0;
  /** @type {Box} */
  #bounds = { left: 0, top: 0, right: 0, bottom: 0 };

  /** @param {DOMRect} frame where the picture begins @param {string} ink */
  constructor(frame, ink) {
    this.frame = frame;
    this.ink = ink;
    this.#bounds = { left: 0, top: 0, right: frame.width, bottom: 0 };
  }

  /** @param {string} ground @param {string} title */
  toSvg(ground, title) {
    const { left, top, right, bottom } = this.#bounds;
    const [x, y, width, height] = [left - MARGIN, top - MARGIN, right - left + 2 * MARGIN, bottom - top + 2 * MARGIN].map(rounded);
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${x} ${y} ${width} ${height}" width="${width}" height="${height}" role="img">` +
      `<title>${svgText(title)}</title><rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${ground}"/>${this.#parts.join("")}</svg>`
    );
  }

  /** @param {Element} el */
  add(el) {
    if (el.matches(LEFT_OUT) || el.getAttribute("aria-hidden") === "true" && !el.getClientRects().length) return;
    const style = getComputedStyle(el);
    if (style.display === "none" || style.opacity === "0") return;
    const isFaint = Number(style.opacity) < 1;
    if (isFaint) this.#parts.push(`<g opacity="${style.opacity}">`);
    if (el instanceof SVGSVGElement) this.#addSvg(el);
    else if (el instanceof HTMLCanvasElement) this.#addCanvas(el);
    else if (el instanceof HTMLImageElement) this.#addImage(el, el.src.startsWith("data:") ? el.src : "");
    else this.#addBox(el, style);
    if (isFaint) this.#parts.push("</g>");
  }

  /** @param {Element} el @param {CSSStyleDeclaration} style */
  #addBox(el, style) {
    const isSeen = style.visibility === "visible";
    if (isSeen) for (const rect of el.getClientRects()) this.#drawBox(rect, style);
    if (FIELDS.has(el.tagName)) {
      if (isSeen) this.#addField(/** @type {HTMLInputElement} */ (el), style);
      return;
    }
    const { content } = getComputedStyle(el, "::before");
    if (isSeen && /^"\S+"$/.test(content)) this.#addBefore(el, content.slice(1, -1), style);
    if (el instanceof HTMLProgressElement) return this.#addShare(el, el.position);
    const isClosed = el instanceof HTMLDetailsElement && !el.open;
    for (const child of el.childNodes) {
      if (child instanceof Element) (!isClosed || child.tagName === "SUMMARY") && this.add(child);
      else if (child instanceof Text && isSeen && !isClosed) this.#addText(child, style);
    }
  }

  /** Background, borders, and the outline or the inset shadow that marks it. @param {DOMRect} rect @param {CSSStyleDeclaration} style */
  #drawBox(rect, style) {
    const { width, height } = rect;
    if (!width || !height) return;
    const [x, y] = this.#at(rect);
    const round = Math.min(parseFloat(style.borderTopLeftRadius) || 0, Math.min(width, height) / 2);
    const box = (/** @type {number} */ inset, /** @type {string} */ paint) =>
      this.#parts.push(`<rect x="${rounded(x + inset)}" y="${rounded(y + inset)}" width="${rounded(Math.max(0, width - 2 * inset))}" height="${rounded(Math.max(0, height - 2 * inset))}"${round ? ` rx="${rounded(Math.max(0, round - inset))}"` : ""} ${paint}/>`);
    if (isColour(style.backgroundColor)) box(0, `fill="${style.backgroundColor}"`);
    const gradient = this.#gradient(style.backgroundImage);
    if (gradient) box(0, gradient);
    const sides = ["Top", "Right", "Bottom", "Left"].map((side) => {
      const of = /** @type {Record<string, string>} */ (/** @type {unknown} */ (style));
      return { width: of[`border${side}Style`] === "none" ? 0 : parseFloat(of[`border${side}Width`]), colour: of[`border${side}Color`] };
    });
    const stroke = (/** @type {{width: number, colour: string}} */ side) => `stroke="${side.colour}" stroke-width="${side.width}"`;
    const isDrawn = (/** @type {{width: number, colour: string}} */ side) => side.width > 0 && isColour(side.colour);
    if (sides.every((side) => isDrawn(side) && side.width === sides[0].width && side.colour === sides[0].colour)) box(sides[0].width / 2, `fill="none" ${stroke(sides[0])}`);
    else {
      const ends = [[x, y, x + width, y], [x + width, y, x + width, y + height], [x, y + height, x + width, y + height], [x, y, x, y + height]];
      sides.forEach((side, place) => {
        const [x1, y1, x2, y2] = ends[place].map(rounded);
        if (isDrawn(side)) this.#parts.push(`<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${stroke(side)}/>`);
      });
    }
    for (const [, colour, thick, inset] of style.boxShadow.matchAll(/(rgba?\([^)]*\)) 0px 0px 0px ([\d.]+)px( inset)?/g))
      box((Number(thick) / 2) * (inset ? 1 : -1), `fill="none" stroke="${colour}" stroke-width="${thick}"`);
    const outline = style.outlineStyle === "none" || style.outlineStyle === "auto" ? 0 : parseFloat(style.outlineWidth);
    if (outline && isColour(style.outlineColor)) box(-(parseFloat(style.outlineOffset) || 0) - outline / 2, `fill="none" stroke="${style.outlineColor}" stroke-width="${outline}"`);
    this.#keep(rect);
  }

  /** The paint of a gradient from left to right; of hatching, its colour. @param {string} image @returns {string} */
  #gradient(image) {
    const stops = [...image.matchAll(/(rgba?\([^)]*\))(?: ([\d.]+)%)?/g)].filter(([, colour]) => isColour(colour));
    if (!image.includes("gradient") || !stops.length) return "";
    if (image.startsWith("repeating")) return `fill="${stops[0][1]}" fill-opacity="0.5"`;
    const id = `gradient-${(this.#gradients += 1)}`;
    const marks = stops.map(([, colour, at], place) => `<stop offset="${at ? Number(at) / 100 : place / (stops.length - 1 || 1)}" stop-color="${colour}"/>`);
    this.#parts.push(`<linearGradient id="${id}">${marks.join("")}</linearGradient>`);
    return `fill="url(#${id})"`;
  }

  /** A text, line by line. @param {Text} node @param {CSSStyleDeclaration} style */
  #addText(node, style) {
    const range = document.createRange();
    /** @type {{text: string, box: Box}[]} */
    const lines = [];
    /** @param {number} start @param {number} end */
    const boxOf = (start, end) => {
      range.setStart(node, start);
      range.setEnd(node, end);
      const rects = [...range.getClientRects()].filter(({ width, height }) => width && height);
      return rects.length ? { ...unionOf(rects), isBroken: rects.some(({ top }) => Math.abs(top - rects[0].top) > 2) } : null;
    };
    /** @param {string} text @param {Box} box @param {string} gap before it, on the same line */
    const add = (text, box, gap) => {
      const last = lines[lines.length - 1];
      if (last && Math.abs(last.box.top - box.top) < 2) Object.assign(last, { text: last.text + gap + text, box: unionOf([last.box, box]) });
      else lines.push({ text, box });
    };
    for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
      const box = boxOf(index, index + word.length);
      if (!box) continue;
      if (!box.isBroken) {
        add(word, box, " ");
        continue;
      }
      for (let place = 0, gap = " "; place < word.length; place++, gap = "") {
        const letter = boxOf(index + place, index + place + 1);
        if (letter) add(word[place], letter, gap);
      }
    }
    for (const { text, box } of lines) this.#drawLine(text, box, style);
  }

  /** @param {string} text @param {Box} box @param {CSSStyleDeclaration} style */
  #drawLine(text, box, style) {
    const size = parseFloat(style.fontSize);
    if (!size) return;
    const shown = style.textTransform === "uppercase" ? text.toUpperCase() : text;
    const [left, top] = this.#at(box);
    const isMirrored = style.direction === "rtl";
    const x = rounded(isMirrored ? left + box.right - box.left : left);
    const y = rounded(top + (box.bottom - box.top) * this.#baseline(style));
    const length = shown.length > 1 ? ` textLength="${rounded(box.right - box.left)}" lengthAdjust="spacingAndGlyphs"` : "";
    const weight = style.fontWeight === "400" ? "" : ` font-weight="${style.fontWeight}"`;
    const slant = style.fontStyle === "normal" ? "" : ` font-style="${style.fontStyle}"`;
    const line = style.textDecorationLine === "none" || !isColour(style.textDecorationColor) ? "" : ` text-decoration="${style.textDecorationLine}"`;
    this.#parts.push(`<text x="${x}" y="${y}" font-family="${svgText(style.fontFamily)}" font-size="${rounded(size)}"${weight}${slant}${line}${isMirrored ? ' direction="rtl"' : ""} fill="${isColour(style.color) ? style.color : this.ink}"${length}>${svgText(shown)}</text>`);
    this.#keep(box);
  }

  /** @param {CSSStyleDeclaration} style */
  #baseline(style) {
    const font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    let part = this.#baselines.get(font);
    if (part === undefined) {
      this.#pen.font = font;
      const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = this.#pen.measureText("x");
      part = above / (above + below);
      this.#baselines.set(font, part);
    }
    return part;
  }

  /** A sign that a style sheet sets before an element's content. @param {Element} el @param {string} sign @param {CSSStyleDeclaration} style */
  #addBefore(el, sign, style) {
    const { left, top } = el.getBoundingClientRect();
    const size = parseFloat(style.fontSize);
    this.#drawLine(sign, { left: left + 4, right: left + 4 + 0.8 * size * sign.length, top: top + 2, bottom: top + 2 + 1.2 * size }, style);
  }

  /** What a field holds. @param {HTMLInputElement|HTMLTextAreaElement|HTMLSelectElement} el @param {CSSStyleDeclaration} style */
  #addField(el, style) {
    const rect = el.getBoundingClientRect();
    if (!rect.width) return;
    const { type, value } = el;
    if (type === "range") {
      const [low, high] = [Number(/** @type {HTMLInputElement} */ (el).min || 0), Number(/** @type {HTMLInputElement} */ (el).max || 100)];
      return this.#addShare(el, (Number(value) - low) / (high - low || 1));
    }
    const mark = type === "checkbox" || type === "radio" ? (/** @type {HTMLInputElement} */ (el).checked ? "☑" : "☐") : null;
    const chosen = el instanceof HTMLSelectElement ? (el.selectedOptions[0]?.text ?? "") : value;
    const text = mark ?? (chosen || (el instanceof HTMLSelectElement ? "" : el.placeholder));
    const size = parseFloat(style.fontSize);
    const left = rect.left + (mark ? 0 : parseFloat(style.paddingLeft));
    if (type === "file" || !text) return;
    this.#pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    text.split("\n").forEach((line, place) => {
      const middle = el instanceof HTMLTextAreaElement ? rect.top + parseFloat(style.paddingTop) + size * (0.7 + 1.3 * place) : rect.top + rect.height / 2;
      this.#drawLine(line, { left, right: left + this.#pen.measureText(line).width, top: middle - 0.6 * size, bottom: middle + 0.6 * size }, style);
    });
  }

  /** A slider or a bar. @param {Element} el @param {number} share */
  #addShare(el, share) {
    const rect = el.getBoundingClientRect();
    const [x, y] = this.#at(rect);
    const middle = y + rect.height / 2;
    this.#parts.push(`<line x1="${rounded(x)}" y1="${rounded(middle)}" x2="${rounded(x + rect.width)}" y2="${rounded(middle)}" stroke="${this.ink}" stroke-opacity="0.3" stroke-width="4" stroke-linecap="round"/>`);
    this.#parts.push(`<circle cx="${rounded(x + Math.max(0, Math.min(1, share)) * rect.width)}" cy="${rounded(middle)}" r="6" fill="${this.ink}"/>`);
    this.#keep(rect);
  }

  /** As its vector picture, where the view has one: its texts stay texts. @param {HTMLCanvasElement} el */
  #addCanvas(el) {
    const rect = el.getBoundingClientRect();
    const svg = rect.width ? vectorPictures.get(el)?.() : undefined;
    if (!svg) return this.#addImage(el, el.width && el.height ? el.toDataURL() : "");
    const place = Object.entries({ x: this.#at(rect)[0], y: this.#at(rect)[1], width: rect.width, height: rect.height });
    this.#parts.push(svg.replace(/<svg[^>]*>/, (tag) => tag.replace(/ (width|height)="[^"]*"/g, "").replace("<svg", `<svg ${place.map(([name, value]) => `${name}="${rounded(value)}"`).join(" ")}`)));
    this.#keep(rect);
  }

  /** @param {Element} el @param {string} address */
  #addImage(el, address) {
    const rect = el.getBoundingClientRect();
    if (!address || !rect.width) return;
    const [x, y] = this.#at(rect);
    const style = getComputedStyle(el);
    this.#drawBox(rect, style);
    const edge = parseFloat(style.borderTopWidth) || 0;
    const [width, height] = [rect.width - 2 * edge, rect.height - 2 * edge].map(rounded);
    const crisp = style.imageRendering === "pixelated" ? ' image-rendering="pixelated"' : "";
    this.#parts.push(`<image x="${rounded(x + edge)}" y="${rounded(y + edge)}" width="${width}" height="${height}" preserveAspectRatio="none"${crisp} href="${address}"/>`);
  }

  /** A picture that is SVG already, with the style that the page gives it. @param {SVGSVGElement} el */
  #addSvg(el) {
    const rect = el.getBoundingClientRect();
    if (!rect.width || !rect.height || getComputedStyle(el).visibility !== "visible") return;
    const copy = /** @type {SVGSVGElement} */ (el.cloneNode(true));
    const [from, to] = [[el, ...el.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
    from.forEach((source, place) => {
      const style = getComputedStyle(source);
      const target = /** @type {SVGElement} */ (to[place]);
      if (style.display === "none" || source.matches(LEFT_OUT)) return target.remove();
      for (const name of PAINT) {
        const value = style.getPropertyValue(name);
        if (value) target.setAttribute(name, value);
      }
      if (place && style.transform !== "none" && !source.hasAttribute("transform")) {
        const [x, y] = style.transformOrigin.split(" ").map(parseFloat);
        const box = style.transformBox === "fill-box" && source instanceof SVGGraphicsElement ? source.getBBox() : { x: 0, y: 0 };
        target.setAttribute("transform", `translate(${box.x + x} ${box.y + y}) ${style.transform} translate(${-box.x - x} ${-box.y - y})`);
      }
      for (const name of ["style", "class", "tabindex", "aria-label", "aria-hidden", "aria-describedby", "role"]) target.removeAttribute(name);
    });
    const [x, y] = this.#at(rect);
    for (const [name, value] of Object.entries({ x: rounded(x), y: rounded(y), width: rounded(rect.width), height: rounded(rect.height), overflow: "visible" })) copy.setAttribute(name, String(value));
    this.#parts.push(new XMLSerializer().serializeToString(copy));
    for (const part of el.querySelectorAll("text, path, rect, circle, line")) if (part.getClientRects().length) this.#keep(part.getBoundingClientRect());
    this.#keep(rect);
  }

  /** @param {Box} box @returns {[number, number]} */
  #at({ left, top }) {
    return [left - this.frame.left, top - this.frame.top];
  }

  /** @param {Box} box */
  #keep(box) {
    const [left, top] = this.#at(box);
    this.#bounds = unionOf([this.#bounds, { left, top, right: left + box.right - box.left, bottom: top + box.bottom - box.top }]);
  }
}

/** @param {Box[]} boxes @returns {Box} */
function unionOf(boxes) {
  return {
    left: Math.min(...boxes.map(({ left }) => left)),
    top: Math.min(...boxes.map(({ top }) => top)),
    right: Math.max(...boxes.map(({ right }) => right)),
    bottom: Math.max(...boxes.map(({ bottom }) => bottom)),
  };
}

/** @param {string} colour */
function isColour(colour) {
  return Boolean(colour) && colour !== "transparent" && !/^rgba.*, 0\)$/.test(colour);
}

/** @param {number} number */
function rounded(number) {
  return Math.round(number * 100) / 100;
}
