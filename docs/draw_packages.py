"""Draws the map of packages in ARCHITECTURE.md: `make picture`. Its rows are those of test_import_direction.py."""

from __future__ import annotations

import ast
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "packages.svg"

ABOUT = {
    "errors": "what went wrong",
    "validate": "arguments",
    "arrays": "NumPy or PyTorch",
    "tables": "every result",
    "codec": "safetensors",
    "examples": "the slides' numbers",
    "masks": "visible keys as intervals",
    "biases": "ALiBi, relative positions",
    "engines": "Scores, and who computes them: native (C++), NumPy, PyTorch",
    "attention": "the matrix that is never built",
    "layers": "linear, norms, multi-head, the block, transformer",
    "trace": "every step of a small input",
    "reading": "a text and one attention per layer",
    "teaching": "look-up, scaling, hand calculations",
    "models": "checkpoints, tokenisers, the store",
    "watch": "models of others while they run",
    "transformers": "attn_implementation",
    "heads": "what each head does",
    "training": "learned weights",
    "attribution": "where an answer comes from",
    "edits": "heads silenced, edges blocked, runs patched",
    "slides": "a lecture about a sentence, as slides",
    "output": "terminal, tables, figures",
    "viewer": "answers the page (web/)",
    "studio": "the local server",
    "site": "static pages",
    "cli": "one file per command",
}
WIDTH, ROW, GAP, MARGIN = 880, 52, 10, 16
INK, MUTED, EDGE, FILL = "#1b1f27", "#5b6472", "#868e9b", "#f5f6f9"


def floors() -> list[list[str]]:
    """Packages and modules of each floor, the ground first; small helper modules of the ground are left out."""
    tree = ast.parse((ROOT / "tests" / "test_import_direction.py").read_text(encoding="utf-8"))
    (found,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FLOORS"
    )
    there = {path.stem for path in (ROOT / "src" / "regard").iterdir()}
    rows = [[name for name in floor if name in ABOUT and name in there] for floor in found]
    return [row for row in rows if row]


def draw() -> str:
    """The picture as SVG: each row imports only rows below it."""
    rows = floors()
    height = 2 * MARGIN + len(rows) * (ROW + GAP) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="system-ui, sans-serif">',
        "<title>Packages of Regard: each row imports only rows below it</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<g stroke="{EDGE}" fill="none"><path d="M{MARGIN + 6} {MARGIN}V{height - MARGIN - 2}"/>'
        f'<path d="M{MARGIN + 1} {height - MARGIN - 10}l5 8 5 -8"/></g>',
        f'<text x="0" y="0" font-size="12" fill="{MUTED}" text-anchor="middle"'
        f' transform="translate({MARGIN + 26} {height / 2:g}) rotate(-90)">imports point down</text>',
    ]
    left = MARGIN + 44
    for place, row in enumerate(reversed(rows)):
        y = MARGIN + place * (ROW + GAP)
        box = (WIDTH - left - MARGIN - (len(row) - 1) * GAP) / len(row)
        for at, name in enumerate(row):
            x = left + at * (box + GAP)
            small = 10 if len(ABOUT[name]) * 5.3 > box - 12 else 11.5
            parts += [
                f'<rect x="{x:g}" y="{y}" width="{box:g}" height="{ROW}" rx="7" fill="{FILL}" stroke="{EDGE}"/>',
                f'<text x="{x + box / 2:g}" y="{y + 22}" text-anchor="middle" font-size="15" font-weight="600"'
                f' fill="{INK}">{name}</text>',
                f'<text x="{x + box / 2:g}" y="{y + 40}" text-anchor="middle" font-size="{small:g}"'
                f' fill="{MUTED}">{escape(ABOUT[name])}</text>',
            ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
