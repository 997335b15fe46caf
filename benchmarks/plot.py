"""The plot of the README: how much of the machine's limit each peer reaches, over the number of tokens."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from cases import LENGTHS, LONG
from peers import PEERS
from targets import Outcome

NAME = "share-of-limit.svg"
COLOURS = {  # told apart by everyone, in print and without colours by the shapes beside them
    "regard": "#c2185b",
    "torch_fused": "#e07b00",
    "ort_multihead": "#1565c0",
    "ort_attention": "#4aa3df",
    "ort_group_query": "#00838f",
    "torch_flex": "#f2b134",
    "openvino": "#6a3fb5",
    "torch_eager": "#8a6d3b",
    "numpy": "#757575",
}
DASHES = {
    "ort_attention": "6 3",
    "ort_group_query": "8 2 2 2",
    "torch_flex": "4 2",
    "openvino": "10 3",
    "torch_eager": "2 3",
    "numpy": "1 4",
}
PANELS = ((64, False), (64, True), (128, False), (128, True))
WIDTH, LEFT, TOP, BESIDE, BELOW = 880, 52, 84, 54, 66
PLOT, TALL = (WIDTH - LEFT - BESIDE - 16) / 2, 168
INK, MUTED, RULE = "#1b1f27", "#5b6472", "#d9dde3"


def draw(outcome: Outcome, facts: dict[str, Any]) -> str:
    """Four panels: size 64 and 128, all keys visible and causal."""
    height = TOP + 2 * (TALL + BELOW)
    about = f"{facts['processor']}, {facts['cores']} cores, {facts['instructions']}, {facts['date']}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="system-ui, sans-serif" font-size="12">',
        f"<title>Share of the machine's limit over the number of tokens: {escape(about)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="22" font-size="15" font-weight="600" fill="{INK}">Attention: share of the'
        " processor's limit (fused multiply-adds, all cores) over tokens</text>",
        *_legend(outcome),
    ]
    for at, (size, causal) in enumerate(PANELS):
        x = LEFT + at % 2 * (PLOT + BESIDE)
        y = TOP + at // 2 * (TALL + BELOW) + 22
        parts += _panel(outcome, size, causal, x, y)
    return "\n".join([*parts, "</svg>", ""])


def _legend(outcome: Outcome) -> list[str]:
    """The peers that were measured, in up to two lines."""
    parts, x, y = [], 16.0, 44
    for name in COLOURS:
        if all(name not in one.timings for one in outcome.of("forward")):
            continue
        label = PEERS[name].label
        wide = 28 + 7.2 * len(label)
        if x + wide > WIDTH:
            x, y = 16.0, y + 18
        weight = ' font-weight="600"' if name == "regard" else ""
        parts += [
            f'<path d="M{x:g} {y}h22" {_stroke(name)}/>',
            f'<text x="{x + 28:g}" y="{y + 4}" fill="{INK}"{weight}>{escape(label)}</text>',
        ]
        x += wide + 22
    return parts


def _stroke(name: str) -> str:
    dashes = f' stroke-dasharray="{DASHES[name]}"' if name in DASHES else ""
    width = 3 if name == "regard" else 1.8
    return f'fill="none" stroke="{COLOURS[name]}" stroke-width="{width}"{dashes}'


def _panel(outcome: Outcome, size: int, causal: bool, x: float, y: float) -> list[str]:
    title = f"size {size}, {'causal' if causal else 'all keys visible'}"
    parts = [f'<text x="{x:g}" y="{y - 8:g}" font-weight="600" fill="{INK}">{title}</text>']
    for share in (0, 25, 50, 75, 100):
        line = y + TALL * (1 - share / 100)
        parts += [
            f'<path d="M{x:g} {line:g}h{PLOT:g}" stroke="{RULE}"/>',
            f'<text x="{x - 6:g}" y="{line + 4:g}" text-anchor="end" fill="{MUTED}">{share}%</text>',
        ]
    lengths = (*LENGTHS, LONG)
    for n in lengths:
        parts.append(
            f'<text x="{_across(n, x):g}" y="{y + TALL + 18:g}" text-anchor="middle" fill="{MUTED}">{n:,}</text>'
        )
    parts.append(f'<text x="{x + PLOT:g}" y="{y + TALL + 34:g}" text-anchor="end" fill="{MUTED}">tokens</text>')
    for name in reversed(COLOURS):  # Regard's line on top
        points = [
            (_across(one.case.queries, x), y + TALL * (1 - min(1.0, share)))
            for one in outcome.of("forward", lambda case: (case.size, case.causal) == (size, causal))
            if (share := one.ratio("limit", name)) is not None
        ]
        if points:
            path = "L".join(f"{across:.1f} {down:.1f}" for across, down in points)
            parts.append(f'<path d="M{path}" {_stroke(name)}/>')
            radius = 3.2 if name == "regard" else 2.2
            dots = (f'<circle cx="{across:.1f}" cy="{down:.1f}" r="{radius}"/>' for across, down in points)
            parts.append(f'<g fill="{COLOURS[name]}">{"".join(dots)}</g>')
    return parts


def _across(n: int, x: float) -> float:
    low, high = math.log2(LENGTHS[0]), math.log2(LONG)
    return x + 14 + (PLOT - 28) * (math.log2(n) - low) / (high - low)
